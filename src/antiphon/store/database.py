"""The port between the stores' logic and a database: scripts of named statements, run as transactions.

A script is a generator that yields statements and receives their rows; it executes nothing itself. So the
logic is written once, and each database drives it in its own way: SQLite in one writer thread, PostgreSQL on
a connection of a pool. The text of a statement is in ``sql/queries.sql``, under its name.
"""

from collections.abc import Generator, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from antiphon.store.migrations import Migration
from antiphon.store.statements import Dialect

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
    """Runs scripts. Failures of the database itself are `StoreUnavailable` or `StoreFull`.

    An exception that a script raises rolls its writes back and is raised to the caller.
    """

    @property
    def dialect(self) -> Dialect:
        """The kind of database: vectors are searched in a way of its own on each."""
        ...

    async def read(self, script: Script[T]) -> T:
        """Run a script that only reads, on one consistent state."""
        ...

    async def write(self, script: Script[T], *, durable: bool = True, large: bool = False) -> T:
        """Run a script as one transaction. When this returns, it is committed; a `durable` transaction
        survives a power failure. A `large` one writes megabytes: others need not wait for it."""
        ...

    async def check(self) -> None:
        """Raise if the last writes failed. It sends no query."""
        ...

    async def shrink(self) -> bool:
        """Return a part of the space of erased rows, in a short transaction; whether there is more."""
        ...

    async def aclose(self) -> None:
        """Close files, threads and connections."""
        ...


class OperatedDatabase(Database, Protocol):
    """A database as its operator sees it."""

    async def migration_status(self) -> list[tuple[Migration, bool]]:
        """Every known migration, and whether it is applied."""
        ...

    async def migrate(self) -> list[Migration]:
        """Apply the missing migrations and return them."""
        ...

    async def vacuum(self) -> None:
        """Return the space of erased rows."""
        ...

    async def size(self) -> int:
        """Bytes on disk."""
        ...
