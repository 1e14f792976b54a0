"""The agent routes: JSON answers and streams."""

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from antiphon.backends.scripted import ScriptedBackend
from antiphon.caller import DELETE, READ, SCOPES, WRITE, Caller
from antiphon.errors import BackendBroken
from antiphon.orchestrator.agent import AgentServices
from antiphon.orchestrator.models import AgentExecuteRequest
from antiphon.server.app import App
from antiphon.server.routes.table import ROUTES
from antiphon.server.types import Message
from antiphon.settings import ModeSettings
from tests.server.agent_server import (
    ADDING,
    Hanging,
    adding,
    calling,
    events_of,
    hello_backend,
    obeying,
    open_agent_server,
    text_turn,
    types_of,
)
from tests.server.conftest import never_opened, options

CLIENT_TOOL: list[dict[str, Any]] = [
    {"type": "function", "name": "ask_user", "parameters": {"type": "object", "properties": {}}}
]
MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"mode": 5}, "mode"),
    ({"instruction": ["x"]}, "instruction"),
    ({"instruction": "  "}, "instruction"),
    ({"responseContinuationId": 1}, "responseContinuationId"),
    ({"toolsJson": "{"}, "toolsJson"),
    ({"toolsJson": "{}"}, "toolsJson"),
    ({"toolsJson": 7}, "toolsJson"),
    ({"toolsJson": [5]}, "toolsJson[0]"),
    ({"toolChoiceName": {}}, "toolChoiceName"),
    ({"toolChoiceName": "nonsense"}, "toolChoiceName"),
    ({"toolChoiceName": "write_file", "mode": "qa"}, "toolChoiceName"),
    ({"toolResultsJson": "nonsense"}, "toolResultsJson"),
    ({"toolResultsJson": [3]}, "toolResultsJson[0]"),
    ({"toolResults": 5}, "toolResults"),
    ({"toolResults": [{"callId": "c", "name": 5}]}, "toolResults[0].name"),
    ({"systemPrompt": 1.5}, "systemPrompt"),
    ({"conversationId": True}, "conversationId"),
    ({"agentContext": "x"}, "agentContext"),
    ({"agentContext": {"id": 1}}, "agentContext.id"),
    ({"conversationContext": {"text": 1}}, "conversationContext.text"),
    ({"previousTurnId": 1}, "previousTurnId"),
    ({"currentTurnId": []}, "currentTurnId"),
    ({"workspaceId": 1}, "workspaceId"),
    ({"repo": 1}, "repo"),
    ({"language": 1}, "language"),
    ({"ragScopeFilter": "x"}, "ragScopeFilter"),
    ({"ragScopeFilter": {"must": [{"key": "path", "match": 5}]}}, "ragScopeFilter.must[0].match"),
    ({"activeFiles": "x"}, "activeFiles"),
    ({"activeFiles": [{"contents": "a"}, {"contents": 5}]}, "activeFiles[1].contents"),
    (
        {"imageAttachments": [{"mimeType": "text/plain", "dataBase64": "QQ=="}]},
        "imageAttachments[0].mimeType",
    ),
    ({"imageAttachments": [{"mimeType": "image/png", "dataBase64": "?"}]}, "imageAttachments[0].dataBase64"),
    ({"streaming": "yes"}, "streaming"),
    ({"approvals": [{"id": "call_1", "approve": "yes"}]}, "approvals[0].approve"),
]


def pascal(value: Any) -> Any:
    """The same JSON in the spelling of a C# client."""
    if isinstance(value, dict):
        return {name[0].upper() + name[1:]: pascal(member) for name, member in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportUnknownArgumentType] -- any JSON
    if isinstance(value, list):
        return [pascal(element) for element in value]  # pyright: ignore[reportUnknownVariableType] -- any JSON
    return value


