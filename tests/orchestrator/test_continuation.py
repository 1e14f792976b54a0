"""Continued requests: client tools and their results, open calls, chains."""

from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.events import ToolCompleted
from antiphon.orchestrator.models import AgentExecuteRequest, AgentExecuteResponse, AgentToolCall
from antiphon.orchestrator.modes import Mode, Modes
from antiphon.orchestrator.reasoner import execute
from antiphon.orchestrator.tool import ServerTool
from antiphon.protocol.content import JsonObject
from antiphon.tools.registry import ToolRegistry
from tests.orchestrator.scripted_client import ScriptedClient, answers, calls
from tests.orchestrator.test_reasoner import Recorder, outputs, tool

CLIENT_TOOLS = '[{"type":"function","name":"open_tab","parameters":{"type":"object"}}]'
ASK = AgentExecuteRequest(instruction="Do it.", tools_json=CLIENT_TOOLS)


class Server:
    """A registry with one tool that counts its runs."""

    def __init__(self, *others: ServerTool) -> None:
        self.ran: list[JsonObject] = []
        self.registry = ToolRegistry([tool("save", self._save), *others])

    def _save(self, arguments: JsonObject) -> str:
        self.ran.append(arguments)
        return f"saved {len(self.ran)}"


def results(*outputs_by_id: tuple[str, str], **fields: Any) -> AgentExecuteRequest:
    results_json = [
        {"callId": call_id, "name": "open_tab", "resultJson": text} for call_id, text in outputs_by_id
    ]
    return AgentExecuteRequest(tool_results_json=msgspec.json.encode(results_json).decode(), **fields)


async def begin(client: ScriptedClient, server: Server) -> AgentExecuteResponse:
    return await execute(ASK, client=client, tools=server.registry)


async def refusal(client: ScriptedClient, server: Server, request: AgentExecuteRequest) -> InvalidRequest:
    recorder = Recorder()
    with pytest.raises(InvalidRequest) as caught:
        await execute(request, client=client, tools=server.registry, tell=recorder.emit)
    assert recorder.events == []
    return caught.value


@pytest.mark.requirement("AGN-004/2.6-waiting-call")
async def test_a_turn_with_a_client_call_is_returned_before_any_server_tool_runs() -> None:
    client, server = (
        ScriptedClient(calls(("save", {"n": 1}), ("open_tab", {"n": 2})), answers("Done.")),
        Server(),
    )
    response = await begin(client, server)
    assert server.ran == []
    assert response.kind == "tool-only"
    assert response.tool_calls == (
        AgentToolCall(call_id="call_0_1", name="open_tab", arguments_json='{"n":2}'),
        AgentToolCall(call_id="call_0_0", name="save", arguments_json='{"n":1}', is_server_tool=True),
    )


async def test_results_come_back_and_all_outputs_are_sent_together_in_call_order() -> None:
    client, server = (
        ScriptedClient(calls(("save", {}), ("open_tab", {}), ("save", {"n": 2})), answers("Done.")),
        Server(),
    )
    first = await begin(client, server)
    back = results(("call_0_1", '"opened"'), response_continuation_id=first.response_continuation_id)
    response = await execute(back, client=client, tools=server.registry)
    second = client.bodies[1]
    assert outputs(second) == [
        ("call_0_0", "saved 1"),
        ("call_0_1", '"opened"'),
        ("call_0_2", "saved 2"),
    ]
    assert len(second["input"]) == 3
    assert "tools" not in second
    assert response.text == "Done."
    assert [call.call_id for call in response.tool_calls] == ["call_0_0", "call_0_2"]


async def test_executed_server_calls_precede_client_calls() -> None:
    client, server = ScriptedClient(calls(("save", {})), calls(("open_tab", {}), text="Look.")), Server()
    response = await begin(client, server)
    assert response.kind == "ok"
    assert [(call.name, call.is_server_tool) for call in response.tool_calls] == [
        ("save", True),
        ("open_tab", False),
    ]


