"""The repeat guard."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.tools.repeat_guard import RepeatGuard, signature, suppressed_output

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_a_call_is_new_then_repeated_then_suppressed() -> None:
    guard = RepeatGuard()
    verdicts: list[str] = []
    for _ in range(4):
        verdicts.append(guard.judge("look", '{"a":1}'))
        guard.note("look", '{"a":1}')
    assert verdicts == ["new", "repeated", "suppressed", "suppressed"]


def test_judging_is_not_counting() -> None:
    guard = RepeatGuard()
    assert [guard.judge("look", "{}") for _ in range(3)] == ["new"] * 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":{"c":2,"d":3}}', ' {"b": {"d":3, "c":2},\n "a":1}'),
        ('{"a":"é"}', '{"a":"\\u00e9"}'),
        ("x ", "x"),
    ],
)
def test_order_of_keys_and_whitespace_make_no_difference(one: str, other: str) -> None:
    assert signature("t", one) == signature("t", other)


@pytest.mark.parametrize(
    ("one", "other"), [('{"a":[1,2]}', '{"a":[2,1]}'), ('{"a":"x y"}', '{"a":"xy"}'), ('{"a":1}', '{"A":1}')]
)
def test_other_arguments_make_another_call(one: str, other: str) -> None:
    assert signature("t", one) != signature("t", other)


def test_another_tool_makes_another_call() -> None:
    assert signature("t", "{}") != signature("u", "{}")


@given(st.text())
def test_arguments_that_are_no_json_are_compared_as_they_are(text: str) -> None:
    assert signature("t", text) == signature("t", text + " ")


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_a_signature_does_not_depend_on_how_json_is_written(arguments: dict[str, object]) -> None:
    backwards = dict(reversed(arguments.items()))
    pretty = msgspec.json.format(msgspec.json.encode(backwards), indent=3).decode()
    assert signature("t", pretty) == signature("t", msgspec.json.encode(arguments).decode())


def test_deep_arguments_do_not_hurt() -> None:
    assert signature("t", "[" * 100_000) == signature("t", "[" * 100_000)


def test_the_model_receives_an_explanation() -> None:
    explanation = msgspec.json.decode(suppressed_output("look"))
    assert explanation.pop("guidance").startswith("This call was made with the same arguments before")
    assert explanation == {"suppressed": True, "reason": "repeat_tool_call_detected", "tool": "look"}