async def test_an_answer_is_the_envelope_in_camel_case() -> None:
    async with open_agent_server(hello_backend()) as server:
        answer = await server.execute(instruction="Hi")
        assert answer.status_code == 200, answer.text
        envelope = answer.json()
        assert (envelope["kind"], envelope["text"], envelope["modelId"]) == ("ok", "Hello", "m")
        assert envelope["responseContinuationId"].startswith("resp_")
        assert envelope["errorMessage"] is None


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ("kind", "toolCalls")),
        ("?case=pascal", ("Kind", "ToolCalls")),
        ("?case=snake", ("kind", "tool_calls")),
    ],
)
async def test_the_case_of_the_answer_can_be_chosen(query: str, names: tuple[str, str]) -> None:
    async with open_agent_server(adding()) as server:
        envelope = (await server.execute(query, Instruction="Add", Mode="GENERAL")).json()
        assert envelope[names[0]] == "ok"
        [call] = envelope[names[1]]
        assert {key[0].isupper() for key in call} == {names[0] == "Kind"}


async def test_an_invalid_case_is_rejected() -> None:
    async with open_agent_server(hello_backend()) as server:
        answer = await server.execute("?case=kebab", instruction="Hi")
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "case"


@pytest.mark.parametrize(("field", "param"), MALFORMED, ids=lambda value: str(value)[:60])
@pytest.mark.parametrize("path", ["/v1/agent/execute", "/v1/agent/runs"])
async def test_a_malformed_field_is_reported_in_the_clients_spelling(
    path: str, field: dict[str, Any], param: str
) -> None:
    backend = hello_backend()
    async with open_agent_server(backend) as server:
        for body, name in (
            ({"instruction": "Hi", **field}, param),
            (
                pascal({"instruction": "Hi", **field}),
                re.sub(r"\b[a-z]", lambda found: found[0].upper(), param),
            ),
        ):
            answer = await server.client.post(path, json=body)
            assert answer.status_code == 400, answer.text
            assert answer.json()["error"]["param"] == name
            assert name in answer.json()["error"]["message"]
        assert backend.turns == []
        assert (await server.client.get("/v1/agent/runs")).json()["data"] == []


def test_every_field_of_a_request_is_malformed_once() -> None:
    tried = {re.split(r"[.\[]", param)[0].lower() for _, param in MALFORMED}
    fields = {field.name.replace("_", "") for field in msgspec.structs.fields(AgentExecuteRequest)}
    assert tried == fields


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff"])
async def test_an_invalid_body_is_rejected(body: bytes) -> None:
    async with open_agent_server(hello_backend()) as server:
        headers = {"content-type": "application/json"}
        for path in ("/v1/agent/execute", "/v1/agent/runs"):
            answer = await server.client.post(path, content=body, headers=headers)
            assert answer.status_code == 400, answer.text


async def test_results_for_unknown_calls_are_rejected() -> None:
    async with open_agent_server(hello_backend()) as server:
        first = (await server.execute(instruction="Hi")).json()
        answer = await server.execute(
            responseContinuationId=first["responseContinuationId"],
            toolResultsJson=[{"callId": "call_9", "name": "x", "resultJson": "1"}],
        )
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "unknown_tool_call"


async def test_a_model_that_fails_is_an_envelope_of_kind_error() -> None:
    async with open_agent_server(ScriptedBackend([BackendBroken("the model is gone")])) as server:
        answer = await server.execute(instruction="Hi")
        assert answer.status_code == 200
        assert (answer.json()["kind"], answer.json()["errorMessage"]) == ("error", "the model is gone")


async def test_a_stream_sends_the_steps_in_order_and_the_end_last() -> None:
    async with open_agent_server(adding()) as server:
        answer = await server.execute(instruction="Add", streaming=True)
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = events_of(answer.text)
        assert types_of(events) == [
            "agent.started",
            "agent.turn.started",
            "agent.turn.completed",
            "agent.tool.started",
            "agent.tool.completed",
            "agent.turn.started",
            "agent.text.delta",
            "agent.text.delta",
            "agent.turn.completed",
            "agent.completed",
        ]
        assert [event["sequenceNumber"] for event in events] == list(range(10))
        assert events[4]["output"] == "3"
        assert events[-1]["response"]["text"] == "It is 3."


async def test_a_stream_can_be_in_pascal_case() -> None:
    async with open_agent_server(hello_backend()) as server:
        answer = await server.execute("?case=pascal", instruction="Hi", streaming=True)
        end = events_of(answer.text)[-1]
        assert (end["Type"], end["Response"]["Text"]) == ("agent.completed", "Hello")


