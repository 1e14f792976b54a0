"""The tool `run_agent`."""

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.caller import WRITE
from antiphon.errors import BackendError
from antiphon.orchestrator.agent import ServedAgent
from antiphon.orchestrator.events import AgentEvent, ToolCompleted, ToolStarted, TurnStarted
from antiphon.orchestrator.models import AgentExecuteResponse
from antiphon.orchestrator.request_parser import parse_execute_request
from antiphon.protocol.parse import decode
from antiphon.protocol.requests import Id
from antiphon.server.mcp.tool import McpTool, ToolCall, ToolResult, bounded_text, object_schema, text_schema

_OUTPUTS = {
    "response_continuation_id": {"type": ["string", "null"]},
    "mode": {"type": ["string", "null"]},
    "model_id": {"type": ["string", "null"]},
    "file_bundle": {"type": ["object", "null"], "description": "Proposed changes of files."},
    "sources": {"type": "array", "items": {"type": "object"}},
    "warnings": {"type": "array", "items": {"type": "string"}},
    "usage": {"type": "object"},
}
"""Members of the agent's response that are in the structured result as they are."""


class _Run(Struct, forbid_unknown_fields=True, omit_defaults=True):
    instruction: str
    mode: str | UnsetType | None = UNSET
    response_continuation_id: Id | UnsetType | None = UNSET


@dataclass(frozen=True, slots=True)
class AgentTool:
    """Executes a request to the agent."""

    served: ServedAgent

    def tool(self) -> McpTool:
        modes = self.served.agent.modes.all()
        described = " ".join(f"{mode.key}: {mode.when_to_use}" for mode in modes)
        return McpTool(
            name="run_agent",
            title="Run the agent",
            description=(
                "Give the agent of this server a task. It may use the tools that its operator has "
                "configured. It answers with a text, and possibly with changes of files, which it does not "
                "apply."
            ),
            inputs=object_schema(
                {
                    "instruction": text_schema("The task.", minLength=1),
                    "mode": text_schema(f"How the agent works. {described}", enum=[m.key for m in modes]),
                    "response_continuation_id": text_schema("From an earlier result, to continue from it."),
                },
                ("instruction",),
            ),
            outputs=object_schema(
                {
                    "text": text_schema("The answer."),
                    "truncated": {"type": "boolean", "description": "Whether the text was cut."},
                    **_OUTPUTS,
                },
                ("text", "truncated", *_OUTPUTS),
            ),
            run=self.run,
            scope=WRITE,
            destructive=True,
            open_world=True,
        )

    async def run(self, call: ToolCall) -> ToolResult:
        """Execute, as `POST /v1/agent/execute` does."""
        wanted = decode(call.arguments, _Run, "The arguments")
        tenant = call.caller.tenant
        request = parse_execute_request(
            msgspec.json.encode(wanted), lambda asked: self.served.agent.check(asked, tenant)
        )

        async def tell(event: AgentEvent) -> None:
            if line := _line(event):
                await call.report(line)

        response = await self.served.perform(call.caller, request, tell=tell)
        if response.kind == "error":
            raise BackendError(response.error_message or "The agent failed.", code=response.error_code)
        return _result(response)


def _line(event: AgentEvent) -> str:
    match event:
        case TurnStarted():
            return f"Turn {event.turn} has begun."
        case ToolStarted():
            return f"The tool {event.name[:100]} was called."
        case ToolCompleted():
            return f"The tool {event.name[:100]} has ended: {event.outcome}."
        case _:
            return ""


def _result(response: AgentExecuteResponse) -> ToolResult:
    text, truncated = bounded_text(response.text or "")
    members: dict[str, Any] = msgspec.to_builtins(response)
    structured = {name: members[name] for name in _OUTPUTS}
    texts = [text]
    if response.file_bundle is not None:
        texts += [f"{file.action} {file.path}\n{file.contents or ''}" for file in response.file_bundle.files]
    if response.response_continuation_id is not None:
        texts.append(f"response_continuation_id: {response.response_continuation_id}")
    return ToolResult(tuple(texts), {**structured, "text": text, "truncated": truncated})