async def test_a_result_for_an_unknown_call_is_rejected() -> None:
    client, server = ScriptedClient(calls(("open_tab", {})), answers("Done.")), Server()
    await begin(client, server)
    error = await refusal(client, server, results(("call_9", "1"), response_continuation_id="resp_1"))
    assert (error.status, error.param, error.code) == (400, "toolResultsJson", "unknown_tool_call")
    assert "call_9" in error.message


async def test_a_result_under_the_name_of_another_tool_is_rejected() -> None:
    client, server = ScriptedClient(calls(("open_tab", {})), answers("Done.")), Server()
    await begin(client, server)
    for name, refused in (("close_tab", True), ("Open_Tab", True), ("", False), ("open_tab", False)):
        result = AgentToolCall(call_id="call_0_0", name=name, result_json="1")
        back = AgentExecuteRequest(tool_results=(result,), response_continuation_id="resp_1")
        if refused:
            error = await refusal(client, server, back)
            assert (error.status, error.param, error.code) == (400, "toolResults", "tool_result_mismatch")
            assert f"'{name}'" in error.message
            assert "'open_tab'" in error.message
        else:
            assert (await execute(back, client=client, tools=server.registry)).text == "Done."


async def test_a_client_call_without_a_result_is_rejected() -> None:
    client, server = (
        ScriptedClient(calls(("open_tab", {}), ("open_tab", {"n": 2})), answers("Done.")),
        Server(),
    )
    await begin(client, server)
    error = await refusal(client, server, results(("call_0_0", "1"), response_continuation_id="resp_1"))
    assert (error.param, error.code) == ("toolResultsJson", "missing_tool_result")
    assert "call_0_1" in error.message


async def test_a_client_cannot_answer_for_a_server_tool() -> None:
    client, server = ScriptedClient(calls(("save", {}), ("open_tab", {})), answers("Done.")), Server()
    await begin(client, server)
    forged = results(("call_0_0", "1"), ("call_0_1", "1"), response_continuation_id="resp_1")
    error = await refusal(client, server, forged)
    assert (error.param, error.code) == ("toolResultsJson", "server_tool_call")
    assert server.ran == []


async def test_going_on_without_results_answers_open_calls_as_not_executed() -> None:
    client, server = ScriptedClient(calls(("save", {}), ("open_tab", {})), answers("Done.")), Server()
    await begin(client, server)
    request = AgentExecuteRequest(instruction="Never mind.", response_continuation_id="resp_1")
    response = await execute(request, client=client, tools=server.registry)
    sent_outputs = outputs(client.bodies[1])
    assert [call_id for call_id, _ in sent_outputs] == ["call_0_0", "call_0_1"]
    assert all("not executed" in msgspec.json.decode(output)["error"] for _, output in sent_outputs)
    assert client.bodies[1]["input"][-1]["content"][0]["text"].endswith("[INSTRUCTION]\nNever mind.")
    assert server.ran == []
    assert response.warnings == (
        "The conversation continues without the results of open calls (save, open_tab); they were not executed.",
    )


async def test_open_calls_without_an_instruction_are_rejected() -> None:
    client, server = ScriptedClient(calls(("open_tab", {})), answers("Done.")), Server()
    await begin(client, server)
    error = await refusal(client, server, AgentExecuteRequest(response_continuation_id="resp_1"))
    assert error.param == "instruction"


async def test_a_response_that_cannot_be_retrieved_is_an_error() -> None:
    recorder = Recorder()
    request = AgentExecuteRequest(instruction="Go on.", response_continuation_id="resp_gone")
    response = await execute(request, client=ScriptedClient(answers("")), tell=recorder.emit)
    assert (response.kind, response.error_code, response.error_message) == (
        "error",
        "not_found",
        "no resp_gone",
    )
    assert recorder.kinds() == ["AgentFailed"]


async def test_a_client_tool_is_known_in_later_requests_without_being_declared_again() -> None:
    client, server = ScriptedClient(answers("Hello."), calls(("open_tab", {})), answers("Done.")), Server()
    first = await begin(client, server)
    request = AgentExecuteRequest(
        instruction="Go on.", response_continuation_id=first.response_continuation_id
    )
    response = await execute(request, client=client, tools=server.registry)
    assert [call.name for call in response.tool_calls] == ["open_tab"]
    assert response.warnings == ()


