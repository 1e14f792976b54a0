"""A program that the page copies runs with the client that it imports."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.clients.programs import NODE, NODE_MODULES, ROOT
from tests.clients.test_snippets import run
from tests.serving import Served, run_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.clients,
    pytest.mark.xdist_group("snippets"),
    pytest.mark.skipif(
        not (NODE_MODULES / "ai").exists(), reason="not installed: `make test-clients` does it"
    ),
]
BODY = {"model": "local", "input": "It's “me”.\n`${1}`", "max_output_tokens": 16, "metadata": {"a": "b"}}
_WRITE_PROGRAM = """
const [module, body, origin] = process.argv.slice(1);
const { programFor } = await import(module);
process.stdout.write(programFor("TypeScript", JSON.parse(body), { "antiphon-trace": "record" }, origin));
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served, None, None]:
    with run_server(tmp_path_factory.mktemp("server"), "--log-level", "warning", "--no-discovery") as served:
        yield served


def test_the_typescript_program_runs(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = server.base_url.removesuffix("/v1")
    module = (ROOT / "web/src/lib/program.ts").as_uri()
    write = ["--input-type=module", "--eval", _WRITE_PROGRAM, module, json.dumps(BODY), origin]
    program = run(tmp_path, str(NODE), *write)
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    (tmp_path / "program.mts").write_text(program)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert run(tmp_path, str(NODE), "program.mts")