async def test_a_rejection_is_sent_before_the_stream() -> None:
    async with open_agent_server(hello_backend()) as server:
        answer = await server.execute(
            responseContinuationId=(await server.execute(instruction="Hi")).json()["responseContinuationId"],
            toolResultsJson=[{"callId": "call_9", "name": "x", "resultJson": "1"}],
            streaming=True,
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_tool_call")


async def test_silence_carries_comments() -> None:
    model = Hanging()
    async with open_agent_server(model.backend, heartbeat=0.01) as server:
        sent = {"instruction": "Hi", "streaming": True}
        async with (
            asyncio.timeout(30),
            server.client.stream("POST", "/v1/agent/execute", json=sent) as answer,
        ):
            received = ""
            async for piece in answer.aiter_text():
                received += piece
                if received.count(": still here") == 2:
                    model.go_on.set()
        assert types_of(events_of(received))[-1] == "agent.completed"


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_client_disconnect_cancels_the_run(streaming: bool) -> None:
    model = Hanging()
    async with open_agent_server(model.backend) as server:
        body = json.dumps({"instruction": "Hi", "streaming": streaming}).encode()
        bodies = iter([body])
        sent: list[Message] = []

        async def receive() -> Message:
            for body in bodies:
                return {"type": "http.request", "body": body}
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost")]
        scope = {"type": "http", "method": "POST", "path": "/v1/agent/execute", "headers": headers}
        await asyncio.wait_for(server.app(scope, receive, send), 10)
        assert model.stopped.is_set()
        assert not any(message.get("status") == 500 for message in sent)


class BrokenClient:
    """A client with a bug."""

    async def default_model(self) -> str:
        return "m"

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("secret detail")


def broken_client(_caller: Caller) -> Any:
    return BrokenClient()


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_bug_ends_the_answer(streaming: bool) -> None:
    async with open_agent_server(hello_backend()) as server:
        broken = replace(server.agents.agent, connect=broken_client)
        server.app.mount(server.served.services, AgentServices(agent=broken, runs=server.agents.runs))
        answer = await server.execute(instruction="Hi", streaming=streaming)
        if streaming:
            events = events_of(answer.text)
            end = events[-1]
            assert (end["type"], end["code"]) == ("agent.failed", "internal_error")
            assert end["response"]["errorCode"] == "server_error"
            assert [event["sequenceNumber"] for event in events] == list(range(len(events)))
        else:
            assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
        assert "secret detail" not in answer.text


async def test_a_server_shutdown_is_reported_in_the_stream() -> None:
    model = Hanging()
    async with open_agent_server(model.backend) as server:
        sent = {"instruction": "Hi", "streaming": True}
        async with server.client.stream("POST", "/v1/agent/execute", json=sent) as answer:
            pieces = answer.aiter_text()
            received = await anext(pieces)
            await model.requested.wait()
            server.app.lifetimes.drain(0)
            async for piece in pieces:
                received += piece
        end = events_of(received)[-1]
        assert (end["type"], end["code"]) == ("agent.failed", "server_unavailable")
        assert end["response"]["errorCode"] == "server_error"
        assert model.stopped.is_set()


async def test_client_calls_are_returned_and_their_results_accepted() -> None:
    backend = ScriptedBackend(calling("ask_user", "{}"), text_turn("Thanks."))
    async with open_agent_server(backend) as server:
        first = (await server.execute(instruction="Ask", toolsJson=CLIENT_TOOL)).json()
        assert first["kind"] == "tool-only"
        [call] = first["toolCalls"]
        answer = await server.execute(
            responseContinuationId=first["responseContinuationId"],
            toolResultsJson=[{"callId": call["callId"], "name": call["name"], "resultJson": '"yes"'}],
        )
        assert answer.json()["text"] == "Thanks."


async def test_an_available_tool_can_be_forced() -> None:
    async with open_agent_server(obeying()) as server:
        choices: list[tuple[dict[str, Any], str]] = [
            ({"toolChoiceName": "add"}, "ok"),
            ({"toolChoiceName": "ask_user", "toolsJson": CLIENT_TOOL}, "tool-only"),
            ({"toolChoiceName": "  "}, "ok"),
        ]
        for chosen, kind in choices:
            answer = await server.execute(instruction="Hi", **chosen)
            assert answer.json()["kind"] == kind, answer.text


async def test_the_tools_of_a_continued_conversation_are_checked_later() -> None:
    async with open_agent_server(obeying()) as server:
        first = (await server.execute(instruction="Hi", toolsJson=CLIENT_TOOL)).json()
        again = {"instruction": "Go on", "responseContinuationId": first["responseContinuationId"]}
        answer = await server.execute(toolChoiceName="ask_user", **again)
        assert answer.json()["kind"] == "tool-only", answer.text


async def test_a_tool_of_another_tenant_cannot_be_forced() -> None:
    async with open_agent_server(hello_backend()) as server:
        body = {"instruction": "Hi", "mode": "ddr_creation", "toolChoiceName": "ddr_list"}
        for tenant, status in (("default", 200), ("other", 400)):
            headers = await server.new_key(tenant)
            answer = await server.client.post("/v1/agent/execute", json=body, headers=headers)
            assert answer.status_code == status, answer.text


async def test_modes_are_listed_with_their_tools() -> None:
    settings = msgspec.structs.replace(
        ADDING, modes={"sums": ModeSettings(when_to_use="To add.", display_name="Sums", tools=("add",))}
    )
    async with open_agent_server(hello_backend(), settings) as server:
        listed = (await server.client.get("/v1/agent/modes")).json()
        modes = {mode["key"]: mode for mode in listed["data"]}
        assert modes["sums"] == {
            "key": "sums",
            "object": "agent.mode",
            "name": "Sums",
            "when_to_use": "To add.",
            "tools": ["add", "agent_change_mode"],
            "hosted_tools": [],
            "default": False,
        }
        assert modes["general"]["default"]
        assert set(modes["general"]["tools"]) == {"add", "agent_change_mode"}
        assert {"add", "write_file"} <= set(modes["code_edit"]["tools"])
        assert "add" not in modes["ddr_creation"]["tools"]


SCOPED = [
    ("POST", "/v1/agent/execute", WRITE),
    ("POST", "/v1/agent/runs", WRITE),
    ("POST", "/v1/agent/runs/{id}/cancel", WRITE),
    ("GET", "/v1/agent/runs", READ),
    ("GET", "/v1/agent/modes", READ),
    ("GET", "/v1/agent/runs/{id}", READ),
    ("DELETE", "/v1/agent/runs/{id}", DELETE),
]


@pytest.mark.parametrize(("method", "path", "needed"), SCOPED)
async def test_a_key_needs_the_scope_of_the_route_and_no_other(method: str, path: str, needed: str) -> None:
    async with open_agent_server(hello_backend()) as server:
        sent = {"instruction": "Hi"}
        owner = await server.new_key("owner")
        run_id = (await server.client.post("/v1/agent/runs", json=sent, headers=owner)).json()["id"]
        filled = path.replace("{id}", run_id)
        body = sent if method == "POST" and "cancel" not in path else None
        others = await server.new_key("owner", *(scope for scope in SCOPES if scope != needed))
        refused = await server.client.request(method, filled, json=body, headers=others)
        assert refused.status_code == 403
        assert needed in refused.text
        allowed = await server.client.request(
            method, filled, json=body, headers=await server.new_key("owner", needed)
        )
        assert allowed.status_code == 200, allowed.text


async def test_agent_responses_belong_to_the_requesting_tenant() -> None:
    async with open_agent_server(hello_backend()) as server:
        owner, other = await server.new_key("owner"), await server.new_key("stranger")
        answer = await server.client.post("/v1/agent/execute", json={"instruction": "Hi"}, headers=owner)
        path = f"/v1/responses/{answer.json()['responseContinuationId']}"
        assert (await server.client.get(path, headers=owner)).status_code == 200
        assert (await server.client.get(path, headers=other)).status_code == 404


async def test_an_application_without_an_agent_has_no_routes_for_it() -> None:
    async with open_agent_server(hello_backend()) as server:
        app = App(never_opened, lambda: "req_1", options())
        app.mount(server.served.services)
        assert not any("/agent/" in name for name in app.routes.names)
        unserved = "POST /v1/conformance"  # this application has no checker
        assert server.app.routes.names == tuple(route.name for route in ROUTES if route.name != unserved)
