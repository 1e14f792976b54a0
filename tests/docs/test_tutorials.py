"""Tutorials, and guides that are run: what a page shows is what happens, in an empty home and with a real server."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from antiphon.embeddings.minilm import is_installed
from tests.discovery.servers import ScriptedServer, in_thread, serving
from tests.docs.transcript import ROOT, Block, blocks_of, commands_of, follow, matches, shell
from tests.postgres import PostgresServer
from tests.serving import free_port

DOCS = ROOT / "docs"
KEY = "the-key-of-your-upstream"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@contextmanager
def scripted(server: ScriptedServer) -> Generator[str, None, None]:
    """The address of a scripted model server."""

    @asynccontextmanager
    async def opened() -> AsyncGenerator[str, None]:
        async with serving(server.answer) as address:
            yield address

    with in_thread(opened) as address:
        yield address


@pytest.mark.slow
def test_the_tutorial_about_a_local_model(tmp_path: Path) -> None:
    port = str(free_port())
    with scripted(ScriptedServer("ollama", ["qwen3:8b"])) as ollama:
        variables = {"ANTIPHON_SERVER__PORT": port, "ANTIPHON_DISCOVERY__ADDRESSES": f'["{ollama}"]'}
        with shell(tmp_path, variables) as opened:
            follow(
                page("tutorials/local-model.md"), opened, tmp_path, {"8080": port, "127.0.0.1:11434": ollama}
            )


@pytest.mark.slow
def test_the_tutorial_about_a_gateway(tmp_path: Path, postgres: PostgresServer) -> None:
    ports = {port: str(free_port()) for port in ("8080", "8081", "8082")}
    server = ScriptedServer("vllm", ["qwen3-32b"], key=KEY)
    with scripted(server) as gpu, postgres.database() as database:
        replaced = {"gpu-1:8000": gpu, "postgresql://antiphon:secret@db.internal/antiphon": database, **ports}
        with shell(tmp_path, {"ANTIPHON_SERVER__PORT": ports["8080"]}) as opened:
            follow(page("tutorials/team-gateway.md"), opened, tmp_path, replaced)


@pytest.mark.slow
def test_the_tutorial_about_an_agent(tmp_path: Path) -> None:
    port = str(free_port())
    with shell(tmp_path, {"ANTIPHON_SERVER__PORT": port}) as opened:
        follow(page("tutorials/python-agent.md"), opened, tmp_path, {"8080": port})


@pytest.mark.slow
@pytest.mark.skipif(not is_installed(), reason="antiphon[retrieval] is missing")
def test_the_tutorial_about_documents(tmp_path: Path) -> None:
    port = str(free_port())
    variables = {"ANTIPHON_SERVER__PORT": port, "ANTIPHON_DISCOVERY__ENABLED": "false"}
    with shell(tmp_path, variables) as opened:
        follow(page("tutorials/documents.md"), opened, tmp_path, {"8080": port})


@pytest.mark.slow
def test_the_guide_about_state(tmp_path: Path) -> None:
    port = str(free_port())
    variables = {"ANTIPHON_SERVER__PORT": port, "ANTIPHON_DISCOVERY__ENABLED": "false"}
    with shell(tmp_path, variables) as opened:
        follow(page("guides/state.md"), opened, tmp_path, {"8080": port})


def test_every_tutorial_is_run() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    pages = [str(path.relative_to(DOCS)) for path in DOCS.glob("tutorials/*.md")]
    assert len(pages) >= 3
    assert [name for name in pages if f'page("{name}")' not in source] == []


def test_blocks_that_are_not_run_are_left_out() -> None:
    text = "<!-- not run: a reason -->\n```sh\nfalse\n```\n\n```python\n# a/b.py\nx = 1\n```\n"
    (block,) = blocks_of(text)
    assert block == Block("python", "# a/b.py\nx = 1\n")
    assert block.file_name == "a/b.py"


def test_commands_have_their_output_and_may_have_several_lines() -> None:
    block = Block("console", "$ one \\\n  two\n1\n2\n$ three\n")
    assert list(commands_of(block)) == [("one \\\n  two\n", "1\n2\n"), ("three\n", "")]


@pytest.mark.parametrize(
    ("shown", "output", "expected"),
    [
        ("a\nb\n", "a  \nb\n\n", True),
        ("a\nb\n", "a\nc\n", False),
        ("a … c\n", "a b c\n", True),
        ("a … c\n", "a b d\n", False),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nd\n", True),
        ("", "something\n", False),
    ],
)
def test_shown_output_is_compared(shown: str, output: str, expected: bool) -> None:
    assert matches(shown, output) == expected
