"""The reasoner, our own server and a scripted model, all in this process."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from antiphon import Antiphon, Route, ScriptedBackend, load_settings
from antiphon.backends.scripted import Step
from antiphon.errors import BackendRefused
from antiphon.orchestrator import ToolRegistry, execute
from antiphon.orchestrator.client import InProcessResponsesClient
from antiphon.orchestrator.events import TextDelta as AgentText
from antiphon.orchestrator.file_tools import file_tools
from antiphon.orchestrator.models import (
    ActiveFile,
    AgentExecuteRequest,
    AgentExecuteResponse,
    FileBundleItem,
    ImageAttachment,
    Limits,
)
from antiphon.orchestrator.modes import BUILT_IN, CHANGE_MODE, Modes, mode_tool
from antiphon.protocol.items import FunctionCallOutput, Message
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.retrieval.base import RagChunk
from antiphon.turn.chunks import HEARTBEAT, CallDelta, CallStarted, Chunk, Finished, TextDelta, UsageReported
from tests.orchestrator.test_reasoner import Library, Recorder, echo, tool

CLIENT_TOOLS = '[{"type":"function","name":"open_tab","parameters":{"type":"object","properties":{}}}]'
USAGE = UsageReported(Usage(10, InputTokensDetails(), 5, OutputTokensDetails(), 15))
DEFAULT = Limits()


def answers(*texts: str) -> Iterable[Step]:
    return [*([TextDelta(value)] for value in texts), [USAGE, Finished("stop")]]


def wants(*calls: tuple[str, Any]) -> Iterable[Step]:
    chunks: list[Chunk] = []
    for index, (name, arguments) in enumerate(calls):
        chunks += [CallStarted(index, "", name), CallDelta(index, msgspec.json.encode(arguments).decode())]
    return [[*chunks, USAGE, Finished("tool_calls")]]


class Agent:
    """An agent with file tools, a mode tool and an echo tool, and its model."""

    def __init__(self, antiphon: Antiphon, backend: ScriptedBackend) -> None:
        modes = Modes(BUILT_IN)
        self.client = InProcessResponsesClient(antiphon)
        self.backend = backend
        self.modes = modes
        self.tools = ToolRegistry([*file_tools(), mode_tool(modes), tool("echo", echo)])

    async def run(
        self, instruction: str | None = None, *, limits: Limits = DEFAULT, tell: Any = None, **fields: Any
    ) -> AgentExecuteResponse:
        retriever = fields.pop("retriever", None)
        return await execute(
            AgentExecuteRequest(instruction=instruction, **fields),
            client=self.client,
            tools=self.tools,
            modes=self.modes,
            retriever=retriever,
            limits=limits,
            tell=tell,
        )

    def tool_outputs(self, turn: int) -> list[str]:
        """The tool outputs that the model received in this turn."""
        return [
            str(item.output)
            for item in self.backend.turns[turn].items
            if isinstance(item, FunctionCallOutput)
        ]


@asynccontextmanager
async def agent(*scripts: Iterable[Step]) -> AsyncGenerator[Agent, None]:
    backend = ScriptedBackend(*[list(script) for script in scripts], models=("m",))
    settings = load_settings(environment={}, overrides={"store": {"url": "memory:"}})
    async with Antiphon(settings, routes=[Route("m", backend)]) as antiphon:
        yield Agent(antiphon, backend)


async def test_server_tools_loop_until_the_model_has_an_answer() -> None:
    async with agent(wants(("echo", {"n": 1})), wants(("echo", {"n": 2})), answers("Done.")) as tested:
        response = await tested.run("Do it.")
        assert (response.kind, response.text, response.model_id) == ("ok", "Done.", "m")
        assert response.usage.total_tokens == 45
        assert tested.tool_outputs(2) == ['{"echo":{"n":1}}', '{"echo":{"n":2}}']
        offered = [[each.name for each in turn.tools] for turn in tested.backend.turns]
        assert offered[0] == offered[1] == offered[2]
        assert "echo" in offered[0]


async def test_the_prompt_reaches_the_model_in_its_layers() -> None:
    async with agent(answers("Done.")) as tested:
        await tested.run("Do it.", mode="GENERAL", system_prompt="Be brief.")
        system, user = [item for item in tested.backend.turns[0].items if isinstance(item, Message)]
        system_text = str(system.content)
        assert (
            system_text.index("Current Mode: general")
            < system_text.index("Be brief.")
            < system_text.index("APTIX_SERVER_TOOL")
        )
        assert "[MODE: GENERAL]" in str(user.content)


@pytest.mark.requirement("AGN-004/5-returns", "AGN-004/5-continues")
async def test_client_tools_make_their_round_trip() -> None:
    async with agent(
        wants(("echo", {}), ("open_tab", {"n": 1})), answers("Opened."), answers("And closed.")
    ) as tested:
        first = await tested.run("Open it.", tools_json=CLIENT_TOOLS)
        assert [(call.name, call.is_server_tool) for call in first.tool_calls] == [
            ("open_tab", False),
            ("echo", True),
        ]
        results = [{"CallId": first.tool_calls[0].call_id, "Name": "open_tab", "ResultJson": '"tab 1"'}]
        second = await tested.run(
            response_continuation_id=first.response_continuation_id,
            tool_results_json=msgspec.json.encode(results).decode(),
        )
        assert (second.text, second.warnings) == ("Opened.", ())
        assert tested.tool_outputs(1) == ['{"echo":{}}', '"tab 1"']
        third = await tested.run("Close it.", response_continuation_id=second.response_continuation_id)
        assert third.text == "And closed."
        assert tested.tool_outputs(2) == tested.tool_outputs(1)


@pytest.mark.requirement("AGN-004/2.8-sources")
async def test_retrieved_chunks_reach_the_model_and_the_client() -> None:
    library = Library(RagChunk("id-1", "docs/a.md", 1, 2, "markdown", "The door is green."))
    async with agent(answers("Green.")) as tested:
        response = await tested.run("Which colour?", retriever=library)
        assert "The door is green." in str(tested.backend.turns[0].items[-1])
        assert [source.tag for source in response.sources] == ["id-1"]


async def test_text_is_streamed_while_the_model_generates() -> None:
    async with agent(wants(("echo", {})), answers("All ", "is ", "well.")) as tested:
        recorder = Recorder()
        response = await tested.run("Do it.", streaming=True, tell=recorder.emit)
        deltas = [event.delta for event in recorder.events if isinstance(event, AgentText)]
        assert "".join(deltas) == response.text == "All is well."
        assert len(deltas) == 3
        assert response.usage.total_tokens == 30


@pytest.mark.requirement("AGN-004/2.8-file-bundle")
async def test_files_are_proposed_to_the_client() -> None:
    script = wants(
        ("write_file", {"path": "new.md", "contents": "New."}),
        ("edit_file", {"path": "old.md", "find": "old", "replace": "new", "limit": "once"}),
        ("edit_file", {"path": "new.md", "find": "New", "replace": "Brand new"}),
        ("write_file", {"path": "../out.md", "contents": "x"}),
        ("delete_file", {"path": "gone.md"}),
    )
    async with agent(script, answers("Done.")) as tested:
        response = await tested.run(
            "Do it.", active_files=(ActiveFile(relative_path="old.md", contents="old text"),)
        )
        assert response.file_bundle is not None
        assert response.file_bundle.files == (
            FileBundleItem(action="replace", path="old.md", contents="new text"),
            FileBundleItem(action="create", path="new.md", contents="Brand new."),
            FileBundleItem(action="delete", path="gone.md"),
        )
        assert "must not contain empty parts" in tested.tool_outputs(1)[3]


async def test_the_model_changes_the_mode_for_the_next_request() -> None:
    change = (CHANGE_MODE, {"mode": "ddr_review", "branch": False, "reason": "A review is wanted."})
    async with agent(wants(change), answers("Changed.")) as tested:
        response = await tested.run("Review it.")
        assert response.mode == "ddr_review"


async def test_a_model_that_repeats_itself_is_stopped() -> None:
    async with agent(wants(("echo", {"n": 1}))) as tested:
        response = await tested.run("Do it.", limits=Limits(max_turns=5))
        assert len(tested.backend.turns) == 5
        assert [call.was_executed for call in response.tool_calls] == [True, True, False, False, False]
        assert "repeat_tool_call_detected" in tested.tool_outputs(4)[-1]
        assert response.warnings[-1].endswith("all 5 turns are used.")


async def test_open_calls_of_a_run_that_used_up_its_turns_do_not_break_the_conversation() -> None:
    async with agent(wants(("echo", {"n": 1})), answers("Well.")) as tested:
        first = await tested.run("Do it.", limits=Limits(max_turns=1))
        second = await tested.run("Leave it.", response_continuation_id=first.response_continuation_id)
        assert second.text == "Well."
        assert "not executed" in tested.tool_outputs(1)[0]


async def test_a_model_that_fails_is_an_answer() -> None:
    async with agent([BackendRefused("out of memory", status=400, code="too_big")]) as tested:
        response = await tested.run("Do it.")
        assert (response.kind, response.error_message) == ("error", "out of memory")
        streamed = await tested.run("Do it.", streaming=True)
        assert (streamed.kind, streamed.error_message) == ("error", "out of memory")


async def test_a_conversation_that_does_not_exist_is_an_answer() -> None:
    async with agent(answers("")) as tested:
        response = await tested.run("Go on.", response_continuation_id="resp_nowhere")
        assert response.kind == "error"
        assert "resp_nowhere" in str(response.error_message)


async def test_a_picture_reaches_the_model() -> None:
    async with agent(answers("A cat.")) as tested:
        image = ImageAttachment(mime_type="image/png", data_base64="iVBORw0KGgo=")
        await tested.run("What is it?", image_attachments=(image,))
        assert "data:image/png;base64,iVBORw0KGgo=" in str(tested.backend.turns[0].items[-1])


@pytest.mark.parametrize("streaming", [False, True])
async def test_cancelling_reaches_the_model(streaming: bool) -> None:
    requested, cancelled = asyncio.Event(), asyncio.Event()

    async def endless(_: object) -> AsyncGenerator[Step, None]:
        try:
            requested.set()
            yield HEARTBEAT
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    backend = ScriptedBackend(endless, models=("m",))
    settings = load_settings(environment={}, overrides={"store": {"url": "memory:"}})
    async with Antiphon(settings, routes=[Route("m", backend)]) as antiphon:
        task = asyncio.create_task(Agent(antiphon, backend).run("Wait.", streaming=streaming))
        await requested.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await cancelled.wait()
