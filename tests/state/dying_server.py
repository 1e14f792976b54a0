"""A server that is killed, as by `kill -9`, at its n-th write to the database: before it, or right after it.

python -m tests.state.dying_server N before|after PORT STORE UPSTREAM
"""

import os
import signal
import sys
from typing import Any

from antiphon.cli import main
from antiphon.store.database import Script
from antiphon.store.postgres import PostgresDatabase
from antiphon.store.sqlite import SqliteDatabase


def die_at(number: int, when: str, kind: type[SqliteDatabase | PostgresDatabase]) -> None:
    """Count writes to databases of this kind from now on, and die at the n-th. Signs of life, which come at any
    time, are not counted."""
    write: Any = kind.write
    writes = 0

    async def counted(self: Any, script: Script[Any], *, durable: bool = True, large: bool = False) -> Any:
        nonlocal writes
        if getattr(script, "__name__", "") == "beat":
            return await write(self, script, durable=durable, large=large)
        writes += 1
        this = writes
        if this == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = await write(self, script, durable=durable, large=large)
        if this == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    kind.write = counted  # pyright: ignore[reportAttributeAccessIssue] -- the fault under test


if __name__ == "__main__":
    number, when, port, store, upstream = sys.argv[1:]
    die_at(int(number), when, PostgresDatabase if store.startswith("postgres") else SqliteDatabase)
    main(["serve", "--port", port, "--store", store, "--upstream", upstream])
