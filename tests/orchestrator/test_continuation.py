"""Requests that go on: client tools and their results, open calls, chains."""

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
from tests.orchestrator.scripted_client import ScriptedClient, calls, says
from tests.orchestrator.test_reasoner import Heard, outputs, tool

CLIENT_TOOLS = '[{"type":"function","name":"open_tab","parameters":{"type":"object"}}]'
ASK = AgentExecuteRequest(instruction="Do it.", tools_json=CLIENT_TOOLS)


class Server:
    """A registry with one tool that keeps how often it was run."""

    def __init__(self, *others: ServerTool) -> None:
        self.ran: list[JsonObject] = []
        self.registry = ToolRegistry([tool("save", self._save), *others])

    def _save(self, arguments: JsonObject) -> str:
        self.ran.append(arguments)
        return f"saved {len(self.ran)}"


def results(*given: tuple[str, str], **fields: Any) -> AgentExecuteRequest:
    told = [{"callId": call_id, "name": "open_tab", "resultJson": text} for call_id, text in given]
    return AgentExecuteRequest(tool_results_json=msgspec.json.encode(told).decode(), **fields)


async def begin(client: ScriptedClient, server: Server) -> AgentExecuteResponse:
    return await execute(ASK, client=client, tools=server.registry)


async def refusal(client: ScriptedClient, server: Server, request: AgentExecuteRequest) -> InvalidRequest:
    heard = Heard()
    with pytest.raises(InvalidRequest) as caught:
        await execute(request, client=client, tools=server.registry, tell=heard.tell)
    assert heard.events == []
    return caught.value


async def test_a_turn_with_a_client_call_is_handed_back_before_any_server_tool_is_run() -> None:
    client, server = (
        ScriptedClient(calls(("save", {"n": 1}), ("open_tab", {"n": 2})), says("Done.")),
        Server(),
    )
    response = await begin(client, server)
    assert server.ran == []
    assert response.kind == "tool-only"
    assert response.tool_calls == (
        AgentToolCall(call_id="call_0_1", name="open_tab", arguments_json='{"n":2}'),
    )


