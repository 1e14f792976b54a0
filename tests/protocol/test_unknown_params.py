"""Unknown members of a request: accepted, and reported with the nearest known name."""

from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.frames import parse_create_frame
from antiphon.protocol.large_body import LargeBody
from antiphon.protocol.parse_create import create_from, parse_count, parse_create, without_items
from antiphon.protocol.profile import OPENAI, PROFILES, Profile
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.unknown_params import MAX_REPORTED_NAME_CHARACTERS, MAX_REPORTED_PARAMS
from antiphon.turn.context import build_turn


def body(**members: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "input": "hi", **members})


def reported(request: CreateResponse) -> list[str]:
    return [downgrade.render() for downgrade in build_turn(request, model="m").downgrades]


@pytest.mark.requirement("PROTOCOL/create-unknown-reported")
@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_an_unknown_parameter_is_reported_with_the_nearest_name(profile: Profile) -> None:
    request = parse_create(body(temprature=0.5, maxOutputTokens=5, quux=None), profile)
    assert reported(request) == [
        "temprature: unknown; did you mean temperature?",
        "maxOutputTokens: unknown; did you mean max_output_tokens?",
        "quux: unknown",
    ]
    assert request.params.temperature is None


def test_it_is_reported_in_process_and_on_a_socket_too() -> None:
    expected = ["tool: unknown; did you mean tools?"]
    assert reported(create_from(model="m", input="hi", tool=[])) == expected
    assert reported(parse_create_frame(body(type="response.create", tool=[])).request) == expected


def test_what_codex_and_sockets_send_is_known() -> None:
    sent = body(client_metadata={"a": "b"}, stream_options={"reasoning_summary_delivery": "x"})
    assert reported(parse_create(sent)) == []
    frame = body(client_metadata={}, type="response.create", stream_id="a", generate=False, stream=True)
    assert reported(parse_create_frame(frame).request) == []


def test_it_is_reported_of_a_large_body_too() -> None:
    large = LargeBody("secret")
    large.add(body(temprature=0.5, instructions="x" * 100_000))
    request = parse_create(large)
    assert reported(request) == ["temprature: unknown; did you mean temperature?"]
    assert request.params.instructions == "x" * 100_000


def test_many_and_long_names_are_bounded() -> None:
    many = reported(parse_create(body(**{f"k{number}": 1 for number in range(10_000)})))
    assert many[0] == "k0: unknown"
    assert many[-1] == f"and {10_000 - MAX_REPORTED_PARAMS} more unknown parameters"
    assert len(many) == MAX_REPORTED_PARAMS + 1
    (long,) = reported(parse_create(body(**{"k" * 10_000: 1})))
    assert long == "k" * MAX_REPORTED_NAME_CHARACTERS + ": unknown"


def test_an_error_beside_an_unknown_parameter_is_the_error() -> None:
    for profile in PROFILES.values():
        with pytest.raises(InvalidRequest) as caught:
            parse_create(body(quux=1, temperature="warm"), profile)
        assert caught.value.param == "temperature"


def test_a_stored_request_keeps_the_name_without_its_value() -> None:
    stored = without_items(body(temprature="secret"))
    assert b"secret" not in stored
    again = parse_create(stored, OPENAI, input_optional=True)
    assert reported(again) == ["temprature: unknown; did you mean temperature?"]


def test_a_count_accepts_unknown_parameters() -> None:
    assert parse_count(body(personality="friendly")).params.model == "m"
