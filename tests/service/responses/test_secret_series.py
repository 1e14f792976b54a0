"""Any texts, cut in any places and interleaved in any order: no secret leaves the filter, nothing else changes,
little is held, and the machine makes the same items of it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count, cycle, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.known_secrets import MAX_SHOWN_CHARACTERS, KnownSecrets
from antiphon.protocol.events import CodeInterpreterCallCodeDelta, Event, McpCallArgumentsDelta
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.profile import OPENAI, PROXY, Profile
from antiphon.protocol.response import new_response
from antiphon.protocol.tool_items import CodeInterpreterCall, McpCall
from antiphon.service.responses.chunk_texts import Delta, text_of, with_text
from antiphon.service.responses.secret_filter import MAX_HELD_CHUNKS, SecretFilter
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    DowngradesAdded,
    Finished,
    HostedItemBegun,
    HostedItemDone,
    HostedItemStep,
    ItemBegun,
    ProviderStateAdded,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    UsageReported,
)
from antiphon.turn.machine import Machine
from antiphon.turn.provider_state import ProviderState
from tests.turn.chunk_strategies import USAGE
from tests.turn.folding import fold, to_wire
from tests.turn.order import check_order

SECRETS = (
    "sk-canary-0123456789",
    "sk-canary-another-one",
    "sk-canary-0123456789-and-more",
    "6789-and-something-else",
    "abababababababab",
    'q"u\\ote-0123456789',
)
KNOWN = KnownSecrets()
KNOWN.add(*SECRETS)
LONGEST = max(map(len, SECRETS)) + 2
"""In JSON one has two characters more."""
PIECES = [
    *SECRETS,
    "sk-",
    "sk-canary-",
    "sk-canary-0123",
    "-and-more",
    "ab",
    "6789",
    'q"u',
    "s",
    "words ",
    "",
]
STOP = Finished("stop")
CODE = CodeInterpreterCall(id="ci_1", status="completed", code="1", container_id="c", outputs=None)
MCP = McpCall(id="mcp_1", status="completed", server_label="s", name="n", arguments="{}")

texts = st.lists(st.sampled_from(PIECES), max_size=3).map("".join)
cuts = st.lists(st.integers(0, 60), max_size=5)
pieces = st.tuples(texts, cuts).map(lambda drawn: list(cut(*drawn)))
others = st.lists(
    st.sampled_from(
        [
            AnnotationAdded({"type": "url_citation", "url": "u"}),
            ProviderStateAdded(ProviderState("p", {"signature": "s"})),
            DowngradesAdded(()),
            UsageReported(USAGE),
            ItemBegun(),
        ]
    ),
    max_size=6,
)


def cut(text: str, places: list[int]) -> Iterator[str]:
    ends = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    return (text[begin:end] for begin, end in pairwise(ends))


def call(index: int, arguments: list[str], finished: bool) -> list[Chunk]:
    end: list[Chunk] = [CallFinished(index)] if finished else []
    return [CallStarted(index, f"c{index}", "f"), *(CallDelta(index, text) for text in arguments), *end]


def code(index: int, texts: list[str]) -> list[Chunk]:
    steps = [HostedItemStep(index, CodeInterpreterCallCodeDelta, (text,)) for text in texts]
    return [HostedItemBegun(index, CODE), *steps, HostedItemDone(CODE, index=index)]


def mcp(index: int, texts: list[str]) -> list[Chunk]:
    steps = [HostedItemStep(index, McpCallArgumentsDelta, (text,)) for text in texts]
    return [HostedItemBegun(index, MCP), *steps, HostedItemDone(MCP, index=index)]


def summaries(texts: list[tuple[str, int]]) -> list[Chunk]:
    return [ReasoningSummaryDelta(text, part) for text, part in texts]


parts = st.lists(st.integers(0, 1), min_size=20, max_size=20)
none = st.just(list[Chunk]())
tracks = st.tuples(
    pieces.map(lambda texts: [TextDelta(text) for text in texts]),
    st.one_of(
        pieces.map(lambda texts: [RefusalDelta(text) for text in texts]),
        pieces.map(lambda texts: [ReasoningDelta(text) for text in texts]),
        st.tuples(pieces, parts).map(lambda drawn: summaries(list(zip(*drawn, strict=False)))),
    ),
    st.builds(call, st.just(0), pieces, st.booleans()),
    st.one_of(none, st.builds(call, st.just(1), pieces, st.booleans())),
    st.one_of(none, none, st.builds(code, st.just(7), pieces), st.builds(mcp, st.just(8), pieces)),
    others,
)


orders = st.binary(min_size=40, max_size=40)


def interleaved(drawn: Sequence[list[Chunk]], order: bytes) -> list[list[Chunk]]:
    """The chunks of these tracks, each in its order, in batches of one or several."""
    rest = [list(reversed(track)) for track in drawn if track]
    batches: list[list[Chunk]] = []
    for number in cycle(order):
        if not rest:
            break
        track = rest[number % len(rest)]
        if number & 64 and batches:
            batches[-1].append(track.pop())
        else:
            batches.append([track.pop()])
        rest = [track for track in rest if track]
    return [*batches, [STOP]]


answers = st.builds(interleaved, tracks, orders)


def series(chunk: Delta) -> object:
    if isinstance(chunk, CallDelta):
        return CallDelta, chunk.index
    return (chunk.event, chunk.index) if isinstance(chunk, HostedItemStep) else type(chunk)


def joined(chunks: Sequence[Chunk]) -> dict[object, str]:
    """The text of each series."""
    found: defaultdict[object, str] = defaultdict(str)
    for chunk in chunks:
        if isinstance(chunk, Delta):
            found[series(chunk)] += text_of(chunk)
    return found


def merged(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks with neighbouring deltas of one text in one piece, and without empty ones."""
    found: list[Chunk] = []
    for chunk in chunks:
        last = found[-1] if found else None
        if not isinstance(chunk, Delta):
            found.append(chunk)
        elif isinstance(last, Delta) and with_text(last, "") == with_text(chunk, ""):
            found[-1] = with_text(last, text_of(last) + text_of(chunk))
        elif text_of(chunk):
            found.append(chunk)
    return found


