"""Envelopes open only here, unaltered."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.turn.sealing import Sealer

SEALER = Sealer(b"one", lambda size: b"n" * size)


@given(st.text())
def test_what_was_sealed_can_be_opened(text: str) -> None:
    assert SEALER.open(SEALER.seal(text)) == text


def test_an_envelope_does_not_show_what_it_holds() -> None:
    raw = base64.urlsafe_b64decode(SEALER.seal("a secret thought").removeprefix("antiphon1."))
    assert b"secret" not in raw


@pytest.mark.parametrize("envelope", ["", "gAAAAABo", "antiphon1.", "antiphon1.!!!", "antiphon1.AAAA"])
def test_a_foreign_envelope_does_not_open(envelope: str) -> None:
    assert SEALER.open(envelope) is None


def test_another_key_or_a_changed_byte_does_not_open() -> None:
    envelope = SEALER.seal("secret")
    assert Sealer(b"two", bytes).open(envelope) is None
    assert SEALER.open(envelope[:-3] + ("A" if envelope[-3] != "A" else "B") + envelope[-2:]) is None
