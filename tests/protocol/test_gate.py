"""The checks that a profile makes first."""

from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.profile import DEFAULT_PROFILES, MAESTRO, OPENAI, PROXY, Profile


def refusal(profile: Profile, **members: Any) -> tuple[str | None, str | None]:
    with pytest.raises(InvalidRequest) as caught:
        parse_create(msgspec.json.encode(members), profile)
    return caught.value.param, caught.value.code


def test_checks_come_in_the_order_of_the_profile() -> None:
    wrong = {"previous_response_id": 1, "conversation": 2, "temperature": "hot", "n": 0}
    assert refusal(MAESTRO, **wrong)[0] == "previous_response_id"
    assert refusal(MAESTRO, **{**wrong, "previous_response_id": None})[0] == "conversation"
    assert refusal(MAESTRO, temperature="hot")[0] == "model"
    assert refusal(MAESTRO, temperature="hot", model="m")[0] == "input"
    assert refusal(MAESTRO, temperature="hot", model="m", input="hi")[0] == "temperature"
    assert refusal(PROXY, **wrong)[0] == "n"
    assert refusal(PROXY, **{**wrong, "n": 1})[0] == "model"
    assert refusal(PROXY, **{**wrong, "n": 1, "model": "m"})[0] == "previous_response_id"
    assert refusal(OPENAI, **wrong)[0] != "n"


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "x", "0", "", "\u0661", "9" * 5000, [], {}])
def test_n_is_a_positive_integer(count: object) -> None:
    assert refusal(PROXY, model="m", input="hi", n=count) == ("n", "invalid_value")


@pytest.mark.parametrize("count", [2, "3", 128, 2.0, 10**30, 10**400])
def test_more_than_one_answer_is_not_served(count: object) -> None:
    assert refusal(PROXY, model="m", input="hi", n=count) == ("n", "n_unsupported")


@pytest.mark.parametrize("count", [1, "1", 1.0, None])
def test_n_of_one_is_accepted(count: object) -> None:
    assert parse_create(msgspec.json.encode({"model": "m", "input": "hi", "n": count}), PROXY)


def test_ignored_params_may_have_any_value() -> None:
    body = {"model": "m", "input": "hi", **{key: {"odd": [1]} for key in MAESTRO.ignored}}
    request = parse_create(msgspec.json.encode(body), MAESTRO)
    assert request.params.store is False, "nothing is stored"
    assert all(getattr(request.params, name) is None for name in MAESTRO.ignored - {"store"})
    assert refusal(OPENAI, **body)[1] == "invalid_type"


def test_an_empty_input_with_instructions_adds_no_message() -> None:
    body = {"model": "m", "input": "", "instructions": "Say hello."}
    assert parse_create(msgspec.json.encode(body), MAESTRO).items == ()


@pytest.mark.parametrize("body", [b"[]", b"3", b'"x"', b"{", b""])
@pytest.mark.parametrize("profile", [MAESTRO, PROXY])
def test_a_body_that_is_no_object_is_rejected(body: bytes, profile: Profile) -> None:
    with pytest.raises(InvalidRequest):
        parse_create(body, profile)


def test_tools_that_are_not_served_are_not_read() -> None:
    odd = {"type": "image_gen", "size": {"any": "thing"}}
    request = parse_create(msgspec.json.encode({"model": "m", "input": "hi", "tools": [odd]}), MAESTRO)
    assert len(request.tools) == 1
    assert refusal(OPENAI, model="m", input="hi", tools=[odd])[0] == "tools[0].type"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"background": True}, "background"),
        ({"context_management": [{"type": "compaction", "compact_threshold": 9}]}, "context_management"),
        ({"input": [{"role": "user", "content": "hi"}, {"type": "compaction_trigger"}]}, "input[1]"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
    ],
)
def test_params_without_a_place_in_the_layout_are_rejected(members: dict[str, Any], param: str) -> None:
    body = {"model": "m", "input": "hi", **members}
    assert refusal(PROXY, **body) == (param, "unsupported_parameter")
    assert parse_create(msgspec.json.encode(body), OPENAI)


def test_the_header_names_a_profile_in_any_case() -> None:
    assert DEFAULT_PROFILES.named(b" Maestro ") is MAESTRO
    assert DEFAULT_PROFILES.named(b"") is OPENAI
    with pytest.raises(InvalidRequest, match="'openai', 'maestro', 'proxy'"):
        DEFAULT_PROFILES.named(b"\xff")
