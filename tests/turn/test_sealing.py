"""Envelopes open only with our key and unaltered."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.turn.provider_state import ProviderState
from antiphon.turn.sealing import SealKey

KEY = SealKey(b"one", lambda size: b"n" * size)
SEALER = KEY.sealer("acme")


STATES = st.builds(
    ProviderState, st.text(min_size=1), st.dictionaries(st.text(), st.text() | st.integers(-5, 5))
)


def sealed(reasoning: str, *states: ProviderState) -> str:
    envelope = SEALER.seal(reasoning, states)
    assert envelope is not None
    return envelope


@given(st.text(min_size=1), st.lists(STATES, max_size=3))
def test_sealed_content_can_be_opened(text: str, states: list[ProviderState]) -> None:
    opened = SEALER.open(sealed(text, *states))
    assert opened is not None
    assert (opened.reasoning, list(opened.marks)) == (text, states)


def test_empty_content_is_not_sealed() -> None:
    assert SEALER.seal("") is None
    assert SEALER.seal("", (ProviderState("maker", {}),)) is not None


def test_without_a_request_only_provider_state_is_sealed() -> None:
    assert SEALER.seal_states("a thought", ()) is None
    assert SEALER.seal_states("", (ProviderState("maker", {"signature": "s"}),)) is not None


def test_an_envelope_does_not_reveal_its_content() -> None:
    raw = base64.urlsafe_b64decode(sealed("a secret thought").removeprefix("antiphon2."))
    assert b"secret" not in raw


@pytest.mark.parametrize(
    "envelope", ["", "gAAAAABo", "antiphon2.", "antiphon2.!!!", "antiphon2.AAAA", "antiphon1.AAAA"]
)
def test_a_foreign_envelope_does_not_open(envelope: str) -> None:
    assert SEALER.open(envelope) is None


@pytest.mark.requirement("PROTOCOL/items-reasoning-damaged")
def test_another_key_or_a_changed_byte_does_not_open() -> None:
    envelope = sealed("secret")
    assert SealKey(b"two", bytes).sealer("acme").open(envelope) is None
    assert SEALER.open(envelope[:-3] + ("A" if envelope[-3] != "A" else "B") + envelope[-2:]) is None


@given(st.text())
def test_a_summary_that_was_sealed_can_be_opened(text: str) -> None:
    assert SEALER.open_summary(SEALER.seal_summary(text)) == text


def test_envelopes_of_reasoning_and_summaries_are_not_interchangeable() -> None:
    assert SEALER.open(SEALER.seal_summary("what was said")) is None
    assert SEALER.open_summary(sealed("a thought")) is None


def test_an_envelope_does_not_open_for_another_tenant() -> None:
    other = KEY.sealer("umbra")
    assert other.open(sealed("a thought")) is None
    assert other.open_summary(SEALER.seal_summary("what was said")) is None
    assert other.open_private(SEALER.seal_private({"token": "t"})) is None
    assert other.open_request(SEALER.seal_request(b"{}")) is None
    assert KEY.sealer("acme").open(sealed("a thought")) is not None


def test_an_envelope_cannot_be_relabelled_as_an_earlier_version() -> None:
    """Envelopes of the earlier version open for every tenant."""
    relabelled = "antiphon1." + sealed("a thought").removeprefix("antiphon2.")
    assert KEY.sealer("umbra").open(relabelled) is None
    assert SEALER.open(relabelled) is None


def test_an_envelope_of_an_earlier_version_still_opens() -> None:
    opened = SEALER.open("antiphon1.bm5ubm5ubm5ubm5ubGpCRu5k3QSOxfMqgn_7y5JRHQuQBBzknFBxqQiiN4FSHhw=")
    assert opened is not None
    assert (opened.reasoning, opened.marks) == ("old", ())


def test_sealed_bytes_open_for_their_tenant_alone_and_are_no_reasoning() -> None:
    sealed = SEALER.seal_bytes(b"\x00\xff{}")
    assert SEALER.open_bytes(sealed) == b"\x00\xff{}"
    assert KEY.sealer("umbra").open_bytes(sealed) is None
    assert SEALER.open_bytes(sealed[:-4]) is None
    assert SEALER.open_bytes(b"short") is None
    envelope = "antiphon2." + base64.urlsafe_b64encode(sealed).decode()
    assert SEALER.open_private(envelope) is None
    assert SEALER.open(envelope) is None


def test_nonces_of_a_block_differ_and_need_one_read() -> None:
    reads: list[int] = []

    def entropy(size: int) -> bytes:
        reads.append(size)
        return bytes((len(reads) + at // 12) % 256 for at in range(size))

    key = SealKey(b"one", entropy, block=3)
    nonces = {key.nonce() for _ in range(3)}
    assert (len(nonces), {len(nonce) for nonce in nonces}, reads) == (3, {12}, [36])
    key.nonce()
    assert reads == [36, 36]
