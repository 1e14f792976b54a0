"""`Provider`: a Responses server for an agent loop, with one call for an answer and one for a turn."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from antiphon.errors import BackendBroken, BackendError, BackendRefused, InvalidRequest
from antiphon.orchestrator.client import ResponsesClient
from antiphon.orchestrator.output_segments import Output, read_output
from antiphon.orchestrator.raw_response import incomplete_reason, receive, string
from antiphon.protocol.content import JsonObject
from antiphon.tools.declaration import Tool, ToolCall

OutputSchema = Mapping[str, Any] | str | type
"""`{name, schema, strict?, description?}`, flat or under `json_schema` as chat completions have it; a plain
JSON Schema; either of them as JSON text; or a Python type."""

DEFAULT_NAME = "answer"


def text_format(wanted: OutputSchema) -> JsonObject:
    """The member `format` of `text`. The schema is enforced unless `strict` is false."""
    if isinstance(wanted, str):
        wanted = _decoded(wanted)
    if not isinstance(wanted, Mapping):
        return _format(getattr(wanted, "__name__", DEFAULT_NAME), _schema_of_type(wanted))
    if isinstance(nested := wanted.get("json_schema"), Mapping):
        return _named_format(cast("Mapping[str, Any]", nested))
    if wanted.keys() & {"schema", "name"}:
        return _named_format(wanted)
    return _format(str(wanted.get("title") or DEFAULT_NAME), dict(wanted))


def _named_format(wanted: Mapping[str, Any]) -> JsonObject:
    name, schema = wanted.get("name"), wanted.get("schema")
    if not isinstance(name, str) or not name.strip():
        raise _invalid("The schema of the answer needs a 'name'.", "schema.name")
    if not isinstance(schema, Mapping):
        raise _invalid("The schema of the answer needs a 'schema': a JSON Schema.", "schema.schema")
    made = _format(name, dict(cast("Mapping[str, Any]", schema)))
    return {**made, **{key: wanted[key] for key in ("strict", "description") if key in wanted}}


def _format(name: str, schema: JsonObject) -> JsonObject:
    if not schema:
        raise _invalid("The schema of the answer is empty.", "schema.schema")
    allowed = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64]
    return {"type": "json_schema", "name": allowed, "schema": schema, "strict": True}


def _decoded(text: str) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _invalid(f"The schema of the answer is not a JSON object: {error}", "schema") from None


def _schema_of_type(kind: Any) -> JsonObject:
    """The schema in strict form: an object with all members required and no others."""
    try:
        (root,), definitions = msgspec.json.schema_components([kind])
    except TypeError as error:
        raise _invalid(f"There is no JSON Schema of {kind!r}: {error}", "schema") from None
    if "$ref" in root:
        name = str(root["$ref"]).rpartition("/")[2]
        root = definitions[name]
        if f'"#/$defs/{name}"' not in msgspec.json.encode(definitions).decode():
            del definitions[name]
    if root.get("type") != "object" or "properties" not in root:
        raise _invalid(f"{kind!r} is not an object with members: wrap it in a struct.", "schema")
    return _closed({**root, "$defs": definitions} if definitions else root)


def _closed(schema: Any) -> Any:
    """Remove defaults and close all objects. Names of members and definitions are not keywords."""
    if isinstance(schema, list | tuple):
        return [_closed(one) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    closed: JsonObject = {}
    for keyword, value in cast("JsonObject", schema).items():
        if keyword in ("properties", "$defs"):
            closed[keyword] = {name: _closed(one) for name, one in value.items()}
        elif keyword != "default":
            closed[keyword] = _closed(value)
    if closed.get("type") == "object" and "properties" in closed:
        closed |= {"required": list(closed["properties"]), "additionalProperties": False}
    return closed


def _invalid(message: str, param: str) -> InvalidRequest:
    return InvalidRequest(message, param=param)


Message = str | Sequence[JsonObject]
"""Text, or content parts: see `antiphon.orchestrator.parts`."""
DeclaredTool = Tool | JsonObject
"""A function, or the declaration of a tool that the model's server runs."""

MAX_QUOTED_CHARS = 200
"""Length of an answer that an error message quotes."""

_CHOICES = frozenset({"auto", "none", "required"})


class TurnResult(NamedTuple):
    """The text and calls of a turn, and the id to continue from."""

    assistant_text: str
    tool_calls: list[ToolCall]
    response_id: str


