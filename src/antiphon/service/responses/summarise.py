"""Ask a model for the summary of a conversation.

One that is too long for the model is summarised part by part, each on top of the summary of those before.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from msgspec import Struct

from antiphon.errors import BackendBroken, BackendError
from antiphon.protocol.content import OutputText
from antiphon.protocol.ids import Clock, IdSource
from antiphon.protocol.items import Message
from antiphon.protocol.requests import CreateResponse
from antiphon.protocol.response import Response, Usage, new_response
from antiphon.service.routing.attempts import Attempt
from antiphon.service.routing.router import Route, Router
from antiphon.turn.answer_limit import AnswerLimit
from antiphon.turn.chunks import Heartbeat
from antiphon.turn.compaction import summary_request
from antiphon.turn.context import build_turn
from antiphon.turn.machine import Machine
from antiphon.turn.transcript import shortened
from antiphon.turn.usage import together

BROKEN_OFF = "[The summary breaks off here; what came after this is not known any more.]"

Beat = Callable[[], Awaitable[None]]
"""Called whenever the model gives a sign of life."""


async def no_beat() -> None:
    """Do nothing."""


class Summary(Struct, frozen=True):
    """The summary of a conversation, and its usage."""

    text: str
    usage: Usage | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summariser:
    """Summarises one conversation. `instructions` are those that it was held under."""

    router: Router
    ids: IdSource
    clock: Clock
    tenant: str
    model: str
    instructions: str | None = None
    beat: Beat = no_beat

    async def summarise(self, passages: Sequence[str], earlier: str = "") -> Summary:
        """The summary of these passages and of `earlier`, the summary of the passages before them."""
        try:
            return await self._at_once(passages, earlier)
        except BackendError as error:
            if error.code != "context_length_exceeded":
                raise
            if len(passages) == 1:
                shorter = shortened(passages[0])
                if shorter is None:
                    raise
                return await self.summarise([shorter], earlier)
        half = len(passages) // 2
        first = await self.summarise(passages[:half], earlier)
        rest = await self.summarise(passages[half:], first.text)
        return Summary(rest.text, together(first.usage, rest.usage))

    async def _at_once(self, passages: Sequence[str], earlier: str) -> Summary:
        """One request, to the first backend that can answer it."""
        request = summary_request(passages, model=self.model, earlier=earlier, instructions=self.instructions)
        attempt = Attempt(self.router.routes(self.model), request.items)
        while True:
            try:
                return _summary(await self._ask(attempt.route, request))
            except BackendError as error:
                following = attempt.after(error, request)
                if following is None:
                    raise
                attempt = following

    async def _ask(self, route: Route, request: CreateResponse) -> Response:
        turn = build_turn(request, model=route.upstream_name(self.model), native=route.backend.natives)
        prepared = route.backend.prepare(turn)
        response = new_response(request, id=self.ids.new("resp"), created_at=int(self.clock()))
        machine, limit = Machine(response, new_id=self.ids.new, silent=True), AnswerLimit()
        with await route.slot(self.tenant) as slot:
            async with aclosing(slot.chunks(prepared, streamed=turn.streamed)) as batches:
                async for chunks in batches:
                    if type(chunks[0]) is not Heartbeat:
                        slot.answered()
                    machine.feed(limit.take(chunks))
                    if limit.ended:
                        break
                    await self.beat()
        machine.end(int(self.clock()))
        if machine.failure is not None:
            raise machine.failure
        return machine.response


def _summary(response: Response) -> Summary:
    """The text of the model. A truncated summary contains a note about it, because a long conversation must
    also continue with a model that does not stop by itself."""
    parts = [
        part.text
        for item in response.output
        if isinstance(item, Message)
        for part in item.content
        if isinstance(part, OutputText)
    ]
    text = "\n".join(parts).strip()
    if not text:
        raise BackendBroken("The model gave no summary of the conversation. Compact with another model.")
    cut = response.incomplete_details
    if cut is not None and cut.reason != "max_output_tokens":
        raise BackendBroken(f"The model did not finish its summary of the conversation ({cut.reason}).")
    if cut is not None:
        text += f"\n{BROKEN_OFF}"
    return Summary(text, response.usage)
