"""The real default model. Short runs: every token costs about 10 ms."""

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from antiphon.backends.local.backend import LocalBackend
from antiphon.errors import BackendRefused
from antiphon.turn.chunks import CallStarted
from tests.backends.local.conftest import weights_folder
from tests.backends.local.turns import (
    ADD,
    CALLED,
    WEATHER,
    arguments_of,
    finish_of,
    run,
    text_of,
    turn,
    usage_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

FRANCE = "What is the capital of France?"


async def test_it_answers_the_capital_of_france(model: LocalBackend) -> None:
    chunks = await run(model, input=FRANCE, temperature=0)
    assert "Paris" in text_of(chunks)
    assert finish_of(chunks) == "stop"
    usage = usage_of(chunks)
    assert usage.input_tokens > 20
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens


async def test_the_stream_and_the_complete_answer_are_equal(model: LocalBackend) -> None:
    streamed = await run(model, input=FRANCE, temperature=0, stream=True)
    complete = await run(model, input=FRANCE, temperature=0, stream=False)
    assert text_of(streamed) == text_of(complete)
    assert usage_of(complete).input_tokens_details.cached_tokens > 0


@pytest.mark.parametrize("tool", [WEATHER, ADD])
async def test_a_forced_call_is_valid_for_its_schema(tool: dict[str, Any], model: LocalBackend) -> None:
    chunks = await run(
        model,
        input="What is the weather in Paris?",
        tools=[WEATHER, ADD],
        tool_choice={"type": "function", "name": tool["name"]},
    )
    assert chunks[0] == CallStarted(0, "", tool["name"])
    jsonschema_rs.validate(tool["parameters"], msgspec.json.decode(arguments_of(chunks)))


async def test_a_required_call_is_valid_for_the_schema_of_the_tool_it_chose(model: LocalBackend) -> None:
    chunks = await run(model, input="What is 17 plus 25?", tools=[WEATHER, ADD], tool_choice="required")
    assert isinstance(chunks[0], CallStarted)
    chosen = {tool["name"]: tool for tool in (WEATHER, ADD)}[chunks[0].name]
    jsonschema_rs.validate(chosen["parameters"], msgspec.json.decode(arguments_of(chunks)))
    assert finish_of(chunks) == "tool_calls"


async def test_after_a_tool_output_it_answers_with_text(model: LocalBackend) -> None:
    chunks = await run(model, input=CALLED, tools=[WEATHER], max_output_tokens=40, temperature=0)
    assert "21" in text_of(chunks)


async def test_a_custom_tool_gets_its_text(model: LocalBackend) -> None:
    tool = {"type": "custom", "name": "shout", "description": "Shout one word"}
    chunks = await run(
        model, input="Shout hello", tools=[tool], tool_choice="required", max_output_tokens=200
    )
    assert arguments_of(chunks).lstrip().startswith("{")


async def test_json_by_schema_is_valid(model: LocalBackend) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 20},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "name": "person", "schema": schema}
    chunks = await run(model, input="Anna is 30 years old.", text={"format": form})
    jsonschema_rs.validate(schema, msgspec.json.decode(text_of(chunks)))


async def test_an_unsupported_schema_is_rejected(model: LocalBackend) -> None:
    form = {"type": "json_schema", "name": "x", "schema": {"type": "object", "$ref": "#/$defs/missing"}}
    with pytest.raises(BackendRefused) as caught:
        await run(model, input="Hi", text={"format": form}, max_output_tokens=5)
    assert (caught.value.status, caught.value.param) == (400, "text.format")


async def test_a_bound_on_the_answer_ends_it_with_length(model: LocalBackend) -> None:
    chunks = await run(model, input="Tell me a long story.", max_output_tokens=8)
    assert finish_of(chunks) == "length"
    assert usage_of(chunks).output_tokens == 8


async def test_an_answer_without_a_limit_does_not_loop(model: LocalBackend) -> None:
    """It filled the context before."""
    chunks = await run(model, input="Write a poem.")
    assert finish_of(chunks) in ("stop", "length")
    assert usage_of(chunks).output_tokens < 600


async def test_cancelling_during_generation_stops_it_quickly(model: LocalBackend) -> None:
    chunks = model.prepare(turn(input="Count from one to a thousand.")).chunks()
    await anext(chunks)
    await _is_free_within(3.0, model, chunks.aclose())


