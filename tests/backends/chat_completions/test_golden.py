"""Golden pairs: a request and an upstream's bytes in, the upstream's payload and our events out.

Each folder of ``tests/golden/chat_completions`` is a case: ``request.json`` (the create body), ``upstream.sse``
or ``upstream.json`` (what the upstream answers), ``kind`` (which row of the registry it is; absent: plain),
``sent.json`` (what we send upstream, and the downgrades) and ``events.jsonl`` (what the client hears).
``ANTIPHON_GOLDEN=rewrite`` writes the last two anew; review the difference.
"""

from pathlib import Path
from typing import Any

import pytest

from antiphon.backends.chat_completions.request import build_payload
from antiphon.backends.chat_completions.stream import StreamReader
from antiphon.backends.registry import default_endpoint
from antiphon.protocol.parse_create import parse_create
from antiphon.turn.context import build_turn
from tests.golden_cases import check_case, read_upstream, tell

FOLDER = Path(__file__).parents[2] / "golden" / "chat_completions"
CASES = sorted(path.name for path in FOLDER.iterdir())


def play(case: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What is sent upstream, and the events that come of the answer."""
    kind = case / "kind"
    endpoint = default_endpoint(kind.read_text().strip() if kind.exists() else "plain")
    request = parse_create((case / "request.json").read_bytes())
    turn = build_turn(request, model=request.params.model)
    payload = build_payload(turn, endpoint.quirks)
    batches = read_upstream(case, StreamReader(endpoint))
    return payload.body, tell(request, turn, [*turn.downgrades, *payload.downgrades], batches, seal=None)


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_answer_becomes_the_expected_events(name: str) -> None:
    case = FOLDER / name
    check_case(case, *play(case))


@pytest.mark.parametrize("name", [name for name in CASES if (FOLDER / name / "upstream.sse").exists()])
def test_line_ends_and_comments_change_nothing(name: str, tmp_path: Path) -> None:
    case = FOLDER / name
    for file in case.iterdir():
        data = file.read_bytes()
        if file.suffix == ".sse":
            data = data.replace(b"\n\n", b"\n\n: keep-alive\n\n").replace(b"\n", b"\r\n")
        (tmp_path / file.name).write_bytes(data)
    assert play(tmp_path) == play(case)
