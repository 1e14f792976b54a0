"""Golden pairs: from a request and an upstream's bytes to the upstream's payload and our events.

Each folder of ``tests/golden/chat_completions`` is a case: ``request.json`` (the create body),
``upstream.sse`` or ``upstream.json`` (the upstream's answer), ``kind`` (the row of the registry; absent:
plain), ``sent.json`` (the payload sent upstream, and the downgrades) and ``events.jsonl`` (the events sent
to the client). ``ANTIPHON_GOLDEN=rewrite`` rewrites the last two; review the difference.
"""

from pathlib import Path
from typing import Any

import pytest

from antiphon.backends.chat_completions.request import build_payload
from antiphon.backends.chat_completions.stream import StreamReader
from antiphon.backends.registry import default_endpoint
from antiphon.protocol.parse_create import parse_create
from antiphon.turn.context import build_turn
from tests.golden_cases import check_case, events_of, read_upstream

FOLDER = Path(__file__).parents[2] / "golden" / "chat_completions"
CASES = sorted(path.name for path in FOLDER.iterdir())


def run_case(case: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The payload sent upstream, and the events for the answer."""
    kind = case / "kind"
    endpoint = default_endpoint(kind.read_text().strip() if kind.exists() else "plain")
    request = parse_create((case / "request.json").read_bytes())
    turn = build_turn(request, model=request.params.model)
    payload = build_payload(turn, endpoint.quirks)
    batches = read_upstream(case, StreamReader(endpoint))
    return payload.body, events_of(request, turn, [*turn.downgrades, *payload.downgrades], batches, seal=None)


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_answer_becomes_the_expected_events(name: str) -> None:
    case = FOLDER / name
    check_case(case, *run_case(case))


@pytest.mark.parametrize("name", [name for name in CASES if (FOLDER / name / "upstream.sse").exists()])
def test_line_endings_and_comments_do_not_change_the_chunks(name: str, tmp_path: Path) -> None:
    case = FOLDER / name
    for file in case.iterdir():
        data = file.read_bytes()
        if file.suffix == ".sse":
            data = data.replace(b"\n\n", b"\n\n: keep-alive\n\n").replace(b"\n", b"\r\n")
        (tmp_path / file.name).write_bytes(data)
    assert run_case(tmp_path) == run_case(case)