async def test_cancelling_while_it_reads_stops_it_long_before_its_end(model: LocalBackend) -> None:
    def long(mark: str) -> str:
        return " ".join(f"{mark}{number}" for number in range(230))  # long enough to take seconds to read

    began = time.monotonic()
    await run(model, input=long("v"), max_output_tokens=1)
    full_seconds = time.monotonic() - began
    reading = asyncio.create_task(run(model, input=long("w"), max_output_tokens=1))
    await asyncio.sleep(full_seconds / 8)
    assert not reading.done()
    reading.cancel()
    began = time.monotonic()
    await asyncio.wait([reading])
    await _both_slots(model)
    assert time.monotonic() - began < full_seconds / 2


async def _is_free_within(seconds: float, model: LocalBackend, end: Any) -> None:
    """After `end` both slots answer at once, so the cancelled request no longer runs."""
    began = time.monotonic()
    await end
    assert time.monotonic() - began < seconds
    first = await _both_slots(model)
    # A request that still ran would slow down the first round, not the second; a busy machine slows both.
    assert first < seconds + 2 * await _both_slots(model)


async def _both_slots(model: LocalBackend) -> float:
    """The duration of two concurrent answers."""
    began = time.monotonic()
    await asyncio.gather(*(run(model, input=FRANCE, max_output_tokens=1) for _ in range(2)))
    return time.monotonic() - began


async def test_an_input_beyond_the_context_is_rejected_and_the_next_succeeds(model: LocalBackend) -> None:
    with pytest.raises(BackendRefused) as caught:
        await run(model, input="word " * 2000)
    assert (caught.value.status, caught.value.code, caught.value.param) == (
        400,
        "context_length_exceeded",
        "input",
    )
    assert "Paris" in text_of(await run(model, input=FRANCE, temperature=0))


async def test_two_requests_run_at_once(model: LocalBackend) -> None:
    both = await asyncio.gather(*(run(model, input=FRANCE, temperature=0) for _ in range(2)))
    assert all("Paris" in text_of(chunks) for chunks in both)


async def test_it_counts_tokens(model: LocalBackend) -> None:
    assert await model.count_tokens("") == 0
    assert 4 <= await model.count_tokens("Hello world, how are you?") <= 12


def _socket() -> Path:
    """The socket that a child of this process listens on, as the kernel lists it."""
    tasks = Path("/proc/self/task").iterdir()
    children = {child for task in tasks for child in (task / "children").read_text().split()}
    listed = Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()
    links = [link for child in children for link in Path(f"/proc/{child}/fd").iterdir()]
    inodes = {os.readlink(link) for link in links if link.is_symlink()}
    fields = [line.split() for line in listed if line.endswith("/llama.sock")]
    return next(Path(each[-1]) for each in fields if f"socket:[{each[-2]}]" in inodes)


async def test_other_processes_cannot_reach_the_engine(model: LocalBackend) -> None:
    """llama.cpp opens an HTTP server: on a socket in our own folder, protected by a key."""
    await model.count_tokens("loaded")
    mine = _socket()
    assert stat.S_IMODE(mine.parent.stat().st_mode) == 0o700
    for path in ("/v1/chat/completions", "/tokenize", "/props", "/slots"):
        assert "401" in await asyncio.to_thread(_post, mine, path)


def _post(address: Path, path: str) -> str:
    """The status line for a request without a key."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(address))
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        return connection.recv(4096).decode().partition("\r\n")[0]


QUIET = f"""
import asyncio, signal, sys
from pathlib import Path
from antiphon.backends.local.backend import LocalBackend
from antiphon.errors import BackendError
from tests.backends.local.turns import run

async def main() -> None:
    backend = LocalBackend("smollm2-135m", Path(sys.argv[1]), context=512, parallel=1, threads=2)
    await run(backend, input="{FRANCE}", max_output_tokens=3)
    try:
        await run(backend, input="word " * 2000)
    except BackendError:
        pass
    broken = Path(sys.argv[2]) / "broken.gguf"
    broken.write_bytes(b"GGUF and no more")
    other = LocalBackend(str(broken), broken.parent)
    try:
        await run(other, input="Hi")
    except BackendError as error:
        assert "cannot be loaded" in error.message
    await backend.aclose()
    await other.aclose()

before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
asyncio.run(main())
assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
signal.raise_signal(signal.SIGTERM)
"""


async def test_it_writes_nothing_to_stdout_and_stderr_and_installs_no_signal_handlers(
    model: LocalBackend, tmp_path: Path
) -> None:
    await model.count_tokens("fetched")
    arguments = [sys.executable, "-c", QUIET, str(weights_folder()), str(tmp_path)]
    done = await asyncio.to_thread(subprocess.run, arguments, capture_output=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert done.returncode == -signal.SIGTERM
