"""A server that is killed, as by `kill -9`, at its n-th write to the database: before it, or right after it.

python -m tests.state.dying_server N before|after PORT STORE UPSTREAM
"""

import os
import signal
import sys
from typing import Any

from antiphon.cli import main
from antiphon.store.database import Script
from antiphon.store.sqlite import SqliteDatabase


def die_at(number: int, when: str) -> None:
    """Count writes from now on, and die at the n-th."""
    write: Any = SqliteDatabase.write
    writes = 0

    async def counted(
        self: SqliteDatabase, script: Script[Any], *, durable: bool = True, large: bool = False
    ) -> Any:
        nonlocal writes
        writes += 1
        if writes == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = await write(self, script, durable=durable, large=large)
        if writes == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    SqliteDatabase.write = counted  # pyright: ignore[reportAttributeAccessIssue] -- the fault under test


if __name__ == "__main__":
    number, when, port, store, upstream = sys.argv[1:]
    die_at(int(number), when)
    main(["serve", "--port", port, "--store", store, "--upstream", upstream])
