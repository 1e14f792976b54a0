"""How many large bodies are received further in one iteration of the event loop."""

import asyncio
from itertools import pairwise

from antiphon.server.http_protocol import MAX_UNREAD_BODY_BYTES
from antiphon.server.receive_queue import MAX_RESUMED, ReceiveQueue
from tests.server.http_connection import Connection, Echo

PIECE = b"x" * (MAX_UNREAD_BODY_BYTES + 1)
HEAD = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"


class Uploads:
    """Connections with a body of which one piece has arrived."""

    def __init__(self, number: int) -> None:
        queue = ReceiveQueue()
        self.connections = [Connection(Echo(), queue) for _ in range(number)]
        for connection in self.connections:
            connection.protocol.data_received(HEAD % (2 * len(PIECE)) + PIECE)
            assert not connection.transport.reading

    def reading(self) -> int:
        return sum(connection.transport.reading for connection in self.connections)

    async def iterate(self) -> list[int]:
        """Let the applications read; how many connections receive again after each iteration."""
        counts = [0]
        async with asyncio.timeout(5):
            while counts[-1] < len(self.connections):
                await asyncio.sleep(0)
                counts.append(self.reading())
        return counts


async def test_a_few_bodies_are_received_further_in_an_iteration() -> None:
    uploads = Uploads(9)
    counts = await uploads.iterate()
    assert max(after - before for before, after in pairwise(counts)) == MAX_RESUMED
    for connection in uploads.connections:
        assert (await connection.send(PIECE)).endswith(PIECE * 2)


async def test_one_body_is_received_without_a_pause() -> None:
    uploads = Uploads(1)
    for _ in range(3 * MAX_RESUMED):
        connection = Uploads(1).connections[0]
        await asyncio.sleep(0)
        assert connection.transport.reading
    assert await uploads.iterate() == [0, 1]


async def test_a_connection_that_is_closed_while_it_waits_is_not_resumed() -> None:
    uploads = Uploads(3 * MAX_RESUMED)
    await asyncio.sleep(0)
    closed = uploads.connections[-1]
    assert not closed.transport.reading
    closed.transport.close()
    closed.protocol.connection_lost(None)
    for _ in range(10):
        await asyncio.sleep(0)
    assert uploads.reading() == len(uploads.connections) - 1
