"""Which clients may ask for the catalogue."""

import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.codex_catalogue import parse_client_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.166.0", (0, 166, 0)),
        ("0.140.0", (0, 140, 0)),
        ("1.0.0", (1, 0, 0)),
        ("0.167.0-alpha.2", (0, 167, 0)),
        ("0.0.0", (0, 0, 0)),
    ],
)
def test_a_version_that_reads_this_form_is_welcome(text: str, version: tuple[int, int, int]) -> None:
    assert parse_client_version(text) == version


@pytest.mark.parametrize(
    "text", ["", "latest", "0.166", "v0.166.0", "0.166.0.1", "0.166.0\n", "-1.0.0", "9" * 99]
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is no version of Codex") as caught:
        parse_client_version(text)
    assert (caught.value.param, caught.value.code) == ("client_version", "unknown_client")


@pytest.mark.parametrize("text", ["0.139.9", "0.80.0", "0.0.1"])
def test_a_version_that_reads_another_form_is_told_to_update(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"Use version 0\.140\.0 or newer") as caught:
        parse_client_version(text)
    assert caught.value.code == "unknown_client"
