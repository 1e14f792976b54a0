"""asyncpg: types for the used part of its interface, connections, and the translation of its errors."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast

from msgspec import Struct

from antiphon.errors import AntiphonError, SettingsError, StoreFull, StoreUnavailable
from antiphon.extras import install_command
from antiphon.store.database import Row

try:
    import asyncpg
except ImportError as missing:
    raise SettingsError(
        f"A PostgreSQL store needs its driver: {install_command('postgres')}", param="store"
    ) from missing

ANSWER_TIMEOUT_SECONDS = 1.2
"""A database that does not answer for this long counts as unavailable."""

STATEMENT_TIMEOUT_SECONDS = 30.0
"""The most time for one statement, including waits for locks. Statements normally take milliseconds."""

FAILURES: tuple[type[Exception], ...] = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""Everything that the driver raises when a statement or a connection fails."""

_OWN_SETTINGS = {"pool_size": 1, "statement_cache_size": 0, "connect_timeout": 1}  # with their minimum values
# Classes of SQLSTATE.
_BUGS = ("22", "23", "42", "54")  # data, integrity, syntax, limits: an operator cannot repair these
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
        """Drop the connection now. Pending calls on it raise."""
        ...


class Pool(Protocol):
    """A pool of connections."""

    def acquire(self, *, timeout: float) -> Awaitable[Connection]: ...
    async def release(self, connection: Connection) -> None: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


class Contended(StoreUnavailable):
    """Other requests were changing the same data. Try again."""


class Address(Struct, frozen=True, kw_only=True):
    """The URL of the database, and the settings of its connections.

    The URL is a PostgreSQL connection URI. Three settings in its query are removed before PostgreSQL sees it:
    `pool_size`, `statement_cache_size` (0 for a pooler like PgBouncer) and `connect_timeout`.
    """

    url: str
    pool_size: int = 10
    statement_cache_size: int = 200
    connect_timeout: float = ANSWER_TIMEOUT_SECONDS

    @staticmethod
    def parse(text: str) -> "Address":
        """Separate Antiphon's settings from a URL; the rest of it is unchanged."""
        base, _, query = text.partition("?")
        pairs = [pair.partition("=") for pair in query.split("&") if pair]
        ours = {name: _whole_number(name, value) for name, _, value in pairs if name in _OWN_SETTINGS}
        others = "&".join("".join(pair) for pair in pairs if pair[0] not in _OWN_SETTINGS)
        return Address(url=f"{base}?{others}" if others else base, **ours)

    async def connect(self) -> Connection:
        """A new connection outside the pool, without a statement timeout. Raises `FAILURES`."""
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
        """A pool that connects on first use; creating it uses no network."""
        create_pool = cast("Callable[..., Awaitable[Pool]]", asyncpg.create_pool)
        return await create_pool(
            self.url,
            min_size=0,  # with a minimum, asyncpg reconnects and logs by itself
            max_size=self.pool_size,
            timeout=self.connect_timeout,
            command_timeout=STATEMENT_TIMEOUT_SECONDS,
            statement_cache_size=self.statement_cache_size,
            reset=_keep_session,
        )


def error_for_caller(error: Exception) -> StoreUnavailable | StoreFull | None:
    """The error for the caller; None if only a bug can cause this failure."""
    state = _sqlstate(error)
    if state.startswith(_BUGS) or isinstance(error, ValueError):
        return None
    if isinstance(error, asyncpg.DiskFullError):
        return StoreFull()
    return Contended() if state.startswith(_CONTENTION) else StoreUnavailable()


def error_for_operator(error: Exception) -> AntiphonError | None:
    """The error for the operator at startup and in commands, where the URL is the likely cause."""
    if _sqlstate(error).startswith(_WRONG_ACCOUNT):
        return SettingsError(f"The store's URL does not open a PostgreSQL database: {error}.", param="store")
    if isinstance(error, OSError):
        return StoreUnavailable(
            "The database of the store's URL does not answer. Start it, or check the URL."
        )
    known = error_for_caller(error)
    if known is None and _sqlstate(error):
        return SettingsError(f"PostgreSQL refuses the store's URL: {error}.", param="store")
    return known


def _sqlstate(error: Exception) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _whole_number(name: str, text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) >= _OWN_SETTINGS[name]:
        return int(text)
    raise SettingsError(
        f"`{name}` in the store's URL must be an integer of at least {_OWN_SETTINGS[name]}.", param="store"
    )


async def _keep_session(_connection: Connection) -> None:
    """Reset nothing: Antiphon changes no session state, so a release needs no round trip."""