def is_clean(text: str) -> bool:
    """Whether no more of a secret is in the text than may be shown."""
    return not any(secret[: min(len(secret) // 2, MAX_SHOWN_CHARACTERS) + 1] in text for secret in SECRETS)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for element in value.values() if isinstance(value, dict) else value:  # pyright: ignore[reportUnknownVariableType]
            yield from strings(element)


def assert_no_secret(text: str) -> None:
    assert not any(secret in text for secret in SECRETS), text


def filtered(batches: Sequence[Sequence[Chunk]], max_held: int) -> list[Chunk]:
    """What passes the filter; after each batch the held part is checked."""
    under_test = SecretFilter(KNOWN, max_held)
    taken: list[Chunk] = []
    passed: list[Chunk] = []
    for batch in batches:
        taken += batch
        passed += under_test.feed(batch)
        before, after = joined(taken), joined(passed)
        for kind, text in before.items():
            if is_clean(text):
                assert text.startswith(after[kind])
                assert len(text) - len(after[kind]) < LONGEST
        assert sum(map(is_other, taken)) - sum(map(is_other, passed)) <= max_held
    assert not under_test.holds
    return passed


def is_other(chunk: Chunk) -> bool:
    return not isinstance(chunk, Delta)


@given(answers, st.sampled_from([0, 1, 3, MAX_HELD_CHUNKS]))
def test_no_secret_passes_and_nothing_else_changes(batches: list[list[Chunk]], max_held: int) -> None:
    taken = [chunk for batch in batches for chunk in batch]
    passed = filtered(batches, max_held)
    before, after = joined(taken), joined(passed)
    for text in after.values():
        assert_no_secret(text)
    for kind, text in before.items():
        if is_clean(text):
            assert after[kind] == text
    assert list(filter(is_other, passed)) == list(filter(is_other, taken))
    if all(map(is_clean, before.values())):
        assert merged(passed) == merged(taken)


def run(chunks: Sequence[Chunk], profile: Profile) -> list[Event]:
    numbers = count()
    response = new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1)
    machine = Machine(response, new_id=lambda prefix: f"{prefix}_{next(numbers)}", profile=profile)
    return [*machine.start(), *machine.feed(chunks), *machine.end(2)]


def shape(events: Sequence[Event], left_out: tuple[str, ...]) -> list[tuple[str, str, int]]:
    """Type, status and number of parts of each item."""
    output = to_wire(events[-1])["response"]["output"]
    return [
        (item["type"], item["status"], len(item.get("content") or item.get("summary") or ()))
        for item in output
        if item["type"] not in left_out
    ]


@pytest.mark.parametrize("profile", [OPENAI, PROXY], ids=lambda profile: profile.name)
@given(batches=answers)
def test_the_machine_makes_the_same_items_without_the_secrets(
    profile: Profile, batches: list[list[Chunk]]
) -> None:
    passed = filtered(batches, MAX_HELD_CHUNKS)
    events = run(passed, profile)
    if profile is OPENAI and not any(isinstance(chunk, HostedItemStep) for chunk in passed):
        check_order([to_wire(event) for event in events])
    for event in events:
        for text in strings(to_wire(event)):
            assert_no_secret(text)
    for text in strings(fold(events)):
        assert_no_secret(text)
    taken = [chunk for batch in batches for chunk in batch]
    # A message of which nothing is left, because it was the second half of a secret, is not begun.
    left_out = () if all(map(is_clean, joined(taken).values())) else ("message", "reasoning")
    assert shape(events, left_out) == shape(run(taken, profile), left_out)
