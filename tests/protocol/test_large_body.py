"""Large bodies, whose texts are decoded piece by piece."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidRequest
from antiphon.protocol import large_body
from antiphon.protocol.large_body import LargeBody
from antiphon.protocol.parse_create import parse_create, without_items
from antiphon.protocol.profile import MAESTRO, OPENAI, PROXY, Profile

PIECE_BYTES = 8 * 1024 + 1
SECRET = "0123456789abcdef"
LONG = 'A "quoted" \\ line\nand é, 日, 😀. ' * 2000


def received(body: bytes, cuts: Sequence[int] = (PIECE_BYTES,)) -> LargeBody:
    """The body in pieces of these sizes, in turn."""
    large, at = LargeBody(SECRET), 0
    while at < len(body):
        size = cuts[at % len(cuts)]
        large.add(body[at : at + size])
        at += size
    return large


PARTS = (*'ab"\\/\n\x01é日😀u', "d83d", "ude00")
TEXTS = st.lists(st.sampled_from(PARTS), max_size=60).map("".join)
PLAIN = st.none() | st.booleans() | st.integers(-5, 5) | TEXTS
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)
CUTS = st.lists(st.integers(1, 30), min_size=1, max_size=5)


@given(st.dictionaries(TEXTS, VALUES, max_size=3), st.booleans(), CUTS)
def test_the_cuts_do_not_change_what_is_decoded(value: Any, escaped: bool, cuts: list[int]) -> None:
    body = json.dumps(value, ensure_ascii=escaped).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_body, "MIN_TAKEN_BYTES", 3)
        large = received(body, cuts)
    assert large.decode("x") == value
    assert json.loads(b"".join(large.encoded())) == value
    assert len(large) == len(body)


@given(st.dictionaries(TEXTS, VALUES, max_size=3), CUTS, st.data())
def test_a_body_that_is_not_valid_stays_so(value: Any, cuts: list[int], data: st.DataObject) -> None:
    body = bytearray(json.dumps(value).encode())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at : at + data.draw(st.integers(0, 1))] = data.draw(
        st.sampled_from([b'"', b"\\", b"u", b"\xff", b""])
    )
    try:
        expected = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        expected = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_body, "MIN_TAKEN_BYTES", 3)
        large = received(bytes(body), cuts)
    if expected is not None:
        assert large.decode("x") == expected
        return
    with pytest.raises(InvalidRequest) as caught:
        large.decode("x")
    assert caught.value.code == "invalid_json"


@pytest.mark.parametrize("character", ["x", "\n", '"', "\\", "é", "日", "😀"])
@pytest.mark.parametrize("escaped", [True, False])
def test_little_is_left_to_decode_at_once(character: str, escaped: bool) -> None:
    body = json.dumps({"model": "mmm", "input": character * 2**20}, ensure_ascii=escaped).encode()
    large = received(body)
    assert large.has_texts
    assert len(large.skeleton()) < 3 * PIECE_BYTES


def test_short_texts_are_decoded_with_the_rest() -> None:
    body = json.dumps({"input": ["short"] * 20_000}).encode()
    large = received(body)
    assert not large.has_texts
    assert large.skeleton() == body


def test_keys_that_are_long_texts_stay_different() -> None:
    value = {"a" * PIECE_BYTES * 3: 1, "b" * PIECE_BYTES * 3: 2}
    assert received(json.dumps(value).encode()).decode("x") == value


REQUESTS: list[dict[str, Any]] = [
    {"model": "m", "input": LONG},
    {"model": "m", "instructions": LONG, "input": [{"role": "user", "content": LONG}]},
    {
        "model": "m",
        "input": LONG,
        "temperature": 1,
        "n": None,
        "seed": 3,
        "stop": None,
        "tool_choice": "auto",
    },
    {"model": "m", "background": True, "metadata": {"a": "b"}, "input": LONG, "instructions": LONG},
]


@pytest.mark.parametrize("profile", [OPENAI, PROXY])
@pytest.mark.parametrize("members", REQUESTS)
def test_a_request_is_the_same(members: dict[str, Any], profile: Profile) -> None:
    body = json.dumps(members).encode()
    large = received(body)
    assert large.has_texts
    if members.get("background") and not profile.background:
        return
    assert parse_create(large, profile) == parse_create(body, profile)
    assert json.loads(without_items(large)) == json.loads(without_items(body))


def test_the_size_is_part_of_the_request() -> None:
    body = json.dumps({"model": "m", "input": LONG}).encode()
    assert parse_create(received(body)).input_bytes == parse_create(body).input_bytes == len(body)


@pytest.mark.parametrize(
    ("profile", "members"),
    [
        (OPENAI, {"model": LONG, "input": "x"}),
        (OPENAI, {"model": "m", "input": LONG, "metadata": {"a": LONG}}),
        (OPENAI, {"model": "m", "input": LONG, "temperature": "hot"}),
        (OPENAI, {"input": LONG}),
        (OPENAI, {"model": "m", "input": [{"type": "message", "role": LONG, "content": "x"}]}),
        (MAESTRO, {"model": "m", "input": LONG, "previous_response_id": "resp_1", "temperature": "hot"}),
        (PROXY, {"model": "m", "input": LONG, "n": 2}),
    ],
)
def test_an_invalid_request_has_the_same_error(profile: Profile, members: dict[str, Any]) -> None:
    body = json.dumps(members).encode()
    errors: list[InvalidRequest] = []
    for form in (body, received(body)):
        with pytest.raises(InvalidRequest) as caught:
            parse_create(form, profile)
        errors.append(caught.value)
    assert (errors[0].message, errors[0].param) == (errors[1].message, errors[1].param)


def test_text_that_is_not_utf_8_is_refused_in_members_that_nobody_reads() -> None:
    start = b'{"model": "m", "input": "' + b"x" * 3 * PIECE_BYTES + b'", "unknown": "'
    for body in (start + b"\xff" * PIECE_BYTES * 3 + b'"}', start + b'\xff"}'):
        with pytest.raises(InvalidRequest) as caught:
            parse_create(received(body))
        assert caught.value.code == "invalid_json"


def test_a_mark_does_not_complete_an_escape() -> None:
    large = LargeBody(SECRET)
    for piece in (b'{"a": "', b"x" * 5000 + b"\\u00e\\", b"n" + b"y" * 5000, b'"}'):
        large.add(piece)
    assert large.has_texts
    with pytest.raises(InvalidRequest):
        large.decode("x")


def test_the_error_names_no_position_of_the_skeleton() -> None:
    with pytest.raises(InvalidRequest) as caught:
        received(b'{"input": "' + b"x" * 3 * PIECE_BYTES + b'" "model"}').decode("The request body")
    assert "byte" not in caught.value.message


def test_a_long_text_is_not_copied_when_it_is_put_back() -> None:
    text = "x" * 40 * PIECE_BYTES
    large = received(json.dumps({"model": "m", "input": text}).encode())
    assert large.skeleton().count(b"x") == 0
    first, second = large.decode("x"), large.decode("x")
    assert first["input"] == text
    assert first["input"] is second["input"]
