"""Typical questions of users, and the pages of the documentation that answer them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon.retrieval.folders import FolderRetriever
from antiphon.retrieval.scope import Scope, parse_scope

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def retriever() -> AsyncIterator[FolderRetriever]:
    opened = FolderRetriever([Path("docs")], root=ROOT)
    yield opened
    await opened.aclose()


@pytest.mark.parametrize(
    ("question", "pages"),
    [
        ("how do I cancel a background response", {"docs/reference/http-api.md", "docs/explanation/jobs.md"}),
        ("How do I create an API key for a tenant?", {"docs/reference/keys.md", "docs/reference/cli.md"}),
        (
            "What happens when a conversation gets too long, is it compacted?",
            {"docs/reference/compaction.md"},
        ),
        ("How large is the connection pool for PostgreSQL?", {"docs/explanation/store.md"}),
        (
            "I lost the connection: how can I get the events again, starting_after?",
            {"docs/reference/http-api.md"},
        ),
        ("How do I send a turn over a WebSocket?", {"docs/reference/websocket.md"}),
        ("why did you choose msgspec", {"docs/decisions/0004-msgspec-at-the-edges.md"}),
        ("Which options has antiphon serve on the command line?", {"docs/reference/cli.md"}),
        ("what is lost when the process is killed with kill -9", {"docs/explanation/reliability.md"}),
    ],
)
async def test_a_question_finds_its_page_among_the_first_three(
    retriever: FolderRetriever, question: str, pages: set[str]
) -> None:
    found = await retriever.retrieve(question, scope=Scope(), limit=3)
    assert pages & {chunk.path for chunk in found}


async def test_results_equal_the_lines_of_the_file(retriever: FolderRetriever) -> None:
    for chunk in await retriever.retrieve("background response", scope=Scope(), limit=8):
        lines = (ROOT / chunk.path).read_text(encoding="utf-8").split("\n")
        assert chunk.text == "\n".join(lines[chunk.start_line - 1 : chunk.end_line])


async def test_a_scope_narrows_a_question_to_a_folder(retriever: FolderRetriever) -> None:
    scope = parse_scope({"must": [{"key": "folder", "match": {"value": "docs/decisions"}}]})
    found = await retriever.retrieve("background response", scope=scope, limit=8)
    assert found
    assert all(chunk.path.startswith("docs/decisions/") for chunk in found)
