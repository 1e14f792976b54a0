"""Shared by the tests of the PostgreSQL driver: a few scripts, and a connection that can go dead."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon.store import postgres as driver
from antiphon.store.database import Row, Script, Statement
from antiphon.store.postgres import PostgresDatabase
from antiphon.store.statements import Dialect, load_statements

STATEMENTS = {
    "add": "INSERT INTO owners (id, beat_at) VALUES ($1, $2)",
    "count": "SELECT count(*) FROM owners",
    "named": "SELECT id FROM owners WHERE id = $1",
    "setting": "SELECT current_setting($1)",
    "sleep": "SELECT pg_sleep($1)",
    "touch": "UPDATE owners SET beat_at = beat_at + 1 WHERE id = $1",
    "contend": "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$",
    "fill_the_disk": "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100'; END $$",
    "add_long_chains": "INSERT INTO chains SELECT 't', n, NULL, NULL, 4000, 0 FROM generate_series(1, 5) n",
    "fill_long_chains": """
        INSERT INTO items (tenant, chain, pos, id, type, body)
        SELECT 't', chain, pos, pos, 'message', '' FROM generate_series(1, 5) chain, generate_series(1, 4000) pos
    """,
    "add_answered_approvals": """
        INSERT INTO approvals SELECT 't', n, 'r' || n, n, 'mcp_approval_response', '' FROM generate_series(1, 20000) n
    """,
    "explain_open_approvals": f"EXPLAIN {load_statements('postgres')['open_approvals']}",
    "explain_history_page": f"EXPLAIN {load_statements('postgres')['history_page']}",
    "mistake": "SELECT nonsense FROM owners",
}


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[PostgresDatabase, None]:
    """A database with the statements above in addition to its own."""

    def load(dialect: Dialect) -> dict[str, str]:
        return {**load_statements(dialect), **STATEMENTS}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "load_statements", load)
        database = await PostgresDatabase.open(url)
    try:
        yield database
    finally:
        await database.aclose()


def one(name: str, *args: Any) -> Script[Sequence[Row]]:
    """A script with one statement."""
    return (yield Statement(name, args))


async def count_of(database: PostgresDatabase) -> int:
    """The number of rows."""
    return (await database.read(one("count")))[0][0]


async def until(condition: Callable[[], bool]) -> None:
    """Poll until a condition holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Wire:
    """A TCP connection to a port that can be cut without a notice to either side."""

    def __init__(self) -> None:
        self.alive = asyncio.Event()
        self.alive.set()
        self.port = 0

    @asynccontextmanager
    async def to(self, port: int) -> AsyncGenerator["Wire", None]:
        """Open the connection."""
        pumps: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", port)
            pumps.add(asyncio.create_task(self._pump(reader, back)))
            pumps.add(asyncio.create_task(self._pump(there, writer)))

        server = await asyncio.start_server(connected, "127.0.0.1")
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self.alive.wait()
                writer.write(data)
        except ConnectionError:
            return
        finally:
            writer.close()
