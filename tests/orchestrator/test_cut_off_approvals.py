"""A run that is cut off after an approval was taken: what the model is shown of the calls, in process."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from antiphon import Antiphon, Route, ScriptedBackend, Settings
from antiphon.caller import Caller
from antiphon.orchestrator.background_turns import InProcessBackgroundResponses
from antiphon.orchestrator.client import InProcessResponsesClient, ResponsesService
from antiphon.orchestrator.events import (
    AgentEvent,
    AgentWaiting,
    ApprovalAnswered,
    HostedCompleted,
    TurnCompleted,
)
from antiphon.orchestrator.models import AgentExecuteRequest, AgentExecuteResponse, ApprovalAnswer
from antiphon.orchestrator.reasoner import execute
from antiphon.protocol.content import JsonObject
from antiphon.service.tenant_service import TenantService
from antiphon.settings import McpServerSettings, McpSettings, SealSettings, StoreSettings
from antiphon.wiring import open_services
from tests.mcp import conftest as mcp_conftest
from tests.service.responses.mcp_world import ANSWER, call, calls, outputs

sdk_url = mcp_conftest.sdk_url
ASK = AgentExecuteRequest(instruction="Add.", tools_json='[{"type": "mcp", "server_label": "sdk"}]')
REFUSED = "The user refused this call, so it was not run. The reason: too large"


class CutOffError(Exception):
    """The process ends here."""


class CutOffClient(InProcessResponsesClient):
    """Its process ends in the turn that brings the answers, after the server has taken them."""

    def __init__(self, service: ResponsesService) -> None:
        super().__init__(service)
        self.cut_off = False

    async def stream(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        answers = any(item.get("type") == "mcp_approval_response" for item in body["input"])
        async with aclosing(super().stream(body)) as events:
            async for event in events:
                yield event
                if answers and not self.cut_off:
                    self.cut_off = True
                    raise CutOffError


async def test_the_outcome_of_an_approved_call_is_unknown_and_a_refusal_stays_one(sdk_url: str) -> None:
    servers = McpSettings({"sdk": McpServerSettings(url=f"{sdk_url}/modern/mcp")})
    settings = Settings(seal=SealSettings(key="test"), store=StoreSettings(url="memory:"), mcp=servers)
    both = calls(call("add", a=1, b=2), call("add", 1, a=10**9, b=1))
    backend = ScriptedBackend([both], [ANSWER], [ANSWER])
    log: list[AgentEvent] = []

    async def emit(event: AgentEvent) -> None:
        log.append(event)

    async with Antiphon(settings, routes=[Route("m", backend)]) as service:
        client = CutOffClient(service)

        async def perform() -> AgentExecuteResponse:
            return await execute(ASK, client=client, tell=emit, past=tuple(log), durable=True)

        first, second = (await perform()).approvals
        answers = (
            ApprovalAnswer(id=first.id, approve=True),
            ApprovalAnswer(id=second.id, approve=False, reason="too large"),
        )
        waiting = log[-1]
        assert isinstance(waiting, AgentWaiting)
        log += [
            ApprovalAnswered(sequence_number=len(log) + index, turn=waiting.turn, answer=answer)
            for index, answer in enumerate(answers)
        ]
        with pytest.raises(CutOffError):
            await perform()
        assert (await perform()).text == "It is 5."
    unknown, refused = outputs(backend)
    assert "its outcome is unknown" in unknown
    assert "refused" not in unknown
    assert "not run" not in unknown
    assert refused == REFUSED


async def test_a_resumed_run_follows_the_response_that_runs_the_approved_call(sdk_url: str) -> None:
    """The answers are submitted once: the call runs, though the run was cut off meanwhile."""
    servers = McpSettings({"sdk": McpServerSettings(url=f"{sdk_url}/modern/mcp")})
    settings = Settings(seal=SealSettings(key="test"), store=StoreSettings(url="memory:"), mcp=servers)
    add = calls(call("add", a=2, b=3))
    backend = ScriptedBackend(
        [add], [add], [ANSWER], [ANSWER]
    )  # each response is checked when it is submitted
    log: list[AgentEvent] = []
    cut_off = True

    async def emit(event: AgentEvent) -> None:
        if cut_off and isinstance(event, TurnCompleted) and event.turn == 2:
            raise CutOffError
        log.append(event)

    async with open_services(settings, [Route("m", backend)]) as services:
        service = TenantService(services, Caller.of("t"))

        async def perform() -> AgentExecuteResponse:
            return await execute(
                ASK,
                client=InProcessResponsesClient(service),
                tell=emit,
                past=tuple(log),
                durable=True,
                background=InProcessBackgroundResponses(service),
            )

        [asked] = (await perform()).approvals
        answer = ApprovalAnswer(id=asked.id, approve=True)
        log.append(ApprovalAnswered(sequence_number=len(log), turn=1, answer=answer))
        with pytest.raises(CutOffError):
            await perform()
        assert isinstance(log[-1], HostedCompleted)
        cut_off = False
        assert (await perform()).text == "It is 5."
    assert outputs(backend) == ["5"]
    assert len([event for event in log if isinstance(event, HostedCompleted)]) == 1
