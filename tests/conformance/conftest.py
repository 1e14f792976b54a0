"""The official clients, against a real server process with a real upstream on loopback."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import openai
import pytest

from tests.serving import Served, run_server
from tests.upstream import Upstream, run_upstream


@pytest.fixture(scope="session")
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@pytest.fixture(scope="session")
def server(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Generator[Served, None, None]:
    folder: Path = tmp_path_factory.mktemp("server")
    with run_server(folder, "--upstream", upstream.url, "--log-level", "warning") as served:
        yield served


@pytest.fixture
async def client(server: Served) -> AsyncGenerator[openai.AsyncOpenAI, None]:
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
        yield client
