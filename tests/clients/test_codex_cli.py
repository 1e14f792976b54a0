"""The real Codex as a client, over HTTP and WebSocket: commands, file edits, and long sessions."""

import asyncio
import base64
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import BackendRefused, BackendUnreachable
from antiphon.turn.chunks import ReasoningDelta
from antiphon.turn.context import TurnRequest
from tests.clients.codex_cli import Codex, Model, calls, codex_on, outputs, patches, runs, text_turn, texts
from tests.clients.conftest import find_codex

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.xdist_group("codex")]

TEST_TIMEOUT_SECONDS = 80.0
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

Driving = Callable[..., AbstractAsyncContextManager[Codex]]


@pytest.fixture(params=["http", "websocket"])
def codex(request: pytest.FixtureRequest, tmp_path: Path) -> Driving:
    """Opens the real binary on a scripted model, over either transport."""
    program = find_codex()
    if program is None:
        pytest.skip("codex is not installed: `make test-clients` installs it")
    return partial(codex_on, program=program, folder=tmp_path, websocket=request.param == "websocket")


async def test_a_question_is_answered_and_the_model_is_known(codex: Driving) -> None:
    model = Model(text_turn("Hello there."))
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex(model) as client:
        ran = await client.exec("hi")
    assert (ran.code, ran.answers, ran.failures) == (0, ["Hello there."], "")
    assert "metadata" not in ran.log
    assert texts(model.turns[0])[-1] == "hi"
    assert texts(model.turns[0], "developer")[0].startswith("You are a coding agent in a terminal.")


async def test_commands_run_and_files_change_over_several_rounds(codex: Driving) -> None:
    model = Model(
        calls(runs("cat greeting.txt"), runs("pwd")),
        calls(patches("*** Update File: greeting.txt", "@@", "-hello", "+hello, world")),
        calls(patches("*** Add File: new/note.txt", "+a note")),
        calls(runs("cat greeting.txt new/note.txt")),
        text_turn("Changed."),
    )
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex(model) as client:
        (client.folder / "greeting.txt").write_text("hello\n")
        ran = await client.exec("greet the world")
        assert (client.folder / "greeting.txt").read_text() == "hello, world\n"
        assert (client.folder / "new/note.txt").read_text() == "a note\n"
        folder, continued = str(client.folder), client.websocket
    assert (ran.code, ran.answers) == (0, ["Changed."])
    assert [turn.params.previous_response_id is not None for turn in model.turns[1:]] == [continued] * 4
    assert [len(outputs(turn)) for turn in model.turns] == [0, 2, 3, 4, 5]
    outputs_received = outputs(model.turns[-1])
    assert "hello" in outputs_received[0]
    assert folder in outputs_received[1]
    assert "Success" in outputs_received[2]
    assert "hello, world" in outputs_received[4]
    assert [change["kind"] for item in ran.items("file_change") for change in item["changes"]] == [
        "update",
        "add",
    ]


async def test_a_failed_patch_is_reported_to_the_model(codex: Driving) -> None:
    model = Model(calls(patches("*** Update File: missing.txt", "@@", "-a", "+b")), text_turn("Sorry."))
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex(model) as client:
        ran = await client.exec("edit")
    assert ran.answers == ["Sorry."]
    assert "missing.txt" in outputs(model.turns[1])[0]


async def test_reasoning_is_shown_and_comes_back_in_the_next_turn(codex: Driving) -> None:
    thinking = [ReasoningDelta("I should "), ReasoningDelta("look first.")]
    model = Model(calls(runs("true"), before=thinking), text_turn("Looked."))
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex(model) as client:
        ran = await client.exec("look", shown=True)
    assert "I should look first." in ran.log
    assert "Looked." in ran.log
    assert any("I should look first." in str(item) for item in model.turns[1].items)


async def test_an_image_reaches_the_model(codex: Driving) -> None:
    model = Model(text_turn("A pixel."))
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex(model) as client:
        (client.folder / "pixel.png").write_bytes(PIXEL)
        ran = await client.exec("what is this?", "-i", "pixel.png")
    assert ran.answers == ["A pixel."]
    urls = [str(getattr(part, "image_url", "")) for item in model.turns[0].items for part in _parts(item)]
    assert any(url.startswith("data:image/png;base64,") for url in urls)