async def test_new_tools_are_sent_with_the_known_ones() -> None:
    client, server = ScriptedClient(answers("Hello."), answers("Done.")), Server()
    await begin(client, server)
    request = AgentExecuteRequest(
        instruction="Go on.",
        response_continuation_id="resp_1",
        tools_json='[{"type":"function","name":"close_tab"}]',
    )
    response = await execute(request, client=client, tools=server.registry)
    names = [tool["name"] for tool in client.bodies[1]["tools"]]
    assert {"open_tab", "close_tab"} <= set(names)
    assert len(names) == len(set(names))
    assert response.warnings == ()


async def test_a_call_of_an_undeclared_tool_is_not_passed_to_the_client() -> None:
    client, server = ScriptedClient(calls(("other", {}), ("open_tab", {})), answers("Done.")), Server()
    first = await begin(client, server)
    assert [call.name for call in first.tool_calls if not call.is_server_tool] == ["open_tab"]
    back = results(("call_0_1", "1"), response_continuation_id="resp_1")
    response = await execute(back, client=client, tools=server.registry)
    assert "There is no tool 'other'" in outputs(client.bodies[1])[0][1]
    assert response.text == "Done."


async def test_unknown_calls_go_to_the_client_if_the_server_does_not_list_tools() -> None:
    client, server = ScriptedClient({**calls(("open_tab", {})), "tools": None}, answers("Done.")), Server()
    await begin(client, server)
    back = results(("call_0_0", "1"), response_continuation_id="resp_1")
    assert (await execute(back, client=client, tools=server.registry)).text == "Done."


async def test_a_server_tool_missing_in_the_new_mode_is_not_passed_to_the_client() -> None:
    client, server = ScriptedClient(answers("Hello."), calls(("save", {})), answers("Done.")), Server()
    await begin(client, server)
    modes = Modes([Mode(key="general", when_to_use="Always.", tools=())])
    request = AgentExecuteRequest(instruction="Save.", response_continuation_id="resp_1")
    response = await execute(request, client=client, tools=server.registry, modes=modes)
    assert server.ran == []
    assert "not offered in the mode 'general'" in outputs(client.bodies[2])[0][1]
    assert response.text == "Done."


def checked(arguments: JsonObject) -> str:
    if "path" not in arguments:
        raise ValueError("path is missing")
    return "fine"


def final_client(**fields: Any) -> Server:
    return Server(tool("pick", checked, final="client", **fields))


async def test_a_valid_call_is_passed_to_the_client_which_returns_the_result() -> None:
    client, server = ScriptedClient(calls(("pick", {"path": "a"})), answers("Done.")), final_client()
    recorder = Recorder()
    first = await execute(ASK, client=client, tools=server.registry, tell=recorder.emit)
    assert [(call.name, call.is_server_tool) for call in first.tool_calls] == [("pick", False)]
    assert [event.outcome for event in recorder.events if isinstance(event, ToolCompleted)] == ["handed"]
    picked = AgentToolCall(call_id="call_0_0", name="pick", result_json='"a.txt"')
    back = AgentExecuteRequest(tool_results=(picked,), response_continuation_id="resp_1")
    await execute(back, client=client, tools=server.registry)
    assert outputs(client.bodies[1]) == [("call_0_0", '"a.txt"')]


async def test_a_call_that_fails_its_check_is_answered_by_the_server() -> None:
    client, server = ScriptedClient(calls(("pick", {})), answers("Done.")), final_client()
    response = await begin(client, server)
    assert outputs(client.bodies[1]) == [("call_0_0", '{"error":"ValueError: path is missing"}')]
    assert response.text == "Done."


async def test_an_invalid_call_next_to_a_client_call_needs_no_result() -> None:
    client, server = ScriptedClient(calls(("pick", {}), ("open_tab", {})), answers("Done.")), final_client()
    first = await begin(client, server)
    assert [(call.name, call.is_server_tool) for call in first.tool_calls] == [
        ("pick", True),
        ("open_tab", False),
    ]
    back = results(("call_0_1", "1"), response_continuation_id="resp_1")
    await execute(back, client=client, tools=server.registry)
    assert outputs(client.bodies[1])[0] == ("call_0_0", '{"error":"ValueError: path is missing"}')


