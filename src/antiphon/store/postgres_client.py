"""asyncpg, typed as far as we use it: how to connect, and what its errors mean."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

from msgspec import Struct

from antiphon.errors import AntiphonError, SettingsError, StoreFull, StoreUnavailable
from antiphon.store.database import Row

try:
    import asyncpg
except ImportError as missing:
    raise SettingsError(
        "A PostgreSQL store needs its driver: install antiphon[postgres].", param="store"
    ) from missing

PATIENCE = 1.2
"""Seconds until a database that does not answer counts as gone."""

STATEMENT_LIMIT = 30.0
"""Seconds that one statement may take, locks included. Far beyond what is normal."""

FAILURES: tuple[type[Exception], ...] = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""Everything that the driver raises when a statement or a connection fails."""

_OUR_SETTINGS = {"pool_size": 1, "statement_cache_size": 0, "connect_timeout": 1}  # and their least values
_OUR_MISTAKES = ("22", "23", "42", "54")  # data, integrity, syntax, limits: no operator can repair these
_CONTENTION = "40"
_WRONG_ACCOUNT = ("28", "3D")  # authorization, no such database


class Connection(Protocol):
    """A connection to PostgreSQL."""

    async def execute(self, query: str, *args: Any) -> str: ...
    async def executemany(self, command: str, args: Sequence[Sequence[Any]]) -> None: ...
    async def fetch(self, query: str, *args: Any) -> Sequence[Row]: ...
    async def fetchval(self, query: str, *args: Any) -> Any: ...
    async def add_listener(
        self, channel: str, callback: Callable[["Connection", int, str, str], None]
    ) -> None: ...
    def add_termination_listener(self, callback: Callable[["Connection"], None]) -> None: ...
    def get_server_pid(self) -> int: ...
    def terminate(self) -> None:
        """Drop the connection now. Who waits for an answer on it gets an error."""
        ...


class Pool(Protocol):
    """Connections for everybody."""

    def acquire(self, *, timeout: float) -> Awaitable[Connection]: ...
    async def release(self, connection: Connection) -> None: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


class Contended(StoreUnavailable):
    """Other requests were changing the same data. Try again."""


class Address(Struct, frozen=True, kw_only=True):
    """Where the database is, and how to use it.

    The URL is what PostgreSQL's own tools take. Three settings in its query are taken out: `pool_size`,
    `statement_cache_size` (0 if a pooler like PgBouncer is between) and `connect_timeout`.
    """

    url: str
    pool_size: int = 10
    statement_cache_size: int = 200
    connect_timeout: float = PATIENCE

    @staticmethod
    def parse(text: str) -> "Address":
        """Take our settings out of a URL; the rest stays as it is."""
        base, _, query = text.partition("?")
        pairs = [pair.partition("=") for pair in query.split("&") if pair]
        ours = {name: _whole_number(name, value) for name, _, value in pairs if name in _OUR_SETTINGS}
        others = "&".join("".join(pair) for pair in pairs if pair[0] not in _OUR_SETTINGS)
        return Address(url=f"{base}?{others}" if others else base, **ours)

    async def connect(self) -> Connection:
        """A connection of its own, whose statements may take their time. Raises `FAILURES`."""
        connect = cast("Callable[..., Awaitable[Connection]]", asyncpg.connect)
        try:
            return await connect(
                self.url, timeout=self.connect_timeout, statement_cache_size=self.statement_cache_size
            )
        except ValueError as error:
            raise SettingsError(
                "The store's URL is wrong. It must look like postgresql://user:password@host:port/database.",
                param="store",
            ) from error

    async def pool(self) -> Pool:
        """A pool that connects when it is used; making one touches no network."""
        create_pool = cast("Callable[..., Awaitable[Pool]]", asyncpg.create_pool)
        return await create_pool(
            self.url,
            min_size=0,  # a floor makes asyncpg reconnect, and complain, by itself
            max_size=self.pool_size,
            timeout=self.connect_timeout,
            command_timeout=STATEMENT_LIMIT,
            statement_cache_size=self.statement_cache_size,
            reset=_keep_session,
        )


def refusal(error: Exception) -> StoreUnavailable | StoreFull | None:
    """What a failure means for the caller. None if it is a mistake of ours."""
    state = _sqlstate(error)
    if state.startswith(_OUR_MISTAKES) or isinstance(error, ValueError):
        return None
    if isinstance(error, asyncpg.DiskFullError):
        return StoreFull()
    return Contended() if state.startswith(_CONTENTION) else StoreUnavailable()


def operator_refusal(error: Exception) -> AntiphonError | None:
    """What a failure means at the start and in commands: most likely, that the URL is wrong."""
    if _sqlstate(error).startswith(_WRONG_ACCOUNT):
        return SettingsError(f"The store's URL does not open a PostgreSQL database: {error}.", param="store")
    if isinstance(error, OSError):
        return StoreUnavailable(
            "The database of the store's URL does not answer. Start it, or check the URL."
        )
    known = refusal(error)
    if known is None and _sqlstate(error):
        return SettingsError(f"PostgreSQL refuses the store's URL: {error}.", param="store")
    return known


def _sqlstate(error: Exception) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _whole_number(name: str, text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) >= _OUR_SETTINGS[name]:
        return int(text)
    raise SettingsError(
        f"`{name}` in the store's URL must be a whole number from {_OUR_SETTINGS[name]} on.", param="store"
    )


async def _keep_session(_connection: Connection) -> None:
    """Nothing in a session is ours to undo, so giving a connection back costs no round trip."""