async def test_a_schema_for_the_last_message_is_asked_for(codex: Driving) -> None:
    schema = {
        "type": "object",
        "properties": {"total": {"type": "integer"}},
        "required": ["total"],
        "additionalProperties": False,
    }
    model = Model(text_turn('{"total": 3}'))
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex(model) as client:
        (client.folder / "schema.json").write_text(json.dumps(schema))
        ran = await client.exec("1 + 2", "--output-schema", "schema.json", "-o", "last.json")
        assert json.loads((client.folder / "last.json").read_text()) == {"total": 3}
    assert ran.code == 0
    text = model.turns[0].params.text
    assert text is not None
    assert text.format is not None
    assert (text.format.type, text.format.schema) == ("json_schema", schema)


async def test_a_conversation_near_the_end_of_the_window_is_compacted(codex: Driving) -> None:
    """The limit is the catalogue's: 90 % of the true window, or less."""
    model = Model(calls(runs("echo one"), tokens=30_000), text_turn("We ran echo one."), text_turn("Done."))
    model.window = 32_768
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex(model) as client:
        ran = await client.exec("go on")
    assert ran.answers[-1] == "Done."
    summary_prompt, after = texts(model.turns[1])[-1], " ".join(texts(model.turns[2]))
    assert "CONTEXT CHECKPOINT COMPACTION" in summary_prompt
    assert model.turns[1].tools == ()
    assert "We ran echo one." in after
    assert outputs(model.turns[2]) == []


async def test_a_provider_named_openai_has_its_history_compacted_here(codex: Driving) -> None:
    model = Model(
        calls(runs("echo one"), tokens=30_000), text_turn("SUMMARY: ran echo one."), text_turn("Done.")
    )
    model.window = 32_768
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex(model) as client:
        client.provider["name"] = '"OpenAI"'
        ran = await client.exec("go on")
    assert ran.answers[-1] == "Done."
    assert len(model.turns) == 3
    assert any("SUMMARY: ran echo one." in str(item) for item in model.turns[2].items)
    assert outputs(model.turns[2]) == []


async def test_a_long_session_is_resumed(codex: Driving) -> None:
    rounds = 20

    def steps_for(turn: TurnRequest) -> Any:
        done = len(outputs(turn))
        return calls(runs(f"echo round {done}")) if done < rounds else text_turn(f"{done} rounds.")

    model = Model(steps_for)
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex(model) as client:
        first = await client.exec("count")
        second = await client.exec("resume", "--last", "and now?")
    assert (first.code, second.code) == (0, 0)
    assert (first.answers, second.answers) == (["20 rounds."], ["20 rounds."])
    assert len(model.turns) == rounds + 2
    assert [f"round {number}" in output for number, output in enumerate(outputs(model.turns[-1]))] == [
        True
    ] * rounds
    assert texts(model.turns[-1])[-1] == "and now?"


async def test_a_backend_failure_before_the_first_delta_is_retried(codex: Driving) -> None:
    broken = BackendRefused("the model server is broken", status=500, code="server_error")
    model = Model([broken], text_turn("Back again."))
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex(model) as client:
        client.provider |= {"request_max_retries": "2", "stream_max_retries": "2"}
        ran = await client.exec("hi")
    assert (ran.code, ran.answers) == (0, ["Back again."])
    assert len(model.turns) == 2


async def test_a_permanent_backend_failure_is_shown_to_the_user(codex: Driving) -> None:
    """Codex describes a 500 in its own text; every other error is shown with ours."""
    model = Model([BackendUnreachable("the model server is gone")])
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex(model) as client:
        ran = await client.exec("hi")
    assert ran.code == 1
    assert "the model server is gone" in ran.failures


async def test_a_prompt_beyond_the_window_is_told_as_that(codex: Driving) -> None:
    refusal = BackendRefused("the prompt is too long", status=400, code="context_length_exceeded")
    model = Model([refusal])
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS), codex(model) as client:
        ran = await client.exec("hi")
    assert ran.code == 1
    assert "context window" in ran.failures or "the prompt is too long" in ran.failures


def _parts(item: object) -> list[object]:
    content: Any = getattr(item, "content", None)
    return [] if isinstance(content, str) else list(content or ())
