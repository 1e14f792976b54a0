"""A server whose database is full while a file named SWITCH exists.

python -m tests.state.filling_server SWITCH PORT STORE UPSTREAM
"""

import sys
from pathlib import Path
from typing import Any

from antiphon.cli import main
from antiphon.store.database import Script
from antiphon.store.sqlite import SqliteDatabase

ROOM = 2**31 - 2
"""The largest page limit of SQLite."""


def fill_while(switch: Path) -> None:
    """From now on, check the switch before every write."""
    write: Any = SqliteDatabase.write

    def pages() -> int:
        """A limit below the current size forbids any further page."""
        return 1 if switch.exists() else ROOM

    async def limited(self: Any, script: Script[Any], *, durable: bool = True, large: bool = False) -> Any:
        self._writer._connection.execute(f"PRAGMA max_page_count = {pages()}").fetchall()
        return await write(self, script, durable=durable, large=large)

    SqliteDatabase.write = limited


if __name__ == "__main__":
    switch, port, store, upstream = sys.argv[1:]
    fill_while(Path(switch))
    main(["serve", "--port", port, "--store", store, "--upstream", upstream])
