"""The real Codex as a client: a server with a scripted model, and `codex exec` in its own folder."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon import Route, ScriptedBackend, Settings
from antiphon.backends.scripted import Step
from antiphon.cli.codex.program import PROVIDER, CodexConfig, config_arguments, save_catalogue
from antiphon.cli.codex.server import fetch_catalogue
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.settings import SealSettings, StoreSettings
from antiphon.turn.chunks import (
    CallDelta,
    CallFinished,
    CallStarted,
    Chunk,
    Finished,
    TextDelta,
    UsageReported,
)
from antiphon.turn.context import TurnRequest
from antiphon.wiring import build_app
from tests.uvicorn_here import serve_here

JsonObject = dict[str, Any]

TEST_TIMEOUT_SECONDS = 60.0
WINDOW = 131_072
SETTINGS = Settings(seal=SealSettings(key="test"), store=StoreSettings(url="memory:"))
NO_RETRIES = {"request_max_retries": "0", "stream_max_retries": "0"}


class Model(ScriptedBackend):
    """A scripted model with a context window."""

    window: int | None = WINDOW

    async def context_window(self, model: str) -> int | None:
        return self.window


def cost(tokens: int) -> Usage:
    """The usage of a turn with this many tokens."""
    return Usage(tokens - 5, InputTokensDetails(), 5, OutputTokensDetails(), tokens)


def text_turn(text: str, tokens: int = 100) -> list[Step]:
    """A turn with a text."""
    return [[TextDelta(text)], [Finished("stop"), UsageReported(cost(tokens))]]


def calls(*named: tuple[str, JsonObject], before: Sequence[Chunk] = (), tokens: int = 100) -> list[Step]:
    """A turn with calls, which are streamed in pieces."""
    chunks: list[Chunk] = [*before]
    for index, (name, arguments) in enumerate(named):
        text = json.dumps(arguments)
        chunks.append(CallStarted(index, "", name))
        chunks += [CallDelta(index, text[at : at + 7]) for at in range(0, len(text), 7)]
        chunks.append(CallFinished(index))
    return [*([chunk] for chunk in chunks), [Finished("tool_calls"), UsageReported(cost(tokens))]]


def runs(command: str) -> tuple[str, JsonObject]:
    """A call that runs a command."""
    return "exec_command", {"cmd": command}


def patches(*lines: str) -> tuple[str, JsonObject]:
    """A call that applies a patch."""
    return "apply_patch", {"input": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


def outputs(turn: TurnRequest) -> list[str]:
    """The outputs of calls that the model receives, as text."""
    found = [str(output) for item in turn.items if (output := getattr(item, "output", None)) is not None]
    return [output for output in found if output]


def texts(turn: TurnRequest, role: str = "user") -> list[str]:
    """The texts of this role."""
    found: list[str] = []
    for item in turn.items:
        content: Any = getattr(item, "content", None) if getattr(item, "role", None) == role else None
        parts = (
            [content] if isinstance(content, str) else [getattr(part, "text", "") for part in content or ()]
        )
        found.append(" ".join(parts))
    return [text for text in found if text]


@dataclass(frozen=True)
class Ran:
    """The outcome of a run."""

    code: int
    events: list[JsonObject]
    log: str

    @property
    def answers(self) -> list[str]:
        return [item["text"] for item in self.items("agent_message")]

    @property
    def failures(self) -> str:
        return " ".join(
            json.dumps(event) for event in self.events if event["type"] in ("error", "turn.failed")
        )

    def items(self, kind: str) -> list[JsonObject]:
        """The finished items of this type."""
        done = [event["item"] for event in self.events if event["type"] == "item.completed"]
        return [item for item in done if item["type"] == kind]


@dataclass
class Codex:
    """The program, its home and folder, and its server."""

    program: str
    base_url: str
    home: Path
    folder: Path
    websocket: bool
    provider: dict[str, str] = field(default_factory=lambda: dict(NO_RETRIES))
    catalogue: Path | None = None
    requests_models: bool = True
    """Whether it requests the models from the server if there is no file; otherwise it uses its built-in
    list.
    """

    async def exec(self, *arguments: str, model: str = "m", shown: bool = False) -> Ran:
        """Run `codex exec` with these arguments: events as JSON, or the output for a person if `shown`."""
        config = CodexConfig(
            base_url=self.base_url, model=model, websocket=self.websocket, catalogue=self.catalogue
        )
        entries = {
            name: value
            for name, value in config.entries().items()
            if self.requests_models or ".auth." not in name
        }
        provider = [f"model_providers.{PROVIDER}.{key}={value}" for key, value in self.provider.items()]
        fixed = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        process = await asyncio.create_subprocess_exec(
            self.program,
            *config_arguments(entries),
            *(argument for entry in provider for argument in ("-c", entry)),
            "exec",
            *([] if shown else ["--json"]),
            *fixed,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env={**os.environ, "CODEX_HOME": str(self.home), "NO_PROXY": "127.0.0.1", "RUST_LOG": "error"},
        )
        try:
            output, errors = await asyncio.wait_for(process.communicate(), TEST_TIMEOUT_SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
        events = [json.loads(line) for line in output.decode().splitlines() if line.startswith("{")]
        return Ran(process.returncode or 0, events, f"{output.decode() if shown else ''}{errors.decode()}")


@asynccontextmanager
async def codex_on(
    model: Model,
    program: str,
    folder: Path,
    *,
    websocket: bool = False,
    names: Sequence[str] = ("m",),
) -> AsyncGenerator[Codex, None]:
    """Codex with this model; its server offers the model under these names."""
    routes = [Route(name, model) for name in names]

    def app() -> Any:
        return build_app(SETTINGS, routes=routes)

    home, work = folder / "home", folder / "work"
    home.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    async with serve_here(app, max_message=2**24) as here:
        base_url = f"http://127.0.0.1:{here.port}/v1"
        catalogue_text = await fetch_catalogue(base_url, "0.166.0", names[0])
        yield Codex(
            program, base_url, home, work, websocket, catalogue=save_catalogue(home, catalogue_text.body)
        )
