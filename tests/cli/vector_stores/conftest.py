"""A database of its own, an embedding model on loopback, and a folder of documents."""

import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.cli.http_thread import serving
from tests.embeddings.embedding_server import EmbeddingServer


@dataclass
class EmbeddingModel(EmbeddingServer):
    """Answers while it `may_answer`; texts with a word of `refused` are not taken."""

    may_answer: threading.Event = field(default_factory=threading.Event)
    refused: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        asked = await request.json()
        if self.refused and any(self.refused in text for text in asked["input"]):
            return web.json_response({"error": {"message": "This text is not taken."}}, status=422)
        if not self.may_answer.is_set():
            self.requests.append(asked)
            return web.json_response({"error": {"message": "later"}}, status=503)
        return await super().answer(request)

    @property
    def texts(self) -> list[str]:
        """All texts that were embedded."""
        return [text for request in self.requests for text in request["input"]]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[EmbeddingModel, None, None]:
    """The embedding models `theirs` and `other` of an upstream; the only ones."""
    server = EmbeddingModel()
    server.may_answer.set()

    app = web.Application()
    app.router.add_post("/v1/embeddings", server.answer)
    with serving(app) as address:
        rows: list[Any] = [{"base_url": address, "models": ["m"], "embedding_models": ["theirs", "other"]}]
        monkeypatch.setenv("ANTIPHON_UPSTREAMS", msgspec.json.encode(rows).decode())
        monkeypatch.setenv("ANTIPHON_EMBEDDINGS__LOCAL", "false")
        monkeypatch.setenv("ANTIPHON_STORE__URL", f"sqlite:{tmp_path / 'kept.db'}")
        yield server


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """The folder `docs` in the current one."""
    folder = tmp_path / "here" / "docs"
    (folder / "money").mkdir(parents=True)
    (folder / "holidays.md").write_text("# Holidays\n\nEverybody has 28 days of leave per year.\n")
    (folder / "money" / "expenses.md").write_text("# Expenses\n\nTrains are second class.\n")
    return folder
