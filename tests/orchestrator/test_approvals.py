"""Calls that a person must approve: requests that end with them, runs that wait for them, and the answers."""

from typing import Any

import pytest

from antiphon.errors import InvalidRequest, ResponsesCallFailed
from antiphon.orchestrator.events import (
    AgentEvent,
    AgentFailed,
    AgentWaiting,
    ApprovalAnswered,
    ToolCompleted,
    TurnStarted,
)
from antiphon.orchestrator.models import AgentExecuteRequest, AgentExecuteResponse, ApprovalAnswer
from antiphon.orchestrator.reasoner import execute
from antiphon.orchestrator.tool import ServerTool
from antiphon.protocol.content import JsonObject
from antiphon.tools.registry import ToolRegistry
from tests.orchestrator.scripted_client import ScriptedClient, answers, calls

ASK = AgentExecuteRequest(instruction="Pay.")
MCP_REQUEST: JsonObject = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "shop",
    "name": "buy",
    "arguments": '{"item": "tea"}',
}


def look(arguments: JsonObject) -> str:
    return "seen"


class Bank:
    """A tool with effects that needs an approval, and one that needs none."""

    def __init__(self) -> None:
        self.paid: list[Any] = []
        self.registry = ToolRegistry(
            [
                ServerTool("pay", "Pay.", {"type": "object"}, self.pay, needs_approval=True),
                ServerTool("look", "Look.", {"type": "object"}, look),
            ]
        )

    def pay(self, arguments: JsonObject) -> str:
        self.paid.append(arguments)
        return "paid"


def yes(approval_id: str) -> ApprovalAnswer:
    return ApprovalAnswer(id=approval_id, approve=True)


def no(approval_id: str, reason: str | None = None) -> ApprovalAnswer:
    return ApprovalAnswer(id=approval_id, approve=False, reason=reason)


async def asked(client: ScriptedClient, bank: Bank) -> AgentExecuteResponse:
    return await execute(ASK, client=client, tools=bank.registry)


def continued(response: AgentExecuteResponse, *given: ApprovalAnswer) -> AgentExecuteRequest:
    return AgentExecuteRequest(response_continuation_id=response.response_continuation_id, approvals=given)


async def test_a_call_that_needs_an_approval_ends_the_request_and_runs_nothing_of_its_turn() -> None:
    bank = Bank()
    response = await asked(ScriptedClient(calls(("look", {}), ("pay", {"sum": 5}))), bank)
    assert response.finish_reason == "approval_required"
    [request] = response.approvals
    assert (request.kind, request.name, request.arguments) == ("agent", "pay", '{"sum":5}')
    assert [(call.name, call.was_executed) for call in response.tool_calls] == [
        ("look", False),
        ("pay", False),
    ]
    assert bank.paid == []


async def test_an_approved_call_runs_with_the_next_request() -> None:
    bank, client = Bank(), ScriptedClient(calls(("pay", {"sum": 5})), answers("Done."))
    response = await asked(client, bank)
    request = continued(response, yes(response.approvals[0].id))
    done = await execute(request, client=client, tools=bank.registry)
    assert (done.text, bank.paid, done.approvals) == ("Done.", [{"sum": 5}], ())
    assert [item["type"] for item in client.bodies[-1]["input"]] == ["function_call_output"]


async def test_a_rejected_call_is_not_run_and_the_model_is_told_why() -> None:
    bank, client = Bank(), ScriptedClient(calls(("pay", {"sum": 5})), answers("Fine."))
    response = await asked(client, bank)
    request = continued(response, no(response.approvals[0].id, "too much"))
    done = await execute(request, client=client, tools=bank.registry)
    assert bank.paid == []
    assert "rejected by a person" in client.bodies[-1]["input"][0]["output"]
    assert "too much" in client.bodies[-1]["input"][0]["output"]
    [call] = done.tool_calls
    assert not call.was_executed
    assert "too much" in (call.error_message or "")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (("unknown",), "unknown_approval_request"),
        (("call_0", "call_0"), "duplicate_approval"),
        (("call_0",), "missing_approval"),
    ],
)
async def test_answers_that_do_not_fit_are_refused(given: tuple[str, ...], code: str) -> None:
    bank = Bank()
    client = ScriptedClient(calls(("pay", {"sum": 5}), ("pay", {"sum": 6})), answers("Done."))
    response = await asked(client, bank)
    ids = {"call_0": response.approvals[0].id}
    request = continued(response, *(yes(ids.get(name, name)) for name in given))
    with pytest.raises(InvalidRequest) as caught:
        await execute(request, client=client, tools=bank.registry)
    assert (caught.value.code, caught.value.param) == (code, "approvals")
    assert bank.paid == []


