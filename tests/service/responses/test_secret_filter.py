"""Secrets of the process are removed from what a model says, however it is split."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import BackendBroken
from antiphon.known_secrets import (
    HIDDEN,
    MIN_SECRET_CHARACTERS,
    KnownSecrets,
    header_secrets,
    url_password,
    without_url_secrets,
)
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.service.responses.secret_filter import SecretFilter
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallStarted,
    Chunk,
    Failed,
    Finished,
    HostedItemDone,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
)

SECRET = "sk-canary-0123456789"
OTHER = "sk-canary-another-one"
STOP = Finished("stop")


def known(*secrets: str) -> KnownSecrets:
    found = KnownSecrets()
    found.add(*(secrets or (SECRET, OTHER)))
    return found


def texts(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def filtered(*batches: Sequence[Chunk], secrets: KnownSecrets | None = None) -> list[Chunk]:
    under_test = SecretFilter(secrets or known())
    return [chunk for batch in batches for chunk in under_test.feed(batch)]


@given(
    st.lists(st.sampled_from([SECRET, OTHER, "sk-", "sk-canary-", "s", "words ", "0123456789"]), max_size=6),
    st.lists(st.integers(0, 120), max_size=12),
    st.booleans(),
)
def test_a_secret_is_removed_however_the_text_is_split(
    pieces: list[str], cuts: list[int], in_one_batch: bool
) -> None:
    text = "".join(pieces)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    deltas: list[Chunk] = [TextDelta(text[a:b]) for a, b in pairwise(places)]
    batches = [[*deltas, STOP]] if in_one_batch else [*([delta] for delta in deltas), [STOP]]
    chunks = filtered(*batches)
    assert chunks[-1] == STOP
    shown = texts(chunks)
    assert SECRET not in shown
    assert OTHER not in shown
    if SECRET not in text and OTHER not in text:
        assert shown == text
    if text in (SECRET, OTHER):
        assert len(shown.replace(HIDDEN, "")) < 4


def test_ordinary_text_passes_as_it_is() -> None:
    batches: list[list[Chunk]] = [[TextDelta("task")], [TextDelta(" of risk-")], [TextDelta("taking"), STOP]]
    under_test = SecretFilter(known())
    assert [under_test.feed(batch) for batch in batches] == batches


def test_a_delta_is_held_back_only_while_it_may_be_the_beginning_of_a_secret() -> None:
    under_test = SecretFilter(known())
    assert under_test.feed([TextDelta("is sk-c")]) == []
    held: list[Chunk] = [TextDelta("is sk-c"), TextDelta("old")]
    assert under_test.feed([TextDelta("old")]) == held
    assert under_test.feed([TextDelta("sk-can")]) == []
    assert under_test.feed([STOP]) == [TextDelta("sk-can"), STOP]


def call_delta(text: str) -> Chunk:
    return CallDelta(1, text)


DELTAS: list[Callable[[str], Chunk]] = [RefusalDelta, ReasoningDelta, ReasoningSummaryDelta, call_delta]


@pytest.mark.parametrize("delta", DELTAS)
def test_every_kind_of_text_is_filtered(delta: Callable[[str], Chunk]) -> None:
    chunks = filtered([delta("a "), delta(SECRET[:7])], [delta(SECRET[7:])], [delta(" b"), STOP])
    assert chunks == [delta("a "), delta(HIDDEN), delta(" b"), STOP]


def test_the_deltas_of_two_calls_do_not_mix() -> None:
    half, rest = SECRET[:9], SECRET[9:]
    chunks = filtered([CallDelta(0, half), CallDelta(1, "{}"), CallDelta(0, rest), STOP])
    assert chunks == [CallDelta(0, half), CallDelta(1, "{}"), CallDelta(0, rest), STOP]


def test_names_annotations_items_and_errors_are_filtered() -> None:
    item = WebSearchCall(id="ws_1", status="completed", action={"query": f"what is {SECRET}?"})
    failed = Failed(BackendBroken(f"It said {SECRET}."))
    chunks = filtered(
        [
            CallStarted(0, "c", SECRET),
            AnnotationAdded({"url": f"http://x/{SECRET}"}),
            HostedItemDone(item),
            failed,
        ]
    )
    assert SECRET not in repr(chunks)
    assert failed.error.message == f"It said {HIDDEN}."
    done = chunks[2]
    assert isinstance(done, HostedItemDone)
    assert isinstance(done.item, WebSearchCall)
    assert done.item.action == {"query": f"what is {HIDDEN}?"}


def test_short_texts_are_no_secrets() -> None:
    found = known("x" * (MIN_SECRET_CHARACTERS - 1))
    assert not found
    assert found.scrub("x" * 100) == "x" * 100


def test_the_credentials_in_headers_and_urls_are_known() -> None:
    headers = {"Authorization": f"Bearer {SECRET}", "X-Api-Key": OTHER, "HTTP-Referer": "https://example.com"}
    assert header_secrets(headers.items()) == [SECRET, OTHER]
    assert url_password("postgresql://me:secret@host/db") == "secret"
    assert url_password("sqlite:") == url_password("http://[broken") == ""


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("GET http://h/v1?key=abc&n=1", "GET http://h/v1?key=[redacted]&n=1"),
        ("GET /v1?n=1&access_token=abc", "GET /v1?n=1&access_token=[redacted]"),
        ("postgresql://me:pw@host/db", "postgresql://[redacted]@host/db"),
        ("?x-goog-signature=ab#top", "?x-goog-signature=[redacted]#top"),
        ("a = b, me@example.com", "a = b, me@example.com"),
        ("nothing", "nothing"),
    ],
)
def test_credentials_in_urls_are_redacted(line: str, shown: str) -> None:
    assert without_url_secrets(line) == shown
