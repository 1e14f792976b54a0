"""The port between the stores' logic and a database: scripts of named statements, run as transactions.

A script is a generator that yields statements and receives their rows. It decides; it never executes. So
the logic is written once, and every database drives it in its own way: SQLite in one writer thread,
PostgreSQL on a connection of a pool. The text of a statement is in ``sql/queries.sql``, under its name.
"""

from collections.abc import Generator, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from antiphon.store.migrations import Migration

Row = Sequence[Any]
T = TypeVar("T")


class Statement(Struct, frozen=True):
    """One named statement with its arguments, in the order of ``$1, $2, …``.

    With `many`, `args` holds one tuple of arguments per execution, and no rows come back.
    """

    name: str
    args: Sequence[Any] = ()
    many: bool = False


Script = Generator[Statement, Sequence[Row], T]


class Database(Protocol):
    """Runs scripts. What goes wrong outside of them is `StoreUnavailable` or `StoreFull`.

    An exception that a script raises undoes what it wrote, and reaches the caller.
    """

    async def read(self, script: Script[T]) -> T:
        """Run a script that only reads, on one consistent state."""
        ...

    async def write(self, script: Script[T], *, durable: bool = True) -> T:
        """Run a script as one transaction. When this returns, it is committed; and if it is `durable`,
        not even a power failure loses it."""
        ...

    async def check(self) -> None:
        """Raise at once if it is known that nothing could be written right now. Costs next to nothing."""
        ...

    async def aclose(self) -> None:
        """Let go of files, threads and connections."""
        ...


class OperatedDatabase(Database, Protocol):
    """A database as its operator sees it."""

    async def migration_status(self) -> list[tuple[Migration, bool]]:
        """Every migration that this version knows, and whether the database has it."""
        ...

    async def migrate(self) -> list[Migration]:
        """Apply what is missing; what that was."""
        ...

    async def vacuum(self) -> None:
        """Give room of what was erased back."""
        ...

    async def size(self) -> int:
        """Bytes on disk."""
        ...