class Provider:
    """Calls one model of a Responses server. Parameters that are None are left to the server.

    `tool_choice` applies to first turns: `auto`, `none`, `required`, the name of a tool that must be called,
    or the object of the API.
    """

    def __init__(
        self,
        client: ResponsesClient,
        *,
        model: str | None = None,
        temperature: float | None = None,
        max_output_tokens: int | None = None,
        store: bool = True,
        tool_choice: str | JsonObject | None = None,
    ) -> None:
        self._client = client
        self._model = model
        self._settings: JsonObject = {
            name: value
            for name, value in (("temperature", temperature), ("max_output_tokens", max_output_tokens))
            if value is not None
        } | {"store": store}
        self._tool_choice = _tool_choice(tool_choice)

    async def generate_response(
        self, instructions: str, message: Message, *, schema: OutputSchema | None = None
    ) -> str:
        """One answer, without tools; with a `schema` it is JSON. A refusal raises `BackendRefused`."""
        if not message:
            raise InvalidRequest("The message is empty.", param="message")
        body: JsonObject = {"input": _input(message)}
        if instructions:
            body["instructions"] = instructions
        if schema is not None:
            body["text"] = {"format": text_format(schema)}
        answer = await self._ask(body)
        if refusals := answer.output.refusals:
            raise BackendRefused(f"The model refused: {' '.join(refusals)}", status=422, code="refusal")
        text = answer.output.text.strip()
        if answer.cut_off is not None and (schema is not None or not text):
            raise BackendBroken(f"The answer is incomplete ({answer.cut_off}){_remedy(answer.cut_off)}")
        if schema is not None:
            _check_json(text)
        return text

    async def generate_responses_turn(
        self,
        previous_response_id: str | None = None,
        user_input: Message | None = None,
        tools: Sequence[DeclaredTool] | None = None,
        function_outputs: Mapping[str, str] | None = None,
    ) -> TurnResult:
        """One turn of an agent. A refusal is part of the text.

        Without `previous_response_id` the turn has the input and the tools. With it, the turn has the outputs
        by call id, then the input, if any; `tools` are not sent again, because the server has them.
        """
        if previous_response_id:
            body = self._continuation(previous_response_id, user_input, function_outputs or {})
        else:
            body = self._start(user_input, tools or ())
        answer = await self._ask(body)
        if not answer.response_id:
            raise BackendBroken("The response has no id, so it cannot be continued.")
        calls = [
            ToolCall(id=call.call_id, name=call.name, arguments=call.arguments_json or "")
            for call in answer.output.calls
            if call.call_id and call.name
        ]
        return TurnResult(answer.output.text.strip(), calls, answer.response_id)

    def _start(self, user_input: Message | None, tools: Sequence[DeclaredTool]) -> JsonObject:
        if not user_input:
            raise InvalidRequest("The first turn needs an input.", param="user_input")
        body: JsonObject = {"input": _input(user_input)}
        if tools:
            body["tools"] = [tool.declaration() if isinstance(tool, Tool) else tool for tool in tools]
            if self._tool_choice is not None:
                body["tool_choice"] = self._tool_choice
        return body

    def _continuation(
        self, previous_response_id: str, user_input: Message | None, outputs: Mapping[str, str]
    ) -> JsonObject:
        if not self._settings["store"]:
            raise InvalidRequest(
                "A response that is not stored cannot be continued: use store=True.",
                param="previous_response_id",
            )
        body: JsonObject = {"previous_response_id": previous_response_id}
        if user_input and not outputs:
            return body | {"input": _input(user_input)}
        items = [
            {"type": "function_call_output", "call_id": call_id, "output": output}
            for call_id, output in outputs.items()
        ]
        return body | {"input": [*items, _message(user_input)] if user_input else items}

    async def _ask(self, body: JsonObject) -> "_Answer":
        if self._model is None:
            self._model = await self._client.default_model()
        _, response, fault = receive(
            await self._client.create({"model": self._model, **body, **self._settings})
        )
        if fault is not None:
            raise BackendError(fault.message, code=fault.code)
        status = string(response.status) or "completed"  # some servers omit it
        if status not in ("completed", "incomplete"):
            raise BackendBroken(f"There is no answer: the status of the response is '{status}'.")
        reason = incomplete_reason(response) or "no reason given"
        return _Answer(
            response_id=string(response.id),
            output=read_output(response),
            cut_off=reason if status == "incomplete" else None,
        )


class _Answer(NamedTuple):
    response_id: str
    output: Output
    cut_off: str | None
    """Why the answer is incomplete; None: it is complete."""


def _input(message: Message) -> str | list[JsonObject]:
    return message if isinstance(message, str) else [_message(message)]


def _message(content: Message) -> JsonObject:
    return {
        "type": "message",
        "role": "user",
        "content": content if isinstance(content, str) else list(content),
    }


def _check_json(text: str) -> None:
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        quoted = f": {text[:MAX_QUOTED_CHARS]}" if text else ", it is empty."
        raise BackendBroken(f"The answer is not valid JSON{quoted}") from None


def _remedy(reason: str) -> str:
    return ": allow more output tokens." if reason == "max_output_tokens" else "."


def _tool_choice(choice: str | JsonObject | None) -> str | JsonObject | None:
    if isinstance(choice, str) and choice not in _CHOICES:
        return {"type": "function", "name": choice}
    return choice
