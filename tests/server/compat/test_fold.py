"""For any answer: the stream of a compatible API folds into the same as its JSON answer."""

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.events import Event
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import Response, new_response
from antiphon.server.compat.chat_completions.stream import ChatRenderer
from antiphon.server.compat.messages.server_blocks import CitedPages
from antiphon.server.compat.messages.stream import MessagesRenderer
from antiphon.turn.chunks import Chunk, Finished, ReasoningDelta, ReasoningSummaryDelta
from antiphon.turn.context import TurnTool
from antiphon.turn.machine import Machine
from antiphon.turn.sealing import SealKey
from tests.server.compat.reading import complete_chat, complete_message, fold_chat, fold_message
from tests.turn.chunk_strategies import model_chunks

TOOLS = {"patch": TurnTool(name="patch", origin="patch", kind="custom")}
ENDINGS = [Finished("stop"), Finished("length"), Finished("tool_calls"), Finished("content_filter")]


@st.composite
def answers(draw: st.DrawFn) -> list[list[Chunk]]:
    """Batches of chunks. A reasoning item has either text or a summary, as their relative order is not
    preserved.
    """
    hidden = draw(st.sampled_from([ReasoningDelta, ReasoningSummaryDelta]))
    batches_drawn = draw(st.lists(st.lists(model_chunks, max_size=4), max_size=6))
    shown = [[chunk for chunk in batch if not isinstance(chunk, hidden)] for batch in batches_drawn]
    return [*shown, [draw(st.sampled_from(ENDINGS))]]


def run(
    batches: Sequence[Sequence[Chunk]], tools: Mapping[str, TurnTool] = TOOLS
) -> tuple[list[list[Event]], Response]:
    numbers = count()
    machine = Machine(
        new_response(create_from(model="m", input="hi"), id="resp_1", created_at=1),
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        tools=tools,
        seal=lambda text, marks: f"sealed {text}" if text else None,
    )
    events = [machine.start(), *(machine.feed(batch) for batch in batches), machine.end(2)]
    assume(machine.failure is None)
    return events, machine.response


SEALER = SealKey(b"secret", bytes).sealer("acme")
NOTE = Downgrade("not_used", "a note")


@given(answers(), st.booleans(), st.booleans())
def test_chat(batches: list[list[Chunk]], usage: bool, legacy: bool) -> None:
    events, response = run(batches, {} if legacy else TOOLS)
    renderer = ChatRenderer((NOTE,), usage=usage, legacy=legacy)
    streamed = fold_chat(b"".join(renderer.render(batch) for batch in events).decode())
    complete = complete_chat(json.loads(ChatRenderer((NOTE,), legacy=legacy).render_response(response, None)))
    if not usage:
        complete["usage"] = None
    streamed["message"] = {name: value for name, value in streamed["message"].items() if value}
    assert streamed == complete


@given(answers(), st.booleans())
def test_messages(batches: list[list[Chunk]], show_thinking: bool) -> None:
    events, response = run(batches)
    renderer = MessagesRenderer((NOTE,), SEALER, CitedPages(), thoughts=show_thinking)
    stream = b"".join(renderer.render(batch) for batch in events).decode()
    complete: dict[str, Any] = complete_message(json.loads(renderer.render_response(response, None)))
    for block in complete["content"]:
        if "INVALID_JSON" in block.get("input", {}):
            return  # a client of the stream detects that itself
    assert fold_message(stream) == complete