async def test_results_come_back_and_all_outputs_are_sent_together_in_call_order() -> None:
    client, server = (
        ScriptedClient(calls(("save", {}), ("open_tab", {}), ("save", {"n": 2})), says("Done.")),
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


async def test_executed_server_calls_stand_before_those_of_the_client() -> None:
    client, server = ScriptedClient(calls(("save", {})), calls(("open_tab", {}), text="Look.")), Server()
    response = await begin(client, server)
    assert response.kind == "ok"
    assert [(call.name, call.is_server_tool) for call in response.tool_calls] == [
        ("save", True),
        ("open_tab", False),
    ]


async def test_a_result_for_an_unknown_call_is_refused() -> None:
    client, server = ScriptedClient(calls(("open_tab", {})), says("Done.")), Server()
    await begin(client, server)
    error = await refusal(client, server, results(("call_9", "1"), response_continuation_id="resp_1"))
    assert (error.status, error.param, error.code) == (400, "toolResultsJson", "unknown_tool_call")
    assert "call_9" in error.message


async def test_a_result_under_the_name_of_another_tool_is_refused() -> None:
    client, server = ScriptedClient(calls(("open_tab", {})), says("Done.")), Server()
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


async def test_a_client_call_without_a_result_is_refused() -> None:
    client, server = ScriptedClient(calls(("open_tab", {}), ("open_tab", {"n": 2})), says("Done.")), Server()
    await begin(client, server)
    error = await refusal(client, server, results(("call_0_0", "1"), response_continuation_id="resp_1"))
    assert (error.param, error.code) == ("toolResultsJson", "missing_tool_result")
    assert "call_0_1" in error.message


async def test_a_client_cannot_answer_for_a_server_tool() -> None:
    client, server = ScriptedClient(calls(("save", {}), ("open_tab", {})), says("Done.")), Server()
    await begin(client, server)
    forged = results(("call_0_0", "1"), ("call_0_1", "1"), response_continuation_id="resp_1")
    error = await refusal(client, server, forged)
    assert (error.param, error.code) == ("toolResultsJson", "server_tool_call")
    assert server.ran == []


async def test_going_on_without_results_answers_open_calls_as_not_executed() -> None:
    client, server = ScriptedClient(calls(("save", {}), ("open_tab", {})), says("Done.")), Server()
    await begin(client, server)
    request = AgentExecuteRequest(instruction="Never mind.", response_continuation_id="resp_1")
    response = await execute(request, client=client, tools=server.registry)
    told = outputs(client.bodies[1])
    assert [call_id for call_id, _ in told] == ["call_0_0", "call_0_1"]
    assert all("not executed" in msgspec.json.decode(output)["error"] for _, output in told)
    assert client.bodies[1]["input"][-1]["content"][0]["text"].endswith("[INSTRUCTION]\nNever mind.")
    assert server.ran == []
    assert response.warnings == (
        "The conversation continues without the results of open calls (save, open_tab); they were not executed.",
    )


async def test_open_calls_and_nothing_to_say_is_refused() -> None:
    client, server = ScriptedClient(calls(("open_tab", {})), says("Done.")), Server()
    await begin(client, server)
    error = await refusal(client, server, AgentExecuteRequest(response_continuation_id="resp_1"))
    assert error.param == "instruction"


async def test_a_response_that_cannot_be_retrieved_is_an_error() -> None:
    heard = Heard()
    request = AgentExecuteRequest(instruction="Go on.", response_continuation_id="resp_gone")
    response = await execute(request, client=ScriptedClient(says("")), tell=heard.tell)
    assert (response.kind, response.error_code, response.error_message) == (
        "error",
        "not_found",
        "no resp_gone",
    )
    assert heard.kinds() == ["AgentFailed"]


async def test_a_client_tool_is_known_in_later_requests_without_being_declared_again() -> None:
    client, server = ScriptedClient(says("Hello."), calls(("open_tab", {})), says("Done.")), Server()
    first = await begin(client, server)
    request = AgentExecuteRequest(
        instruction="Go on.", response_continuation_id=first.response_continuation_id
    )
    response = await execute(request, client=client, tools=server.registry)
    assert [call.name for call in response.tool_calls] == ["open_tab"]
    assert response.warnings == ()


async def test_tools_that_the_conversation_does_not_know_are_sent_with_the_old_ones() -> None:
    client, server = ScriptedClient(says("Hello."), says("Done.")), Server()
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


async def test_a_call_that_nobody_declared_is_not_handed_to_the_client() -> None:
    client, server = ScriptedClient(calls(("other", {}), ("open_tab", {})), says("Done.")), Server()
    first = await begin(client, server)
    assert [call.name for call in first.tool_calls] == ["open_tab"]
    back = results(("call_0_1", "1"), response_continuation_id="resp_1")
    response = await execute(back, client=client, tools=server.registry)
    assert "There is no tool 'other'" in outputs(client.bodies[1])[0][1]
    assert response.text == "Done."


async def test_a_server_that_does_not_tell_its_tools_leaves_unknown_calls_to_the_client() -> None:
    client, server = ScriptedClient({**calls(("open_tab", {})), "tools": None}, says("Done.")), Server()
    await begin(client, server)
    back = results(("call_0_0", "1"), response_continuation_id="resp_1")
    assert (await execute(back, client=client, tools=server.registry)).text == "Done."


async def test_a_server_tool_that_the_new_mode_does_not_offer_is_not_handed_to_the_client() -> None:
    client, server = ScriptedClient(says("Hello."), calls(("save", {})), says("Done.")), Server()
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


async def test_a_call_that_passes_its_check_is_handed_to_the_client_who_gives_the_result() -> None:
    client, server = ScriptedClient(calls(("pick", {"path": "a"})), says("Done.")), final_client()
    heard = Heard()
    first = await execute(ASK, client=client, tools=server.registry, tell=heard.tell)
    assert [(call.name, call.is_server_tool) for call in first.tool_calls] == [("pick", False)]
    assert [event.outcome for event in heard.events if isinstance(event, ToolCompleted)] == ["handed"]
    picked = AgentToolCall(call_id="call_0_0", name="pick", result_json='"a.txt"')
    back = AgentExecuteRequest(tool_results=(picked,), response_continuation_id="resp_1")
    await execute(back, client=client, tools=server.registry)
    assert outputs(client.bodies[1]) == [("call_0_0", '"a.txt"')]


async def test_a_call_that_fails_its_check_is_answered_by_the_server() -> None:
    client, server = ScriptedClient(calls(("pick", {})), says("Done.")), final_client()
    response = await begin(client, server)
    assert outputs(client.bodies[1]) == [("call_0_0", '{"error":"ValueError: path is missing"}')]
    assert response.text == "Done."


async def test_a_call_that_failed_its_check_beside_a_client_call_needs_no_result() -> None:
    client, server = ScriptedClient(calls(("pick", {}), ("open_tab", {})), says("Done.")), final_client()
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
        ScriptedClient(calls(("pick", {"path": "a"}), ("open_tab", {})), says("Done.")),
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


async def test_another_mode_is_said_in_the_conversation_and_holds_in_all_turns_to_come() -> None:
    special = Mode(key="special", when_to_use="Now.", instructions=("Be special.",), tools=("shine",))
    modes = Modes([Mode(key="general", when_to_use="Else."), special])
    registry = ToolRegistry([ServerTool("shine", "Shines.", {"type": "object"}, lambda: "!")])
    client = ScriptedClient(says("Hello."), calls(("shine", {})), says("Done."))
    await execute(AgentExecuteRequest(instruction="Hi."), client=client, modes=modes)
    request = AgentExecuteRequest(instruction="Go.", mode="special", response_continuation_id="resp_1")
    response = await execute(request, client=client, tools=registry, modes=modes)
    assert (response.text, response.warnings) == ("Done.", ())
    opening, continuation = client.bodies[1:]
    assert [item["role"] for item in opening["input"]] == ["developer", "user"]
    assert "Be special." in opening["input"][0]["content"][0]["text"]
    assert [tool["name"] for tool in opening["tools"]] == ["shine"]
    assert "tools" not in continuation
    assert {body["metadata"]["agent_mode"] for body in (opening, continuation)} == {"special"}


async def test_a_mode_without_tools_takes_them_away() -> None:
    modes = Modes([Mode(key="general", when_to_use="Else."), Mode(key="qa", when_to_use="Q.", tools=())])
    registry = ToolRegistry([ServerTool("shine", "Shines.", {"type": "object"}, lambda: "!")])
    client = ScriptedClient(says("Hello."), says("Done."), says("Again."))
    await execute(AgentExecuteRequest(instruction="Hi."), client=client, tools=registry, modes=modes)
    for before, sent in (("resp_1", True), ("resp_2", False)):
        request = AgentExecuteRequest(instruction="Go.", mode="QA", response_continuation_id=before)
        await execute(request, client=client, tools=registry, modes=modes)
        assert (client.bodies[-1].get("tools") == []) is sent
        assert (client.bodies[-1]["input"][0]["role"] == "developer") is sent


async def test_a_continuation_that_names_no_mode_stays_in_that_of_the_conversation() -> None:
    special = Mode(key="special", when_to_use="Now.", instructions=("Be special.",), tools=("shine",))
    modes = Modes([Mode(key="general", when_to_use="Else."), special])
    shine = ServerTool("shine", "Shines.", {"type": "object"}, lambda: "!")
    registry = ToolRegistry([shine])
    client = ScriptedClient(calls(("shine", {}), ("open_tab", {})), says("Done."))
    first = AgentExecuteRequest(
        instruction="Go.", mode="special", tools_json='[{"type":"function","name":"open_tab"}]'
    )
    await execute(first, client=client, tools=registry, modes=modes)
    back, heard = results(("call_0_1", "1"), response_continuation_id="resp_1"), Heard()
    response = await execute(back, client=client, tools=registry, modes=modes, tell=heard.tell)
    assert (response.text, response.mode, response.warnings) == ("Done.", "special", ())
    assert outputs(client.bodies[1]) == [("call_0_0", "!"), ("call_0_1", "1")]
    assert "tools" not in client.bodies[1]
    for count in range(len(heard.events)):  # and so it does after a crash
        again = await execute(back, client=client, tools=registry, modes=modes, past=heard.events[:count])
        assert again.mode == "special"
