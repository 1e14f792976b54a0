"""Errors of the engine, with the names of the caller's API."""

import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.parse_create import create_from
from antiphon.server.compat.api import CompatRequest, Names, Place

REQUEST = CompatRequest(
    request=create_from(model="m", input="hi"),
    names=Names(params={"max_output_tokens": "max_tokens"}, members={".image_url": ".source"}),
    places=(Place("system"), Place("messages[0]", (2, 3, 3)), Place("messages[1].content[3]")),
)


@pytest.mark.parametrize(
    ("param", "named"),
    [
        ("max_output_tokens", "max_tokens"),
        ("model", "model"),
        ("input[0]", "system"),
        ("input[1].content[1].image_url", "messages[0].content[3].source"),
        ("input[1].content[2].image_url", "messages[0].content[3].source"),
        ("input[1].content[7].image_url", "messages[0].content[7].source"),
        ("input[2].output[0].image_url", "messages[1].content[3].content[0].source"),
        ("input[2].call_id", "messages[1].content[3].call_id"),
        ("input[9].content[0]", "input[9].content[0]"),
        ("tools[0].type", "tools[0].type"),
    ],
)
def test_blame(param: str, named: str) -> None:
    error = InvalidRequest(f"'{param}' is wrong.", param=param)
    REQUEST.blame(error)
    assert (error.param, error.message) == (named, f"'{named}' is wrong.")


def test_an_error_without_a_param() -> None:
    error = InvalidRequest("Something is wrong.")
    REQUEST.blame(error)
    assert (error.param, error.message) == (None, "Something is wrong.")
