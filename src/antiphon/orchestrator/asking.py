"""One turn: build the body, call the model, map its answer."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

import msgspec

from antiphon.errors import APPROVAL_ANSWERED, ResponsesCallFailed
from antiphon.orchestrator.approvals import outcome_unknown
from antiphon.orchestrator.background_turns import BackgroundResponses
from antiphon.orchestrator.client import ResponsesClient
from antiphon.orchestrator.continuation import MODE_KEY, previous_of
from antiphon.orchestrator.events import (
    HostedCompleted,
    HostedStarted,
    TextDelta,
    TurnCompleted,
    TurnStarted,
)
from antiphon.orchestrator.hosted_segments import HOSTED_CALLS, hosted_call_of
from antiphon.orchestrator.models import (
    AgentExecuteResponse,
    AgentToolCall,
    ConversationContext,
    ImageAttachment,
)
from antiphon.orchestrator.request_builder import build_responses_request
from antiphon.orchestrator.resolution import Plan, hosted_key
from antiphon.orchestrator.response_mapper import map_response
from antiphon.orchestrator.run_state import RunLog
from antiphon.orchestrator.wire import answer_calls
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import TERMINAL_TYPES

_TEXT = frozenset({"response.output_text.delta", "response.refusal.delta"})
_HOSTED: dict[object, type[HostedStarted | HostedCompleted]] = {
    "response.output_item.added": HostedStarted,
    "response.output_item.done": HostedCompleted,
}


@dataclass(frozen=True, slots=True)
class Asker:
    """Requests the turns of one request from the model."""

    client: ResponsesClient
    plan: Plan
    log: RunLog
    max_output_tokens: int | None
    background: BackgroundResponses | None = None
    """Makes the turns that may call hosted tools; None: the client makes all turns."""

    async def ask(
        self, outputs: Sequence[AgentToolCall], approvals: Sequence[JsonObject] = ()
    ) -> AgentExecuteResponse:
        """Request the next turn, with the outputs of all calls of the previous one, and the answers to its
        approval requests. Raises `ResponsesCallFailed`."""
        state = self.log.state
        turn = state.turn + 1
        body = answer_calls(self._opening() if turn == 1 else self._continuation(), outputs, approvals)
        body["metadata"] = {MODE_KEY: self.plan.mode.key}
        if self.max_output_tokens is not None:
            body["max_output_tokens"] = self.max_output_tokens
        resumed = state.asked >= turn
        if not resumed:
            number, response_id = self.log.number, self._new_id()
            await self.log.add(TurnStarted(sequence_number=number, turn=turn, response_id=response_id))
        try:
            raw = await self._send(body, turn)
        except ResponsesCallFailed as failure:
            if not resumed or failure.code != APPROVAL_ANSWERED:
                raise
            # The turn was cut off after its answers had been taken, and there is no response of it to follow:
            # an approved call may have run.
            raw = await self._send({**body, "input": list(map(outcome_unknown, body["input"]))}, turn)
        answer = map_response(raw, self.plan.request, self.plan.context)
        await self.log.add(TurnCompleted(sequence_number=self.log.number, turn=turn, response=answer))
        return answer

    def _new_id(self) -> str | None:
        """The id of a background response for the next turn, if it may call hosted tools."""
        if self.background is None:
            return None
        answer = self.log.state.answer
        # A resumed run has not read the response that it continues. The last answer has the same tools.
        inherited = previous_of(answer).chain if answer is not None else None
        if self.plan.has_hosted_tools or (inherited and any(map(hosted_key, inherited.tools))):
            return self.background.new_id()
        return None

    async def _send(self, body: JsonObject, turn: int) -> bytes | JsonObject:
        response_id = self.log.state.response_id
        if self.background is not None and response_id is not None:
            ended = await self.background.submit(body, response_id)
            return ended or await self._watch(self.background.follow(response_id), turn)
        # The events of a stream show the calls of hosted tools while they work.
        streams = self.plan.request.streaming or (self.plan.has_hosted_tools and self.log.emits)
        return await (self._watch(self.client.stream(body), turn) if streams else self.client.create(body))

    def _opening(self) -> JsonObject:
        """The body of the first turn. Tool results are sent as items, not as text."""
        started = self.log.state.started
        assert started is not None
        request = self.plan.request
        body = build_responses_request(
            self._context(),
            msgspec.structs.replace(request, tool_results_json=None, tool_results=()),
            rag_context_block=started.context_block,
            tool_usage_metadata_block=self.plan.usage_block,
            stream=request.streaming or None,
        )
        body["input"][-1]["content"] += map(_image, request.image_attachments)
        if self.plan.tools is not None:
            _declare(body, self.plan.tools)
        if self.plan.mode_change:
            # A message, because `instructions` apply to one turn only.
            body["input"].insert(0, {"role": "developer", "content": [_text(self.plan.mode_change)]})
        return body

    def _continuation(self) -> JsonObject:
        """The body of a later turn: only the outputs. The server has the tools and the history."""
        answer = self.log.state.answer
        assert answer is not None
        request = msgspec.structs.replace(
            self.plan.request,
            instruction="",
            response_continuation_id=answer.response_continuation_id,
            tools_json=None,
            tool_choice_name=None,
            tool_results_json=None,
            tool_results=(),
        )
        return build_responses_request(self._context(), request, stream=request.streaming or None)

    def _context(self) -> ConversationContext:
        started = self.log.state.started
        assert started is not None
        return msgspec.structs.replace(self.plan.context, model_name=started.model)

    async def _watch(self, stream: AsyncGenerator[JsonObject, None], turn: int) -> JsonObject:
        """The response at the end of a stream of its events."""
        response: JsonObject | None = None
        async with aclosing(stream) as events:
            async for event in events:
                if event.get("type") in _TEXT and self.plan.request.streaming:
                    number = self.log.number
                    await self.log.add(
                        TextDelta(sequence_number=number, turn=turn, delta=str(event.get("delta", "")))
                    )
                elif event.get("type") in _HOSTED:
                    await self._show_hosted(event, turn)
                elif event.get("type") in TERMINAL_TYPES:
                    response = event["response"]
        if response is None:
            raise ResponsesCallFailed("The stream ended before the response did.", status=502)
        return response

    async def _show_hosted(self, event: JsonObject, turn: int) -> None:
        item = event.get("item")
        if isinstance(item, dict) and cast("JsonObject", item).get("type") in HOSTED_CALLS:
            shown = _HOSTED[event["type"]]
            call = hosted_call_of(cast("JsonObject", item))
            if (shown, turn, call.call_id) not in self.log.state.shown:
                await self.log.add(shown(sequence_number=self.log.number, turn=turn, call=call))


def _declare(body: JsonObject, tools: Sequence[object]) -> None:
    """Add tools as values, where the builder adds those that it decodes from `tools_json`."""
    choice = body.pop("tool_choice", None)
    body["tools"] = [tool for tool in tools if isinstance(tool, dict)]
    if choice is not None:
        body["tool_choice"] = choice


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _image(image: ImageAttachment) -> JsonObject:
    return {"type": "input_image", "image_url": f"data:{image.mime_type};base64,{image.data_base64}"}
