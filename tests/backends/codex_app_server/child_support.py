"""Shared by the tests of the codex backend: a backend on a scripted child, and turns to run on it."""

import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from antiphon.backends.codex_app_server.backend import CodexBackend, Limits
from antiphon.backends.codex_app_server.process import ChildOptions
from antiphon.backends.codex_app_server.request import CodexRequest, ThreadOptions, build_request
from antiphon.protocol.parse_create import create_from
from antiphon.turn.chunks import Chunk, TextDelta
from antiphon.turn.context import TurnRequest, build_turn

SCRIPT = Path(__file__).with_name("scripted_child.py")
LOOK: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "description": "Looks.",
    "parameters": {"type": "object", "properties": {"at": {"type": "number"}}},
}


def turn_for(**params: Any) -> TurnRequest:
    """The turn for a request with these params."""
    return build_turn(create_from(**{"model": "codex", "input": "hi", **params}), model="codex")


def request_of(**params: Any) -> CodexRequest:
    """The codex request for these params."""
    return build_request(turn_for(**params), ThreadOptions(folder="/work"))


def answered(*ids: str, **changes: str) -> list[dict[str, Any]]:
    """The history after calls of `look`: the user message, the calls, their outputs."""
    calls = [
        {"type": "function_call", "call_id": call_id, "name": "look", "arguments": '{ "at" : 1 }'}
        for call_id in ids
    ]
    outputs = [
        {"type": "function_call_output", "call_id": call_id, "output": f"saw {call_id}"} for call_id in ids
    ]
    return [{"role": "user", "content": changes.get("question", "hi")}, *calls, *outputs]


def text_of(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


@dataclass(frozen=True)
class Stage:
    """A backend on a scripted child, with the child's files."""

    backend: CodexBackend
    folder: Path

    @property
    def pids(self) -> list[int]:
        """The processes that were started, in order."""
        return [int(line) for line in self._lines("starts")]

    @property
    def notes(self) -> list[str]:
        """The notes that the child wrote."""
        return self._lines("notes")

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    async def run(self, **params: Any) -> list[Chunk]:
        """The chunks of one turn, without heartbeats."""
        batches = self.backend.prepare(turn_for(**params)).chunks()
        return [chunk async for batch in batches for chunk in batch]


def child_options(folder: Path, *scenarios: str, handshake: float = 30.0) -> ChildOptions:
    """A child that plays these scenarios in order."""
    command = folder / "codex"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{SCRIPT}" "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PLAY": ",".join(scenarios),
        "STARTS": str(folder / "starts"),
        "NOTES": str(folder / "notes"),
    }
    return ChildOptions(str(command), environment, folder / "work", handshake_timeout=handshake)


@asynccontextmanager
async def staged(
    folder: Path, *scenarios: str, handshake: float = 30.0, **limits: Any
) -> AsyncGenerator[Stage, None]:
    """A backend on a scripted child."""
    backend = CodexBackend(
        child_options(folder, *scenarios, handshake=handshake),
        ThreadOptions(folder=str(folder / "work")),
        replace(Limits(silence=30.0), **limits),
        pause=0.0,
    )
    try:
        yield Stage(backend, folder)
    finally:
        await backend.aclose()
