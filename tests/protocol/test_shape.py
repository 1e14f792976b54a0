"""The wire form of a response, by profile."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from antiphon.errors import AntiphonError, BackendBroken, BackendRefused, Unavailable
from antiphon.protocol.events import Event, Keepalive, ResponseCompleted, ResponseCreated, ResponseIncomplete
from antiphon.protocol.items import CustomToolCall, FunctionCall
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.profile import MAESTRO, OPENAI, PROXY, Profile
from antiphon.protocol.requests import StreamOptions
from antiphon.protocol.response import (
    IncompleteDetails,
    InputTokensDetails,
    OutputTokensDetails,
    Response,
    Usage,
    new_response,
)
from antiphon.protocol.shape import Shape, error_wire, finish_reason
from antiphon.protocol.tool_items import ShellCall, ToolSearchCall

BEGUN = new_response(create_from(model="m", input="hi"), id="resp_1", created_at=7)
USAGE = Usage(3, InputTokensDetails(), 2, OutputTokensDetails(), 5)
DONE = replace(BEGUN, status="completed", usage=USAGE)
CALL = FunctionCall(id="fc_1", call_id="call_1", name="look", arguments="{}", status="completed")
CUSTOM = CustomToolCall(id="ctc_1", call_id="call_1", name="patch", input="x", status="completed")
SHELL = ShellCall(id="sh_1", call_id="call_1", action={"commands": ["ls"]}, status="completed")
SEARCHED = ToolSearchCall(id="tsc_1", call_id=None, execution="server", arguments={}, status="completed")
CUT = replace(BEGUN, status="incomplete", incomplete_details=IncompleteDetails("max_output_tokens"))


def shaped(profile: Profile, response: Response, stream: StreamOptions | None = None) -> dict[str, Any]:
    return msgspec.json.decode(Shape(profile, stream).encode(response))


@pytest.mark.parametrize("profile", [OPENAI, MAESTRO])
def test_most_profiles_send_the_response_unchanged(profile: Profile) -> None:
    assert Shape(profile).encode(DONE) == msgspec.json.encode(DONE)
    event = ResponseIncomplete(4, CUT)
    assert Shape(profile).encode_event(event) == ("response.incomplete", msgspec.json.encode(event))


def test_a_shaped_response_has_all_members_of_the_plain_one() -> None:
    plain = shaped(OPENAI, DONE)
    assert shaped(PROXY, DONE) == {**plain, "created": 7}
    assert "downgrades" not in shaped(PROXY, DONE)
    assert shaped(PROXY, replace(DONE, downgrades=["x"]))["downgrades"] == ["x"]


def test_unknown_usage_is_absent_or_zeros() -> None:
    zeros = replace(PROXY, usage="zeros")
    assert "usage" not in shaped(PROXY, BEGUN)
    assert shaped(zeros, BEGUN)["usage"]["total_tokens"] == 0
    assert shaped(zeros, DONE, StreamOptions())["usage"]["total_tokens"] == 5


def test_a_stream_includes_usage_on_request() -> None:
    assert "usage" not in shaped(PROXY, DONE, StreamOptions())
    assert "usage" not in shaped(PROXY, DONE, StreamOptions(include_usage=False))
    assert shaped(PROXY, DONE, StreamOptions(include_usage=True))["usage"]["total_tokens"] == 5
    assert shaped(OPENAI, DONE, StreamOptions())["usage"]["total_tokens"] == 5


def test_only_events_with_a_response_are_shaped() -> None:
    shape = Shape(PROXY, StreamOptions())
    created = msgspec.json.decode(shape.encode_event(ResponseCreated(0, BEGUN))[1])
    assert created["type"] == "response.created"
    assert created["sequence_number"] == 0
    assert created["response"]["created"] == 7
    keepalive: Event = Keepalive(1)
    assert shape.encode_event(keepalive) == ("keepalive", msgspec.json.encode(keepalive))


def test_an_incomplete_answer_is_sent_as_completed() -> None:
    kind, body = Shape(PROXY).encode_event(ResponseIncomplete(4, CUT))
    event = msgspec.json.decode(body)
    assert kind == event["type"] == "response.completed"
    assert event["response"]["status"] == "incomplete"
    assert event["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (BEGUN, None),
        (DONE, "stop"),
        (replace(DONE, output=[CALL]), "tool_calls"),
        (replace(DONE, output=[CUSTOM]), "tool_calls"),
        (replace(DONE, output=[SHELL]), "tool_calls"),
        (replace(DONE, output=[SEARCHED]), "stop"),
        (CUT, "length"),
        (replace(CUT, incomplete_details=IncompleteDetails("content_filter")), "content_filter"),
        (replace(BEGUN, status="failed"), "error"),
        (replace(BEGUN, status="cancelled"), "cancelled"),
    ],
)
def test_the_finish_reason_follows_from_the_response(response: Response, reason: str | None) -> None:
    assert finish_reason(response) == reason
    debugging = replace(PROXY, finish_reason="body")
    assert shaped(debugging, response).get("_proxy") == (reason and {"finish_reason": reason})
    assert "_proxy" not in shaped(PROXY, response)
    _, event = Shape(debugging).encode_event(ResponseCompleted(1, response))
    assert msgspec.json.decode(event)["response"].get("_proxy") == (reason and {"finish_reason": reason})


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (BackendBroken("x"), 500, "internal_error"),
        (BackendRefused("x", status=503), 500, "internal_error"),
        (AntiphonError("a bug"), 500, "internal_error"),
        (BackendRefused("x", status=429), 429, "rate_limit_error"),
        (Unavailable(), 503, "server_error"),
    ],
)
def test_an_upstream_failure_may_be_sent_as_an_internal_error(
    error: AntiphonError, status: int, kind: str
) -> None:
    status_sent, wire = error_wire(error, MAESTRO)
    assert (status_sent, wire["type"]) == (status, kind)
    assert error_wire(error, OPENAI) == (error.status, error.to_wire())
