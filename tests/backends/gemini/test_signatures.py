"""How a signature is attached to its part again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.backends.gemini.signatures import NO_SIGNATURE, origin_of, signed_text
from antiphon.backends.registry import default_endpoint
from tests.backends.gemini.building import (
    ANSWER,
    CALL,
    NEW,
    OLD,
    OUTPUT,
    USER,
    build,
    contents,
    opened_reasoning,
    text,
)

ON_CALL: dict[str, Any] = {"on": "call", "signature": "s1"}
ON_THOUGHT: dict[str, Any] = {"on": "thought", "signature": "s2", "text": "hm"}


def on(value: str, start: int, length: int, signature: str = "s3") -> dict[str, Any]:
    return {"on": value, "signature": signature, "start": start, "length": length}


def signatures(parts: list[dict[str, Any]]) -> list[str | None]:
    return [part.get("thoughtSignature") for part in parts]


def test_the_origin_of_an_endpoint() -> None:
    assert origin_of(default_endpoint("gemini")) == "gemini@generativelanguage.googleapis.com"
    vertex = "https://Europe-West1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google"
    assert origin_of(default_endpoint("gemini", vertex)) == "gemini@europe-west1-aiplatform.googleapis.com"


def test_only_the_call_after_the_reasoning_is_signed() -> None:
    second = {**CALL, "call_id": "c2"}
    _, (_, parts), _ = contents(USER, CALL, second, OUTPUT, model=NEW, opened={1: opened_reasoning(ON_CALL)})
    assert signatures(parts) == ["s1", None]
    _, (_, parts), _ = contents(USER, CALL, second, OUTPUT, model=OLD, opened={2: opened_reasoning(ON_CALL)})
    assert signatures(parts) == [None, "s1"]


def test_every_round_has_its_own_signature() -> None:
    later = {**CALL, "call_id": "c2"}
    found = contents(
        USER, CALL, OUTPUT, later, model=NEW,
        opened={1: opened_reasoning(ON_CALL), 4: opened_reasoning({**ON_CALL, "signature": "s9"})},
    )  # fmt: skip
    assert [signatures(parts) for role, parts in found if role == "model"] == [["s1"], ["s9"]]


def test_a_call_of_another_model_gets_the_placeholder_signature() -> None:
    given: dict[str, Any] = {"input": [USER, CALL, {**CALL, "call_id": "c2"}, OUTPUT]}
    payload = build(NEW, **given)
    assert signatures(payload.body["contents"][1]["parts"]) == [NO_SIGNATURE, None]
    assert "another's" in payload.downgrades[0].render()
    assert signatures(build(OLD, **given).body["contents"][1]["parts"]) == [None, None]


def test_a_thought_part_is_sent_back_unchanged() -> None:
    _, (_, parts), _ = contents(
        USER, CALL, OUTPUT, model=NEW, opened={1: opened_reasoning(ON_THOUGHT, ON_CALL)}
    )
    assert parts[0] == {"text": "hm", "thought": True, "thoughtSignature": "s2"}
    assert parts[1]["thoughtSignature"] == "s1"


def test_text_after_the_reasoning_is_signed() -> None:
    found = contents(USER, ANSWER, USER, model=NEW, opened={1: opened_reasoning(on("next", 0, 2))})
    assert found[1] == ("model", [{"text": "so", "thoughtSignature": "s3"}, text(" it is")])


def test_text_before_the_reasoning_is_signed() -> None:
    mine = opened_reasoning(on("said", 0, 2), on("said", 8, 0, "s4"))
    found = contents(USER, ANSWER, USER, model=NEW, opened={2: mine})
    assert found[1] == (
        "model",
        [{"text": "so", "thoughtSignature": "s3"}, text(" it is"), {"text": "", "thoughtSignature": "s4"}],
    )


def test_text_and_the_call_after_it_are_signed() -> None:
    mine = opened_reasoning(on("said", 8, 0), ON_CALL)
    _, (_, parts), _ = contents(USER, ANSWER, CALL, OUTPUT, model=NEW, opened={2: mine})
    assert signatures(parts) == [None, "s3", "s1"]


def test_text_of_an_earlier_message_is_not_split() -> None:
    found = contents(USER, ANSWER, ANSWER, USER, model=NEW, opened={3: opened_reasoning(on("said", 0, 2))})
    assert found[1][1] == [text("so it is"), {"text": "so", "thoughtSignature": "s3"}, text(" it is")]


def test_text_before_other_reasoning_is_not_signed() -> None:
    opened = {2: opened_reasoning(ON_THOUGHT), 3: opened_reasoning(on("said", 0, 2))}
    payload = build(NEW, input=[USER, ANSWER, USER], opened=opened)
    handed_back = {"text": "hm", "thought": True, "thoughtSignature": "s2"}
    assert payload.body["contents"][1]["parts"] == [text("so it is"), handed_back]


@pytest.mark.parametrize(
    ("place", "mark"),
    [
        (2, on("said", 0, 50)),
        (2, on("said", 9, 0)),
        (1, on("next", 3, 30)),
        (1, on("said", 0, 2)),
        (3, on("said", 0, 2)),
    ],
)
def test_changed_or_missing_text_loses_its_signature(place: int, mark: dict[str, Any]) -> None:
    payload = build(NEW, input=[USER, ANSWER, USER], opened={place: opened_reasoning(mark)})
    parts = [part for content in payload.body["contents"] for part in content["parts"]]
    assert [part for part in parts if part["text"] == "so it is"] == [text("so it is")]
    assert "not as this model's server made it" in payload.downgrades[0].render()


@pytest.mark.parametrize("mark", [ON_CALL, on("next", 0, 2)])
def test_a_signature_does_not_outlive_its_answer(mark: dict[str, Any]) -> None:
    found = contents(USER, USER, CALL, OUTPUT, ANSWER, USER, model=OLD, opened={1: opened_reasoning(mark)})
    assert not any(signatures(parts) != [None] * len(parts) for _, parts in found)


def test_an_answer_with_only_a_signature_is_not_sent() -> None:
    found = contents(USER, USER, model=NEW, opened={1: opened_reasoning(on("said", 0, 0), ON_THOUGHT)})
    assert found == [("user", [text("hi"), text("hi")])]


@pytest.mark.requirement("PROTOCOL/items-reasoning-damaged")
@pytest.mark.parametrize(
    "foreign", [opened_reasoning(), opened_reasoning(ON_CALL, origin="gemini@elsewhere")]
)
def test_reasoning_of_other_origins_is_omitted_and_reported(foreign: Any) -> None:
    payload = build(NEW, input=[USER, ANSWER, USER], opened={1: foreign})
    assert payload.body["contents"][1]["parts"] == [text("so it is")]
    assert "no signature of this model's server" in payload.downgrades[0].render()


@given(st.text(max_size=20), st.lists(st.integers(0, 20), max_size=8))
def test_splitting_preserves_the_text(value: str, edges: list[int]) -> None:
    cuts = sorted(edge for edge in edges if edge <= len(value))
    states = [on("said", start, end - start) for start, end in zip(cuts[::2], cuts[1::2], strict=False)]
    parts = signed_text(value, states)
    assert parts is not None
    assert "".join(part["text"] for part in parts) == value
    assert sum("thoughtSignature" in part for part in parts) == len(states)
    assert all(part["text"] or "thoughtSignature" in part for part in parts)
