"""Envelopes open only here, unaltered."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.turn.provider_state import ProviderState
from antiphon.turn.sealing import Sealer

SEALER = Sealer(b"one", lambda size: b"n" * size)


MARKS = st.builds(
    ProviderState, st.text(min_size=1), st.dictionaries(st.text(), st.text() | st.integers(-5, 5))
)


def sealed(reasoning: str, *marks: ProviderState) -> str:
    envelope = SEALER.seal(reasoning, marks)
    assert envelope is not None
    return envelope


@given(st.text(min_size=1), st.lists(MARKS, max_size=3))
def test_what_was_sealed_can_be_opened(text: str, marks: list[ProviderState]) -> None:
    opened = SEALER.open(sealed(text, *marks))
    assert opened is not None
    assert (opened.reasoning, list(opened.marks)) == (text, marks)


def test_there_is_no_envelope_around_nothing() -> None:
    assert SEALER.seal("") is None
    assert SEALER.seal("", (ProviderState("maker", {}),)) is not None


def test_where_nobody_asked_only_marks_are_sealed() -> None:
    assert SEALER.seal_states("a thought", ()) is None
    assert SEALER.seal_states("", (ProviderState("maker", {"signature": "s"}),)) is not None


def test_an_envelope_does_not_show_what_it_holds() -> None:
    raw = base64.urlsafe_b64decode(sealed("a secret thought").removeprefix("antiphon1."))
    assert b"secret" not in raw


@pytest.mark.parametrize("envelope", ["", "gAAAAABo", "antiphon1.", "antiphon1.!!!", "antiphon1.AAAA"])
def test_a_foreign_envelope_does_not_open(envelope: str) -> None:
    assert SEALER.open(envelope) is None


@pytest.mark.requirement("PROTOCOL/items-reasoning-damaged")
def test_another_key_or_a_changed_byte_does_not_open() -> None:
    envelope = sealed("secret")
    assert Sealer(b"two", bytes).open(envelope) is None
    assert SEALER.open(envelope[:-3] + ("A" if envelope[-3] != "A" else "B") + envelope[-2:]) is None


@given(st.text())
def test_a_summary_that_was_sealed_can_be_opened(text: str) -> None:
    assert SEALER.open_summary(SEALER.seal_summary(text)) == text


def test_reasoning_is_no_summary_and_a_summary_no_reasoning() -> None:
    assert SEALER.open(SEALER.seal_summary("what was said")) is None
    assert SEALER.open_summary(sealed("a thought")) is None


def test_an_envelope_of_an_earlier_version_still_opens() -> None:
    opened = SEALER.open("antiphon1.bm5ubm5ubm5ubm5ubGpCRu5k3QSOxfMqgn_7y5JRHQuQBBzknFBxqQiiN4FSHhw=")
    assert opened is not None
    assert (opened.reasoning, opened.marks) == ("old", ())