async def test_an_instruction_without_answers_continues_without_the_call() -> None:
    bank, client = Bank(), ScriptedClient(calls(("pay", {"sum": 5})), answers("Fine."))
    response = await asked(client, bank)
    request = AgentExecuteRequest(
        response_continuation_id=response.response_continuation_id, instruction="Never mind."
    )
    await execute(request, client=client, tools=bank.registry)
    assert bank.paid == []
    assert "not executed" in client.bodies[-1]["input"][0]["output"]


class Log:
    """The events of a run, as its store has them."""

    def __init__(self) -> None:
        self.events: list[AgentEvent] = []

    async def emit(self, event: AgentEvent) -> None:
        self.events.append(event)

    def answer(self, answer: ApprovalAnswer) -> None:
        waiting = next(event for event in reversed(self.events) if isinstance(event, AgentWaiting))
        number = len(self.events)
        self.events.append(ApprovalAnswered(sequence_number=number, turn=waiting.turn, answer=answer))

    async def perform(self, client: ScriptedClient, bank: Bank) -> AgentExecuteResponse:
        return await execute(
            ASK,
            client=client,
            tools=bank.registry,
            tell=self.emit,
            past=tuple(self.events),
            durable=True,
        )


async def test_a_run_waits_and_continues_from_its_log_without_repeating_the_turn() -> None:
    bank, client, log = Bank(), ScriptedClient(calls(("pay", {"sum": 5})), answers("Done.")), Log()
    waits = await log.perform(client, bank)
    assert isinstance(log.events[-1], AgentWaiting)
    log.answer(yes(waits.approvals[0].id))
    done = await log.perform(client, bank)
    assert (done.text, bank.paid, len(client.bodies)) == ("Done.", [{"sum": 5}], 2)
    outcomes = [event.outcome for event in log.events if isinstance(event, ToolCompleted)]
    assert outcomes == ["ok"]
    assert [event.sequence_number for event in log.events] == list(range(len(log.events)))


async def test_a_run_waits_until_all_requests_are_answered() -> None:
    bank, log = Bank(), Log()
    client = ScriptedClient(calls(("pay", {"sum": 5}), ("pay", {"sum": 6})), answers("Done."))
    first, second = (await log.perform(client, bank)).approvals
    log.answer(no(first.id))
    waits = await log.perform(client, bank)
    assert [request.id for request in waits.approvals] == [second.id]
    assert bank.paid == []
    log.answer(yes(second.id))
    assert (await log.perform(client, bank)).text == "Done."
    assert bank.paid == [{"sum": 6}]


async def test_an_approval_that_an_mcp_tool_asks_for_is_answered_in_the_same_way() -> None:
    client, log = ScriptedClient({"output": [MCP_REQUEST]}, answers("Bought.")), Log()
    waits = await log.perform(client, Bank())
    [request] = waits.approvals
    assert (request.kind, request.server_label, request.arguments) == ("mcp", "shop", '{"item": "tea"}')
    log.answer(no("mcpr_1", "no tea"))
    assert (await log.perform(client, Bank())).text == "Bought."
    assert client.bodies[-1]["input"] == [
        {
            "type": "mcp_approval_response",
            "approval_request_id": "mcpr_1",
            "approve": False,
            "reason": "no tea",
        }
    ]
    assert client.bodies[-1]["previous_response_id"] == "resp_1"


async def test_a_request_answers_an_mcp_tool() -> None:
    client, bank = ScriptedClient({"output": [MCP_REQUEST]}, answers("Bought.")), Bank()
    response = await asked(client, bank)
    assert (response.kind, response.finish_reason) == ("tool-only", "approval_required")
    request = continued(response, yes("mcpr_1"))
    assert (await execute(request, client=client, tools=bank.registry)).text == "Bought."
    [item] = client.bodies[-1]["input"]
    assert (item["type"], item["approve"]) == ("mcp_approval_response", True)


class AnsweredClient(ScriptedClient):
    """Its server has taken the approval already."""

    async def create(self, body: JsonObject) -> bytes:
        if any(item.get("approve") for item in body["input"]):
            raise ResponsesCallFailed("already answered", status=400, code="approval_already_answered")
        return await super().create(body)


async def test_a_run_that_was_cut_off_after_an_approval_does_not_repeat_the_call() -> None:
    client, log = AnsweredClient({"output": [MCP_REQUEST]}, answers("I will check.")), Log()
    await log.perform(client, Bank())
    log.answer(yes("mcpr_1"))
    assert "already answered" in ((await log.perform(client, Bank())).error_message or "")
    log.events = [event for event in log.events if not isinstance(event, AgentFailed)]
    assert isinstance(log.events[-1], TurnStarted), "the run was cut off within the turn"
    assert (await log.perform(client, Bank())).text == "I will check."
    [item] = client.bodies[-1]["input"]
    assert (item["approve"], "its outcome is unknown" in item["reason"]) == (False, True)
