"""`Provider`: a Responses server as an agent loop sees it. One call for an answer, one for a turn."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from antiphon.errors import BackendBroken, BackendError, BackendRefused, InvalidRequest
from antiphon.orchestrator.client import ResponsesClient
from antiphon.orchestrator.output_segments import Output, read_output
from antiphon.orchestrator.raw_response import incomplete_reason, receive, string
from antiphon.orchestrator.structured_output import OutputSchema, text_format
from antiphon.protocol.content import JsonObject
from antiphon.tools.declaration import Tool, ToolCall

Message = str | Sequence[JsonObject]
"""Text, or content parts: see `antiphon.orchestrator.parts`."""
DeclaredTool = Tool | JsonObject
"""A function; or a tool that the model's server runs itself, as its declaration."""

EXCERPT = 200
"""Characters of an answer that are quoted in an error."""

_CHOICES = frozenset({"auto", "none", "required"})


class TurnResult(NamedTuple):
    """What the model said in a turn, and the id with which the next one goes on."""

    assistant_text: str
    tool_calls: list[ToolCall]
    response_id: str


class Provider:
    """Asks one model of a Responses server. What is not given is left to the server.

    `tool_choice` holds for first turns: `auto`, `none`, `required`, the name of a tool that must be called,
    or the object that the API takes.
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
        """One answer, without tools. With a `schema` it is JSON. A model that refuses is an error."""
        if not message:
            raise InvalidRequest("There is nothing to say to the model.", param="message")
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
            raise BackendBroken(f"The answer is not whole ({answer.cut_off}){_remedy(answer.cut_off)}")
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
        """One turn of an agent. A model that refuses says so in the text.

        Without `previous_response_id` it starts with the input and the tools. With it, it goes on with the
        outputs, by call id, and then the input, if there is any. `tools` may be given again, but are not sent
        again: the server knows them, like all that was said before.
        """
        if previous_response_id:
            body = self._continuation(previous_response_id, user_input, function_outputs or {})
        else:
            body = self._start(user_input, tools or ())
        answer = await self._ask(body)
        if not answer.response_id:
            raise BackendBroken("The response has no id: nothing can go on from it.")
        calls = [
            ToolCall(id=call.call_id, name=call.name, arguments=call.arguments_json or "")
            for call in answer.output.calls
            if call.call_id and call.name
        ]
        return TurnResult(answer.output.text.strip(), calls, answer.response_id)

    def _start(self, user_input: Message | None, tools: Sequence[DeclaredTool]) -> JsonObject:
        if not user_input:
            raise InvalidRequest("The first turn needs something to say to the model.", param="user_input")
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
                "Nothing can go on from a response that is not kept: this provider needs store=True.",
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
        status = string(response.status) or "completed"  # some servers leave it out
        if status not in ("completed", "incomplete"):
            raise BackendBroken(f"There is no answer: the response is '{status}'.")
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
    """Why it is not whole."""


def _input(message: Message) -> str | list[JsonObject]:
    return message if isinstance(message, str) else [_message(message)]


def _message(said: Message) -> JsonObject:
    return {"type": "message", "role": "user", "content": said if isinstance(said, str) else list(said)}


def _check_json(text: str) -> None:
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        quoted = f"this came: {text[:EXCERPT]}" if text else "nothing came."
        raise BackendBroken(f"The answer was to be JSON, and {quoted}") from None


def _remedy(reason: str) -> str:
    return ": allow more output tokens." if reason == "max_output_tokens" else "."


def _tool_choice(choice: str | JsonObject | None) -> str | JsonObject | None:
    if isinstance(choice, str) and choice not in _CHOICES:
        return {"type": "function", "name": choice}
    return choice
