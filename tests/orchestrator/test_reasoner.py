"""The reasoner against a scripted client: its requests, its tool runs, and its responses."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest, ResponsesCallFailed
from antiphon.orchestrator.events import AgentCompleted, AgentEvent, AgentFailed, TextDelta, ToolCompleted
from antiphon.orchestrator.models import (
    ActiveFile,
    AgentExecuteRequest,
    AgentToolCall,
    ConversationContext,
    ImageAttachment,
    LlmUsage,
    SourceRef,
)
from antiphon.orchestrator.modes import Mode, Modes
from antiphon.orchestrator.reasoner import Limits, execute
from antiphon.orchestrator.tool import ServerTool, ToolResult
from antiphon.protocol.content import JsonObject
from antiphon.retrieval.base import RagChunk
from antiphon.retrieval.scope import Scope
from antiphon.tools.registry import ToolRegistry
from tests.orchestrator.scripted_client import ScriptedClient, answers, calls

ASK = AgentExecuteRequest(instruction="Do it.")


def tool(name: str, run: Any, **fields: Any) -> ServerTool:
    return ServerTool(name, f"The tool {name}.", {"type": "object"}, run, **fields)


def echo(arguments: JsonObject) -> JsonObject:
    return {"echo": arguments}


def outputs(body: JsonObject) -> list[tuple[str, str]]:
    return [
        (item["call_id"], item["output"])
        for item in body["input"]
        if item.get("type") == "function_call_output"
    ]


class Recorder:
    """Records the emitted events."""

    def __init__(self) -> None:
        self.events: list[AgentEvent] = []

    async def emit(self, event: AgentEvent) -> None:
        self.events.append(event)

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


async def test_a_request_without_tools_is_one_turn() -> None:
    client, recorder = ScriptedClient(answers("Done.")), Recorder()
    response = await execute(ASK, client=client, tell=recorder.emit)
    assert (response.kind, response.text, response.mode) == ("ok", "Done.", "general")
    assert response.response_continuation_id == "resp_1"
    assert recorder.kinds() == ["AgentStarted", "TurnStarted", "TurnCompleted", "AgentCompleted"]
    assert [event.sequence_number for event in recorder.events] == [0, 1, 2, 3]
    assert recorder.events[-1] == AgentCompleted(sequence_number=3, response=response)


async def test_the_model_is_the_context_s_or_the_server_s_default() -> None:
    client = ScriptedClient(answers("Done."))
    await execute(ASK, client=client)
    await execute(ASK, client=client, context=ConversationContext(model_name="mine"))
    assert [body["model"] for body in client.bodies] == ["default-model", "mine"]


@pytest.mark.requirement("AGN-004/5-sends")
async def test_server_tools_are_run_in_order_and_their_outputs_sent_with_the_next_turn() -> None:
    client = ScriptedClient(calls(("echo", {"n": 1}), ("echo", {"n": 2})), answers("Done."))
    response = await execute(ASK, client=client, tools=ToolRegistry([tool("echo", echo)]))
    second = client.bodies[1]
    assert second["previous_response_id"] == "resp_1"
    assert outputs(second) == [("call_0_0", '{"echo":{"n":1}}'), ("call_0_1", '{"echo":{"n":2}}')]
    assert len(second["input"]) == 2
    assert "tools" not in second
    assert [body.get("tools") is not None for body in client.bodies] == [True, False]
    assert [(call.name, call.was_executed, call.result_json) for call in response.tool_calls] == [
        ("echo", True, '{"echo":{"n":1}}'),
        ("echo", True, '{"echo":{"n":2}}'),
    ]
    assert response.text == "Done."


async def test_usage_is_the_sum_of_all_turns() -> None:
    client = ScriptedClient(calls(("echo", {})), answers("Done."))
    response = await execute(ASK, client=client, tools=ToolRegistry([tool("echo", echo)]))
    assert response.usage == LlmUsage(prompt_tokens=20, completion_tokens=10, total_tokens=30)


async def test_an_exception_of_a_tool_is_reported_to_the_model_and_the_run_continues() -> None:
    def broken() -> None:
        raise ValueError("no luck")

    client = ScriptedClient(calls(("broken", {})), answers("Done."))
    response = await execute(ASK, client=client, tools=ToolRegistry([tool("broken", broken)]))
    assert outputs(client.bodies[1]) == [("call_0_0", '{"error":"ValueError: no luck"}')]
    assert response.kind == "ok"
    assert response.tool_calls[0].error_message == "ValueError: no luck"
    assert not response.tool_calls[0].was_executed


async def test_a_hanging_tool_is_abandoned_at_its_deadline() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    client, recorder = ScriptedClient(calls(("hang", {})), answers("Done.")), Recorder()
    registry = ToolRegistry([tool("hang", hang, deadline=0.01)])
    response = await execute(ASK, client=client, tools=registry, tell=recorder.emit)
    completed = next(event for event in recorder.events if isinstance(event, ToolCompleted))
    assert completed.outcome == "timeout"
    assert response.text == "Done."


async def test_an_output_of_ten_megabytes_is_truncated_with_a_warning() -> None:
    client = ScriptedClient(calls(("long", {})), answers("Done."))
    registry = ToolRegistry([tool("long", lambda: "x" * 10_000_000)])
    response = await execute(ASK, client=client, tools=registry, limits=Limits(max_tool_output=1000))
    [(_, output)] = outputs(client.bodies[1])
    assert output.startswith("x" * 1000)
    assert len(output) < 1100
    assert response.warnings == (
        "The output of 'long' is truncated: the model receives 1000 of its 10000000 characters.",
    )


async def test_a_call_of_an_undeclared_tool_is_answered_with_an_error() -> None:
    client = ScriptedClient(calls(("nothing", {})), answers("Done."))
    response = await execute(ASK, client=client, tools=ToolRegistry([tool("echo", echo)]))
    [(_, output)] = outputs(client.bodies[1])
    assert output == '{"error":"There is no tool \'nothing\'. Tools that you can call: echo."}'
    assert response.warnings == ("The model has called an unknown tool. There is no tool 'nothing'.",)
    assert response.text == "Done."


async def test_unknown_tools_are_not_the_clients_if_the_server_does_not_list_tools() -> None:
    client = ScriptedClient({**calls(("nothing", {})), "tools": None}, answers("Done."))
    response = await execute(ASK, client=client)
    assert response.text == "Done."
    assert "There is no tool 'nothing'" in outputs(client.bodies[1])[0][1]


async def test_a_tool_is_forced_in_the_first_turn_only() -> None:
    client = ScriptedClient(calls(("echo", {})), answers("Done."))
    modes = Modes([Mode(key="general", when_to_use="Always.", tool_choice="echo")])
    await execute(ASK, client=client, tools=ToolRegistry([tool("echo", echo)]), modes=modes)
    assert [body.get("tool_choice") for body in client.bodies] == [{"type": "tool", "name": "echo"}, None]


async def test_a_tool_of_another_mode_is_not_run() -> None:
    ran: list[str] = []
    client = ScriptedClient(calls(("secret", {})), answers("Done."))
    registry = ToolRegistry([tool("secret", lambda: ran.append("secret"), modes=frozenset({"other"}))])
    response = await execute(ASK, client=client, tools=registry)
    assert ran == []
    assert "not offered in the mode 'general'" in response.warnings[0]


async def test_the_second_identical_call_is_warned_of_and_the_third_is_not_run() -> None:
    ran: list[JsonObject] = []

    def look(arguments: JsonObject) -> str:
        ran.append(arguments)
        return "the same"

    script = [calls(("look", text)) for text in ('{"a":1,"b":2}', '{"b":2, "a":1}', '{"a": 1, "b": 2}')]
    client = ScriptedClient(*script, answers("Done."))
    response = await execute(ASK, client=client, tools=ToolRegistry([tool("look", look)]))
    assert len(ran) == 2
    suppressed = msgspec.json.decode(outputs(client.bodies[3])[0][1])
    assert suppressed.pop("guidance")
    assert suppressed == {"suppressed": True, "reason": "repeat_tool_call_detected", "tool": "look"}
    assert response.warnings == (
        "The model has called 'look' twice with the same arguments.",
        "The model has called 'look' again with the same arguments; it was not run.",
    )
    assert [call.was_executed for call in response.tool_calls] == [True, True, False]


async def test_after_the_last_turn_calls_stay_open_with_a_warning() -> None:
    client = ScriptedClient(*[calls(("echo", {"n": n})) for n in range(5)])
    registry = ToolRegistry([tool("echo", echo)])
    response = await execute(ASK, client=client, tools=registry, limits=Limits(max_turns=2))
    assert len(client.bodies) == 2
    assert response.warnings == ("The calls of the last response were not run: all 2 turns are used.",)
    assert [(call.call_id, call.is_server_tool, call.was_executed) for call in response.tool_calls] == [
        ("call_0_0", True, True),
        ("call_1_0", True, False),
    ]


async def test_the_turns_of_a_mode_go_first() -> None:
    client = ScriptedClient(*[calls(("echo", {"n": n})) for n in range(5)])
    modes = Modes([Mode(key="general", when_to_use="Always.", max_turns=1)])
    await execute(ASK, client=client, tools=ToolRegistry([tool("echo", echo)]), modes=modes)
    assert len(client.bodies) == 1


@pytest.mark.requirement("AGN-004/3-kind")
async def test_a_rejected_request_becomes_a_response_of_kind_error() -> None:
    error_body = b'{"error":{"message":"slow down","code":"limit"}}'
    refusal = ResponsesCallFailed("no", status=429, body=error_body, code="limit")
    recorder = Recorder()
    response = await execute(ASK, client=ScriptedClient(refusal), tell=recorder.emit)
    assert (response.kind, response.error_code, response.error_message) == ("error", "limit", "slow down")
    assert response.mode == "general"
    assert recorder.events[-1] == AgentFailed(sequence_number=2, response=response, code="limit")


async def test_a_failed_request_without_a_body_gives_the_reason() -> None:
    failure = ResponsesCallFailed("cannot be reached", status=502, code="upstream_unreachable")
    response = await execute(ASK, client=ScriptedClient(failure))
    assert response.error_message == "cannot be reached"
    assert response.raw_response_json is None


async def test_a_failure_in_a_later_turn_keeps_the_earlier_results() -> None:
    refusal = ResponsesCallFailed("no", status=500, body=b"oops")
    client = ScriptedClient(calls(("echo", {})), refusal)
    response = await execute(ASK, client=client, tools=ToolRegistry([tool("echo", echo)]))
    assert (response.kind, response.error_message) == ("error", "oops")
    assert response.tool_calls[0].was_executed
    assert response.usage.total_tokens == 15


async def test_a_response_that_failed_ends_the_run() -> None:
    failed: JsonObject = {
        "status": "failed",
        "error": {"code": "server_error", "message": "broken"},
        "output": [],
    }
    recorder = Recorder()
    response = await execute(ASK, client=ScriptedClient(failed), tell=recorder.emit)
    assert (response.kind, response.error_message) == ("error", "broken")
    assert recorder.kinds()[-1] == "AgentFailed"


async def test_without_an_instruction_no_events_are_emitted() -> None:
    recorder = Recorder()
    with pytest.raises(InvalidRequest) as refusal:
        await execute(
            AgentExecuteRequest(instruction=" "), client=ScriptedClient(answers("")), tell=recorder.emit
        )
    assert refusal.value.param == "instruction"
    assert recorder.events == []


async def test_text_deltas_are_emitted_for_a_streaming_request() -> None:
    client, recorder = (
        ScriptedClient(calls(("echo", {}), text="I look."), answers("All is well.")),
        Recorder(),
    )
    request = msgspec.structs.replace(ASK, streaming=True)
    response = await execute(
        request, client=client, tools=ToolRegistry([tool("echo", echo)]), tell=recorder.emit
    )
    deltas = [(event.turn, event.delta) for event in recorder.events if isinstance(event, TextDelta)]
    assert deltas == [(1, "I"), (1, "look."), (2, "All"), (2, "is"), (2, "well.")]
    assert response.text == "All is well."
    assert [body["stream"] for body in client.bodies] == [True, True]
    assert [event.sequence_number for event in recorder.events] == list(range(len(recorder.events)))


async def test_a_stream_without_an_end_is_an_error() -> None:
    class Broken(ScriptedClient):
        async def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
            yield {"type": "response.output_text.delta", "delta": "Hal"}

    request = msgspec.structs.replace(ASK, streaming=True)
    response = await execute(request, client=Broken(answers("")))
    assert (response.kind, response.error_message) == ("error", "The stream ended before the response did.")


class Library:
    """A retriever with fixed results."""

    def __init__(self, *chunks: RagChunk) -> None:
        self.chunks = chunks
        self.queries: list[tuple[str, Scope, int]] = []

    async def retrieve(self, query: str, *, scope: Scope, limit: int) -> tuple[RagChunk, ...]:
        self.queries.append((query, scope, limit))
        return self.chunks


@pytest.mark.requirement("AGN-004/2.8-sources")
async def test_chunks_stand_in_the_user_message_and_become_sources() -> None:
    library = Library(RagChunk("c1", "docs/runs.md", 3, 5, "markdown", "Text.", "Runs", "heading"))
    client = ScriptedClient(answers("Done."))
    response = await execute(ASK, client=client, retriever=library)
    [_, user] = client.bodies[0]["input"]
    assert user["content"][1]["text"].startswith("[CONTEXT]\n\n=== CHUNK 1 ===\nId: c1\n")
    assert response.sources == (
        SourceRef(
            tag="c1",
            path="docs/runs.md",
            file_name="runs.md",
            start=3,
            end=5,
            symbol="Runs",
            symbol_type="heading",
        ),
    )
    assert [(query, limit) for query, _, limit in library.queries] == [("Do it.", 8)]


@pytest.mark.requirement("AGN-004/2.8-warnings")
async def test_chunks_beyond_the_context_are_omitted_with_a_warning() -> None:
    library = Library(*[RagChunk(f"c{n}", "a.md", n, n, "markdown", "x" * 600) for n in range(1, 4)])
    client = ScriptedClient(answers("Done."))
    response = await execute(ASK, client=client, retriever=library, limits=Limits(max_context=1300))
    assert [source.tag for source in response.sources] == ["c1", "c2"]
    assert response.warnings == ("The context is truncated: 1 of the chunks found did not fit into it.",)


async def test_a_mode_may_do_without_retrieval() -> None:
    library, client = Library(), ScriptedClient(answers("Done."))
    modes = Modes([Mode(key="general", when_to_use="Always.", retrieves=False)])
    await execute(ASK, client=client, retriever=library, modes=modes)
    assert library.queries == []


async def test_active_files_follow_the_context() -> None:
    library = Library(RagChunk("c1", "a.md", 1, 1, "markdown", "Text."))
    request = msgspec.structs.replace(
        ASK, active_files=(ActiveFile(relative_path="b.py", language="python", contents="pass\n"),)
    )
    client = ScriptedClient(answers("Done."))
    await execute(request, client=client, retriever=library)
    shown = client.bodies[0]["input"][1]["content"][1]["text"]
    assert shown.index("[CONTEXT]") < shown.index("[ACTIVE FILES]")
    assert "=== FILE 1 ===\nPath: b.py\nLanguage: python\n```python\npass\n```\n" in shown


async def test_active_files_that_do_not_fit_are_omitted_with_a_warning() -> None:
    request = msgspec.structs.replace(ASK, active_files=(ActiveFile(file_name="b.py", contents="x" * 2000),))
    response = await execute(
        request, client=ScriptedClient(answers("Done.")), limits=Limits(max_context=1000)
    )
    assert response.warnings == ("The context is truncated: the active file 'b.py' is too long for it.",)


async def test_images_belong_to_the_instruction() -> None:
    image = ImageAttachment(id="i", mime_type="image/png", data_base64="AAAA")
    client = ScriptedClient(answers("Done."))
    await execute(msgspec.structs.replace(ASK, image_attachments=(image,)), client=client)
    assert client.bodies[0]["input"][1]["content"][-1] == {
        "type": "input_image",
        "image_url": "data:image/png;base64,AAAA",
    }


async def test_a_tool_changes_the_mode_and_the_files_of_the_response() -> None:
    def change() -> ToolResult:
        return ToolResult(output="ok", mode="ddr_review")

    client = ScriptedClient(calls(("change", {})), answers("Done."))
    response = await execute(ASK, client=client, tools=ToolRegistry([tool("change", change)]))
    assert response.mode == "ddr_review"
    assert client.bodies[1]["input"] == [
        {"type": "function_call_output", "call_id": "call_0_0", "output": "ok"}
    ]


async def test_cancelling_ends_the_tool_at_once_and_emits_no_more_events() -> None:
    running, cancelled = asyncio.Event(), threading.Event()

    async def wait() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    client, recorder = ScriptedClient(calls(("wait", {})), answers("Done.")), Recorder()
    registry = ToolRegistry([tool("wait", wait)])
    task = asyncio.create_task(execute(ASK, client=client, tools=registry, tell=recorder.emit))
    await running.wait()
    event_count = len(recorder.events)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert cancelled.is_set()
    assert len(recorder.events) == event_count


async def test_a_response_without_an_id_cannot_be_answered() -> None:
    answer = {**calls(("echo", {})), "id": None}
    client = ScriptedClient(answer, answers("Done."))
    response = await execute(ASK, client=client, tools=ToolRegistry([tool("echo", echo)]))
    assert len(client.bodies) == 1
    assert response.warnings == ("The calls of the last response were not run: it has no id.",)


async def test_a_run_that_has_ended_is_not_run_again() -> None:
    client, recorder = ScriptedClient(answers("Done.")), Recorder()
    response = await execute(ASK, client=client, tell=recorder.emit)
    again = await execute(ASK, client=client, past=recorder.events, tell=recorder.emit)
    assert again == response
    assert len(client.bodies) == 1
    assert len(recorder.events) == 4


async def test_results_in_a_first_request_answer_no_call() -> None:
    request = AgentExecuteRequest(tool_results=(AgentToolCall(call_id="c", name="n", result_json="1"),))
    with pytest.raises(InvalidRequest) as refusal:
        await execute(request, client=ScriptedClient(answers("")))
    assert (refusal.value.param, refusal.value.code) == ("toolResults", "unknown_tool_call")


async def test_an_error_lists_the_tools_that_took_effect() -> None:
    refusal = ResponsesCallFailed("no", status=500, code="broken")
    registry = ToolRegistry([tool("pay", echo), tool("look", echo, side_effects=False)])
    client, recorder = ScriptedClient(calls(("pay", {}), ("look", {})), refusal), Recorder()
    response = await execute(ASK, client=client, tools=registry, tell=recorder.emit)
    assert response.kind == "error"
    assert "AgentWarned" not in recorder.kinds()  # a run in the background may yet resume
    assert response.warnings == (
        "Tools ran before the error (pay). Sending the request again runs them again.",
    )


async def test_a_bound_on_the_answer_holds_for_every_turn() -> None:
    client = ScriptedClient(calls(("echo", {})), answers("Done."))
    registry = ToolRegistry([tool("echo", echo)])
    await execute(ASK, client=client, tools=registry, limits=Limits(max_output_tokens=50))
    assert [body["max_output_tokens"] for body in client.bodies] == [50, 50]
