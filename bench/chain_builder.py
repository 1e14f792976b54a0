"""`python -m bench.chain_builder FILE`: build a long chain in an SQLite store, and measure reading it.

It uses the server's store in this process: over HTTP each of the 1,000 turns would send all earlier turns to
the mock. Prints one JSON object.
"""

import asyncio
import base64
import json
import random
import sys
import time
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from antiphon.caller import DEFAULT_TENANT
from antiphon.protocol.content import OutputText
from antiphon.protocol.items import FunctionCall, FunctionCallOutput, Item, Message
from antiphon.protocol.parse_create import create_from
from antiphon.protocol.response import InputTokensDetails, OutputTokensDetails, Usage, new_response
from antiphon.settings import Settings, StoreSettings
from antiphon.store.base import StoredResponse
from antiphon.store.ports import Stores
from antiphon.wiring import make_ids, open_stores

TURNS = 1_000
ITEMS = 4 * TURNS
TEXT = 560
READS = 21
USAGE = Usage(700_000, InputTokensDetails(), 200, OutputTokensDetails(), 700_200)


class Writer:
    """Writes turns of four items that do not compress; with names and ids an item has about 700 bytes."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self._ids = make_ids()

    def turn(self, parent: str | None) -> StoredResponse:
        """A finished turn that continues `parent`."""
        request = create_from(model="mock", input="Go on.", previous_response_id=parent)
        response = replace(
            new_response(request, id=self._ids.new("resp"), created_at=int(time.time())),
            status="completed",
            output=[self._answer()],
            usage=USAGE,
        )
        return StoredResponse(response=response, parent=parent, input=self._input())

    def _input(self) -> tuple[Item, ...]:
        """A question, a call and its output."""
        call = self._ids.new("call")
        question = Message(id=self._ids.new("msg"), role="user", content=self._text())
        arguments = json.dumps({"query": self._text()})
        return (
            question,
            FunctionCall(id=self._ids.new("fc"), call_id=call, name="search", arguments=arguments),
            FunctionCallOutput(id=self._ids.new("fco"), call_id=call, output=self._text()),
        )

    def _answer(self) -> Message:
        text = OutputText(text=self._text())
        return Message(id=self._ids.new("msg"), status="completed", role="assistant", content=[text])

    def _text(self) -> str:
        return base64.b85encode(self._random.randbytes(TEXT * 4 // 5)).decode()


async def build(store: Stores) -> str:
    """Save the chain turn by turn; return the id of the last one."""
    writer, last = Writer(), None
    for _ in range(TURNS):
        stored = writer.turn(last)
        await store.responses.save(DEFAULT_TENANT, stored)
        last = stored.response.id
    assert last is not None
    return last


async def read(store: Stores, last: str) -> float:
    """The median time to read the complete history, in seconds."""
    times: list[float] = []
    for _ in range(READS):
        begin = time.perf_counter()
        continuation = await store.responses.continuation(DEFAULT_TENANT, last)
        times.append(time.perf_counter() - begin)
        if len(continuation.items) != ITEMS:
            raise RuntimeError(f"the history has {len(continuation.items)} items instead of {ITEMS}")
    return median(times)


async def main(file: Path) -> None:
    """Build the chain, read it, close the store, and print the results with the size of the file."""
    async with open_stores(Settings(store=StoreSettings(url=f"sqlite:{file}"))) as store:
        last = await build(store)
        seconds = await read(store, last)
    size = sum(part.stat().st_size for part in file.parent.glob(f"{file.name}*"))
    print(json.dumps({"last": last, "read_ms": seconds * 1e3, "bytes": size}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
