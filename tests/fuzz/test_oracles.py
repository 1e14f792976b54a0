"""The oracles of the parsers hold for seeds and simple mutations, and fail for parsers that are wrong."""

import random
from collections.abc import Callable

import pytest

from antiphon.grammars import llguidance
from antiphon.protocol import sse
from antiphon.protocol.parse_create import parse_create
from antiphon.turn.chunks import Chunk
from tests.fuzz import oracles
from tests.fuzz.oracles import ORACLES, check_gate, check_grammars, check_sse, check_text_calls
from tests.fuzz.seeds import seeds_of
from tests.turn.text_calls.feeding import feed_all

MUTATIONS = 40


def _split_at_once(_reader: sse.SseReader, data: bytes) -> list[bytes]:
    return data.split(b"\n\n")


def _feed_first(pieces: list[str], dialect: str) -> list[Chunk]:
    return feed_all(pieces[:1], dialect)


def _always(value: object) -> Callable[..., object]:
    return lambda *_: value


def mutated(seed: bytes, rng: random.Random) -> bytes:
    data = bytearray(seed)
    for _ in range(rng.randrange(1, 4) if seed else 0):
        if not data:
            break
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                del data[at]
            case 1:
                data[at] = rng.choice(b'\r\n :{}[]"\\/~.x\x00\xff')
            case 2:
                data[at:at] = data[at : at + rng.randrange(8)]
            case _:
                data = data[: at + 1]
    return bytes(data)


@pytest.mark.parametrize("name", ORACLES)
def test_any_bytes_satisfy_the_oracle(name: str) -> None:
    rng = random.Random(name)
    for seed in seeds_of(name):
        ORACLES[name](seed)
        for _ in range(MUTATIONS):
            ORACLES[name](mutated(seed, rng))


def test_the_oracle_notices_a_reader_that_depends_on_the_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse.SseReader, "feed", _split_at_once)
    with pytest.raises(AssertionError):
        check_sse(seeds_of("sse")[0])


def test_the_oracle_notices_a_gate_that_changes_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    other = parse_create(b'{"model": "other", "input": "x"}')
    monkeypatch.setattr(oracles, "parse_create", _always(other))
    with pytest.raises(AssertionError):
        check_gate(b'{"model": "m", "input": "x"}')
    with pytest.raises(AssertionError):
        check_gate(b"[1]")


def test_the_oracle_notices_calls_that_depend_on_the_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracles, "feed_all", _feed_first)
    with pytest.raises(AssertionError):
        check_text_calls(b"\x00\x03some text")


def test_the_oracle_notices_a_rendering_that_loses_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llguidance, "_render_token", _always(":"))
    with pytest.raises(AssertionError):
        check_grammars(seeds_of("grammars")[0])
