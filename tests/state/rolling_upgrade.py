"""`python -m tests.state.rolling_upgrade --before DIR`: two versions of the code on one PostgreSQL.

DIR is an older checkout (`git worktree add DIR COMMIT`). Its server is started first, on an empty database; the
server of this tree is started beside it and migrates the database while the older one answers. Then each has to
read, continue and follow what the other one has made.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import openai

from tests.postgres import PostgresServer
from tests.serving import Served, run_server
from tests.state.listener import follow, sdk
from tests.turn.order import check_order
from tests.upstream import run_upstream

ROOT = Path(__file__).parents[2]
SETTINGS = {"ANTIPHON_BACKGROUND__LEASE": "2", "ANTIPHON_SEAL__KEY": "shared by both versions"}
MAX_PAUSE_SECONDS = 1.0
"""How long a migration may hold up a request of the older version."""


@dataclass(frozen=True)
class Version:
    """A checkout, and a Python with its packages."""

    name: str
    folder: Path
    python: str = sys.executable

    @property
    def environment(self) -> dict[str, str]:
        """Imports this checkout."""
        return {**SETTINGS, "PYTHONPATH": str(self.folder / "src")}


@dataclass(frozen=True)
class Step:
    """One thing that was tried."""

    what: str
    error: str | None = None


class Pauses:
    """Asks a server again and again, and notes the longest time until an answer was stored and returned."""

    def __init__(self, served: Served) -> None:
        self.longest_seconds = 0.0
        self.answers = 0
        self.errors: list[str] = []
        self._served = served
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop asking."""
        self._stop.set()
        self._thread.join(60)

    def _ask(self) -> None:
        with sdk(self._served) as client:
            client.responses.create(model="echo", input="the first one opens connections")
            while not self._stop.is_set():
                began = time.monotonic()
                try:
                    client.responses.create(model="echo", input="still there?")
                    self.answers += 1
                except openai.OpenAIError as error:
                    self.errors.append(str(error))
                self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)


def upgrade(
    before: Version,
    after: Version,
    postgres: PostgresServer,
    folder: Path,
    max_pause_seconds: float = MAX_PAUSE_SECONDS,
) -> Iterator[Step]:
    """Run both versions, and try what each makes of the other's work."""
    for version in (before, after):
        (folder / version.name).mkdir()
    with postgres.database() as url, run_upstream() as upstream:
        options = ("--store", url, "--upstream", upstream.url)
        with run_server(
            folder / before.name, *options, environment=before.environment, python=before.python
        ) as old:
            pauses = Pauses(old)
            with run_server(
                folder / after.name, *options, environment=after.environment, python=after.python
            ) as new:
                pauses.end()
                yield _migrated(pauses, max_pause_seconds)
                for maker, other, direction in ((old, new, "older → newer"), (new, old, "newer → older")):
                    for what, check in CHECKS.items():
                        yield _tried(f"{direction}: {what}", check, maker, other)


def _migrated(pauses: Pauses, max_seconds: float) -> Step:
    what = (
        f"migration beside the older version: {pauses.answers} answers meanwhile, "
        f"the slowest after {pauses.longest_seconds:.2f} s"
    )
    late = f"more than {max_seconds:g} s" if pauses.longest_seconds > max_seconds else None
    return Step(what, pauses.errors[0] if pauses.errors else late)


def _tried(what: str, check: Callable[[Served, Served], None], maker: Served, other: Served) -> Step:
    try:
        check(maker, other)
    except Exception as error:  # noqa: BLE001 -- the report names it, and the next check is tried
        return Step(what, f"{type(error).__name__}: {error}")
    return Step(what)


def retrieve(maker: Served, other: Served) -> None:
    """What one has stored the other reads, identically."""
    with sdk(maker) as here, sdk(other) as there:
        made = here.responses.create(model="transcript", input="one")
        assert there.responses.retrieve(made.id).output_text == made.output_text


def continue_response(maker: Served, other: Served) -> None:
    """Either continues a response of the other, in turn."""
    with sdk(maker) as here, sdk(other) as there:
        first = here.responses.create(model="transcript", input="one")
        second = there.responses.create(model="transcript", input="two", previous_response_id=first.id)
        third = here.responses.create(model="transcript", input="three", previous_response_id=second.id)
        assert all(word in third.output_text for word in ("one", "two", "three"))


def converse(maker: Served, other: Served) -> None:
    """Both add to one conversation."""
    with sdk(maker) as here, sdk(other) as there:
        talk = here.conversations.create()
        there.responses.create(model="transcript", input="one", conversation=talk.id)
        last = here.responses.create(model="transcript", input="two", conversation=talk.id)
        assert "one" in last.output_text
        assert len(there.conversations.items.list(talk.id).data) == 4


def delete(maker: Served, other: Served) -> None:
    """A deleted response is gone for both."""
    with sdk(maker) as here, sdk(other) as there:
        made = here.responses.create(model="echo", input="x")
        there.responses.delete(made.id)
        with suppress(openai.NotFoundError):
            here.responses.retrieve(made.id)
            raise AssertionError("it is still there")


def background(maker: Served, other: Served) -> None:
    """A background response of one is followed to its end on the other."""
    with sdk(maker) as here, sdk(other) as there:
        made = here.responses.create(model="slow", input="x", background=True)
        received = follow(other, made.id)
        check_order(received)
        assert received[-1]["type"] == "response.completed"
        assert there.responses.retrieve(made.id).status == "completed"
        assert here.responses.retrieve(made.id).output_text == there.responses.retrieve(made.id).output_text


def cancel(maker: Served, other: Served) -> None:
    """A background response of one is cancelled on the other."""
    with sdk(maker) as here, sdk(other) as there:
        made = here.responses.create(model="hangs", input="x", background=True)
        time.sleep(0.5)
        there.responses.cancel(made.id)
        deadline = time.monotonic() + 10
        while here.responses.retrieve(made.id).status != "cancelled":
            assert time.monotonic() < deadline, here.responses.retrieve(made.id).status
            time.sleep(0.1)


CHECKS: dict[str, Callable[[Served, Served], None]] = {
    "retrieve": retrieve,
    "continue in turn": continue_response,
    "one conversation": converse,
    "delete": delete,
    "follow a background response": background,
    "cancel a background response": cancel,
}


def main() -> int:
    """Print the steps; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.state.rolling_upgrade", description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="the older checkout")
    parser.add_argument(
        "--python", default=sys.executable, help="a Python with the older checkout's packages"
    )
    options = parser.parse_args()
    before = Version("before", options.before.resolve(), options.python)
    failed = False
    with tempfile.TemporaryDirectory(prefix="antiphon-upgrade-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "postgres").mkdir()
        postgres = PostgresServer(folder / "postgres")
        try:
            for step in upgrade(before, Version("after", ROOT), postgres, folder):
                failed = failed or step.error is not None
                print(f"{'ok    ' if step.error is None else 'failed'} {step.what}", flush=True)
                if step.error is not None:
                    print(f"       {step.error[:300]}", flush=True)
        finally:
            postgres.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    sys.exit(main())
