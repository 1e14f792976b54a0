"""Endpoint rows: complete, consistent, and without visible secrets."""

from dataclasses import replace

import pytest

from antiphon.backends.registry import ENDPOINTS, Endpoint, default_endpoint, endpoint_kind
from antiphon.errors import SettingsError


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_every_row_makes_an_endpoint(kind: str) -> None:
    endpoint = default_endpoint(kind)
    assert endpoint.name == endpoint.kind == kind
    assert endpoint.quirks is ENDPOINTS[kind].quirks
    assert ENDPOINTS[kind].base_url == endpoint.base_url


def test_a_configured_address_wins_and_loses_its_trailing_slash() -> None:
    assert default_endpoint("vllm", "http://gpu:9000/v1/").base_url == "http://gpu:9000/v1"


def test_an_unknown_kind_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"'vlm'.*plain.*vllm"):
        endpoint_kind("vlm")


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "localhost:8000",
        "ftp://host/v1",
        "http://user:password@host/v1",
        "http://host/v1?x=1",
        "http:// host",
    ],
)
def test_an_address_that_cannot_work_is_rejected_at_startup(base_url: str) -> None:
    with pytest.raises(SettingsError, match="base_url"):
        Endpoint(name="x", base_url=base_url)


def test_a_key_with_a_line_break_is_rejected_at_startup() -> None:
    with pytest.raises(SettingsError, match="line break"):
        replace(default_endpoint("plain"), api_key="sk-1\n")


def test_secrets_do_not_show_in_the_representation() -> None:
    endpoint = replace(default_endpoint("plain"), api_key="sk-secret", headers={"x-key": "other-secret"})
    assert "secret" not in repr(endpoint)
    assert endpoint.secrets == ("sk-secret", "other-secret")
