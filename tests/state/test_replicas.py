"""Two servers on one PostgreSQL: create on one, follow and cancel on the other, and lose either."""

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from tests.postgres import PostgresServer
from tests.serving import Served, run_server
from tests.turn.order import check_order
from tests.upstream import Upstream, run_upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replicas")]

SETTINGS = {"ANTIPHON_BACKGROUND__LEASE": "2", "ANTIPHON_SEAL__KEY": "shared by all replicas"}
SLOW_TEXT = "".join(f"w{number} " for number in range(12))


@pytest.fixture(scope="module")
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@pytest.fixture
def database(postgres: PostgresServer) -> Generator[str, None, None]:
    with postgres.database() as url:
        yield url


@contextmanager
def replica(folder: Path, name: str, database: str, upstream: Upstream) -> Generator[Served, None, None]:
    home = folder / name
    home.mkdir()
    options = ("--store", database, "--upstream", upstream.url)
    with run_server(home, *options, environment=SETTINGS) as served:
        yield served


@pytest.fixture
def replicas(
    database: str, upstream: Upstream, tmp_path: Path
) -> Generator[tuple[Served, Served], None, None]:
    with (
        replica(tmp_path, "a", database, upstream) as first,
        replica(tmp_path, "b", database, upstream) as second,
    ):
        yield first, second


def sdk(served: Served) -> OpenAI:
    return OpenAI(base_url=served.base_url, api_key="-", max_retries=0, timeout=60)


def follow(served: Served, response_id: str, **params: Any) -> list[dict[str, Any]]:
    with sdk(served) as client:
        return [event.to_dict() for event in client.responses.retrieve(response_id, stream=True, **params)]


def test_a_response_of_one_server_is_continued_on_the_other(replicas: tuple[Served, Served]) -> None:
    with sdk(replicas[0]) as first, sdk(replicas[1]) as second:
        answer = first.responses.create(model="transcript", input="one")
        assert second.responses.retrieve(answer.id) == answer
        going_on = second.responses.create(model="transcript", input="two", previous_response_id=answer.id)
        assert "one" in going_on.output_text
        second.responses.delete(answer.id)
        again = first.responses.create(model="transcript", input="three", previous_response_id=going_on.id)
        assert "one" in again.output_text, "descendants go on"


def test_a_response_is_followed_from_both_byte_for_byte(replicas: tuple[Served, Served]) -> None:
    with sdk(replicas[0]) as client:
        response = client.responses.create(model="slow", input="x", background=True)
    here, there = follow(replicas[0], response.id), follow(replicas[1], response.id)
    assert here == there
    check_order(there)
    assert follow(replicas[1], response.id, starting_after=4) == there[5:]


def test_cancelling_on_one_reaches_the_upstream_of_the_other(
    replicas: tuple[Served, Served], upstream: Upstream
) -> None:
    upstream.cut_off.clear()
    with sdk(replicas[0]) as first, sdk(replicas[1]) as second:
        response = first.responses.create(model="hangs", input="x", background=True)
        for event in second.responses.retrieve(response.id, stream=True):
            if event.type == "response.output_text.delta":
                break
        started_at = time.monotonic()
        assert second.responses.cancel(response.id).status == "cancelled"
        assert upstream.cut_off.wait(5)
        assert time.monotonic() - started_at < 2
        assert second.responses.cancel(response.id) == first.responses.cancel(response.id)
    check_order(follow(replicas[0], response.id))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_when_one_dies_the_other_takes_over(
    replicas: tuple[Served, Served], upstream: Upstream, end: signal.Signals
) -> None:
    first, second = replicas
    received: list[dict[str, Any]] = []
    begun = threading.Event()

    def listen() -> None:
        with sdk(second) as client:
            for event in client.responses.retrieve(response.id, stream=True):
                received.append(event.to_dict())
                if event.type == "response.output_text.delta":
                    begun.set()

    with sdk(first) as client:
        response = client.responses.create(model="slow", input="x", background=True)
    listener = threading.Thread(target=listen)
    listener.start()
    assert begun.wait(20)
    first.process.send_signal(end)
    listener.join(60)
    assert not listener.is_alive(), "the stream continues on the other server"
    check_order(received)
    final = received[-1]["response"]
    assert final["status"] == "completed"
    assert final["output"][-1]["content"][0]["text"] == SLOW_TEXT
    assert follow(second, response.id) == received