async def test_a_call_that_passed_its_check_needs_a_result() -> None:
    client, server = (
        ScriptedClient(calls(("pick", {"path": "a"}), ("open_tab", {})), answers("Done.")),
        final_client(),
    )
    await begin(client, server)
    error = await refusal(client, server, results(("call_0_1", "1"), response_continuation_id="resp_1"))
    assert error.code == "missing_tool_result"


async def test_checks_that_all_fail_do_not_outlast_the_turns() -> None:
    client = ScriptedClient(*[calls(("pick", {"n": n})) for n in range(20)])
    response = await begin(client, final_client())
    assert len(client.bodies) == 8
    assert "all 8 turns are used" in response.warnings[-1]


async def test_a_new_mode_is_announced_and_applies_to_all_later_turns() -> None:
    special = Mode(key="special", when_to_use="Now.", instructions=("Be special.",), tools=("shine",))
    modes = Modes([Mode(key="general", when_to_use="Else."), special])
    registry = ToolRegistry([ServerTool("shine", "Shines.", {"type": "object"}, lambda: "!")])
    client = ScriptedClient(answers("Hello."), calls(("shine", {})), answers("Done."))
    await execute(AgentExecuteRequest(instruction="Hi."), client=client, modes=modes)
    request = AgentExecuteRequest(instruction="Go.", mode="special", response_continuation_id="resp_1")
    response = await execute(request, client=client, tools=registry, modes=modes)
    assert (response.text, response.warnings) == ("Done.", ())
    first_body, continuation = client.bodies[1:]
    assert [item["role"] for item in first_body["input"]] == ["developer", "user"]
    assert "Be special." in first_body["input"][0]["content"][0]["text"]
    assert [tool["name"] for tool in first_body["tools"]] == ["shine"]
    assert "tools" not in continuation
    assert {body["metadata"]["agent_mode"] for body in (first_body, continuation)} == {"special"}


async def test_a_mode_without_tools_takes_them_away() -> None:
    modes = Modes([Mode(key="general", when_to_use="Else."), Mode(key="qa", when_to_use="Q.", tools=())])
    registry = ToolRegistry([ServerTool("shine", "Shines.", {"type": "object"}, lambda: "!")])
    client = ScriptedClient(answers("Hello."), answers("Done."), answers("Again."))
    await execute(AgentExecuteRequest(instruction="Hi."), client=client, tools=registry, modes=modes)
    for before, sent in (("resp_1", True), ("resp_2", False)):
        request = AgentExecuteRequest(instruction="Go.", mode="QA", response_continuation_id=before)
        await execute(request, client=client, tools=registry, modes=modes)
        assert (client.bodies[-1].get("tools") == []) is sent
        assert (client.bodies[-1]["input"][0]["role"] == "developer") is sent


async def test_a_continuation_without_a_mode_uses_the_conversations_mode() -> None:
    special = Mode(key="special", when_to_use="Now.", instructions=("Be special.",), tools=("shine",))
    modes = Modes([Mode(key="general", when_to_use="Else."), special])
    shine = ServerTool("shine", "Shines.", {"type": "object"}, lambda: "!")
    registry = ToolRegistry([shine])
    client = ScriptedClient(calls(("shine", {}), ("open_tab", {})), answers("Done."))
    first = AgentExecuteRequest(
        instruction="Go.", mode="special", tools_json='[{"type":"function","name":"open_tab"}]'
    )
    await execute(first, client=client, tools=registry, modes=modes)
    back, recorder = results(("call_0_1", "1"), response_continuation_id="resp_1"), Recorder()
    response = await execute(back, client=client, tools=registry, modes=modes, tell=recorder.emit)
    assert (response.text, response.mode, response.warnings) == ("Done.", "special", ())
    assert outputs(client.bodies[1]) == [("call_0_0", "!"), ("call_0_1", "1")]
    assert "tools" not in client.bodies[1]
    for count in range(len(recorder.events)):  # and also after a crash
        again = await execute(back, client=client, tools=registry, modes=modes, past=recorder.events[:count])
        assert again.mode == "special"
