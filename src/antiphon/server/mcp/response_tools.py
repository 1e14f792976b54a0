"""The tools `ask_model`, `get_response` and `list_models`."""

from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from antiphon.caller import READ, WRITE
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import OutputTextDelta
from antiphon.protocol.ids import RESPONSE_ID
from antiphon.protocol.parse import decode
from antiphon.protocol.parse_create import parse_create
from antiphon.protocol.requests import Id
from antiphon.protocol.response import Response
from antiphon.server.mcp.tool import (
    McpTool,
    ToolCall,
    ToolResult,
    bounded_text,
    object_schema,
    text_schema,
)
from antiphon.service.responses.create import Creator
from antiphon.service.routing.router import Router
from antiphon.service.stored import StoredResponses

ARGUMENTS = "The arguments"


class _Ask(Struct, forbid_unknown_fields=True, omit_defaults=True):
    model: Annotated[str, Meta(min_length=1)]
    input: str
    instructions: str | UnsetType | None = UNSET
    previous_response_id: Id | UnsetType | None = UNSET


class _Get(Struct, forbid_unknown_fields=True):
    response_id: Id


class _None(Struct, forbid_unknown_fields=True):
    pass


_RESPONSE_SCHEMA = object_schema(
    {
        "text": text_schema("The text of the answer."),
        "truncated": {"type": "boolean", "description": "Whether the text was cut because it is too long."},
        "response_id": text_schema("Pass it as previous_response_id to continue the conversation."),
        "model": text_schema("The model that answered."),
        "status": text_schema("completed, incomplete, failed, cancelled, queued or in_progress."),
        "reason": text_schema("Why the answer is incomplete, or failed."),
        "previous_response_id": text_schema("The response that this one continues."),
        "created_at": {"type": "integer", "description": "Seconds since 1970."},
        "input_tokens": {"type": "integer"},
        "output_tokens": {"type": "integer"},
    },
    ("text", "truncated", "response_id", "model", "status", "created_at"),
)


@dataclass(frozen=True, slots=True)
class ResponseTools:
    """Tools that make or read responses."""

    creator: Creator
    stored: StoredResponses
    router: Router

    def tools(self) -> tuple[McpTool, ...]:
        return (
            McpTool(
                name="ask_model",
                title="Ask a model",
                description=(
                    "Send a text to a model and return its answer. The result has a response_id; pass it as "
                    "previous_response_id to continue the conversation. list_models lists the models."
                ),
                inputs=object_schema(
                    {
                        "model": text_schema("The model, as list_models names it.", minLength=1),
                        "input": text_schema("The question or the task."),
                        "instructions": text_schema("How the model should answer; a system prompt."),
                        "previous_response_id": text_schema("The response whose conversation continues."),
                    },
                    ("model", "input"),
                ),
                outputs=_RESPONSE_SCHEMA,
                run=self.ask,
                scope=WRITE,
                open_world=True,
            ),
            McpTool(
                name="get_response",
                title="Read a stored response",
                description="Return the text and the status of a response that was stored earlier.",
                inputs=object_schema(
                    {"response_id": text_schema("The response; begins with resp.")}, ("response_id",)
                ),
                outputs=_RESPONSE_SCHEMA,
                run=self.get,
                scope=READ,
                read_only=True,
            ),
            McpTool(
                name="list_models",
                title="List models",
                description="List the models that ask_model can use.",
                inputs=object_schema({}),
                outputs=object_schema(
                    {
                        "models": {
                            "type": "array",
                            "items": object_schema(
                                {"id": text_schema("The name."), "owned_by": text_schema("Who offers it.")},
                                ("id", "owned_by"),
                            ),
                        }
                    },
                    ("models",),
                ),
                run=self.list_models,
                scope=None,
                read_only=True,
            ),
        )

    async def ask(self, call: ToolCall) -> ToolResult:
        """Create a response, as `POST /v1/responses` does. A failure is raised."""
        asked = decode(call.arguments, _Ask, ARGUMENTS)
        request = parse_create(msgspec.json.encode(asked), call.profile)
        run = self.creator.start(request, call.caller)
        call.work.begin(run)
        await call.report(f"{asked.model[:200]} was asked.")
        characters = 0
        async with aclosing(run.events()) as batches:
            async for events in batches:
                characters += sum(len(each.delta) for each in events if isinstance(each, OutputTextDelta))
                await call.report(f"{characters} characters of the answer have arrived.")
        if run.failure is not None:
            raise run.failure
        return _response_result(run.response)

    async def get(self, call: ToolCall) -> ToolResult:
        """A stored response."""
        response_id = decode(call.arguments, _Get, ARGUMENTS).response_id
        RESPONSE_ID.check(response_id)
        return _response_result(await self.stored.retrieve(call.caller, response_id))

    async def list_models(self, call: ToolCall) -> ToolResult:
        """The models that answer; embedding models are left out."""
        decode(call.arguments, _None, ARGUMENTS)
        models = await self.router.models()
        listed = [{"id": model.id, "owned_by": model.owned_by} for model in models]
        return ToolResult(("\n".join(model.id for model in models),), {"models": listed})


def _response_result(response: Response) -> ToolResult:
    """A response as texts: the answer first, then a line about it."""
    text, truncated = bounded_text(response.output_text)
    structured: JsonObject = {
        "text": text,
        "truncated": truncated,
        "response_id": response.id,
        "model": response.model,
        "status": response.status,
        "created_at": response.created_at,
    }
    if response.previous_response_id is not None:
        structured["previous_response_id"] = response.previous_response_id
    if response.usage is not None:
        structured["input_tokens"] = response.usage.input_tokens
        structured["output_tokens"] = response.usage.output_tokens
    remark = f"response_id: {response.id}, status: {response.status}"
    if reason := _reason(response):
        structured["reason"] = reason
        remark += f" ({reason})"
    if truncated:
        remark += f"; the text is cut, GET /v1/responses/{response.id} has all of it"
    return ToolResult((text, remark), structured)


def _reason(response: Response) -> str:
    if response.error is not None:
        return response.error.message
    return response.incomplete_details.reason if response.incomplete_details is not None else ""
