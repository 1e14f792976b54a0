"""Processes that share a store, stop, freeze and end: ownership of jobs, and the remaining state."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from openai import InternalServerError

from tests.postgres import PostgresServer
from tests.serving import Served, run_server
from tests.state.listener import TEST_TIMEOUT_SECONDS, follow, listen_to_background, sdk
from tests.turn.order import check_order
from tests.upstream import Upstream, run_upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults")]

DRAIN = 20
SETTINGS = {"ANTIPHON_BACKGROUND__LEASE": "2", "ANTIPHON_SEAL__KEY": "k"}


@pytest.fixture
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@contextmanager
def serve(folder: Path, name: str, store: str, upstream: Upstream) -> Generator[Served, None, None]:
    home = folder / name
    home.mkdir()
    options = ("--store", store, "--upstream", upstream.url, "--drain", str(DRAIN))
    with run_server(home, *options, environment=SETTINGS) as served:
        yield served


def test_two_servers_on_one_file_answer_and_one_of_them_works_in_the_background(
    upstream: Upstream, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path}/shared.db"
    with (
        serve(tmp_path, "a", store, upstream) as first,
        serve(tmp_path, "b", store, upstream) as second,
        sdk(first) as here,
        sdk(second) as there,
    ):
        one = here.responses.create(model="transcript", input="one")
        two = there.responses.create(model="transcript", input="two", previous_response_id=one.id)
        assert here.responses.retrieve(two.id) == two
        assert there.responses.retrieve(one.id) == one
        with pytest.raises(InternalServerError, match="Another process works in the background") as refused:
            there.responses.create(model="slow", input="x", background=True)
        assert refused.value.status_code == 503
        created = here.responses.create(model="slow", input="x", background=True)
        check_order(follow(second, created.id))
        first.process.kill()
        first.process.wait(TEST_TIMEOUT_SECONDS)
        created = there.responses.create(model="slow", input="x", background=True)
        assert follow(second, created.id)[-1]["type"] == "response.completed"


def test_unfinished_work_of_a_dead_server_is_resumed_by_the_other_server_on_its_file(
    upstream: Upstream, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path}/shared.db"
    with serve(tmp_path, "a", store, upstream) as first, serve(tmp_path, "b", store, upstream) as second:
        with sdk(first) as client:
            unfinished = client.responses.create(model="gated", input="x", background=True)
        listener = listen_to_background(second, unfinished.id)
        listener.wait_for_delta()
        first.process.kill()
        first.process.wait(TEST_TIMEOUT_SECONDS)
        upstream.gate.set()
        received = listener.to_the_end()
        check_order(received)
        assert received[-1]["type"] == "response.completed"


def test_a_stopped_server_leaves_its_work_to_the_next_start(upstream: Upstream, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/antiphon.db"
    with serve(tmp_path, "a", store, upstream) as served:
        with sdk(served) as client:
            response = client.responses.create(model="gated", input="x", background=True)
            for event in client.responses.retrieve(response.id, stream=True):
                if event.type == "response.output_text.delta":
                    break
        assert served.stop(limit=DRAIN) == 0, "background work does not hold up the drain"
    upstream.gate.set()
    with serve(tmp_path, "b", store, upstream) as served:
        received = follow(served, response.id)
        check_order(received)
        assert received[-1]["type"] == "response.completed"
        with sdk(served) as client:
            assert client.responses.retrieve(response.id).to_dict() == received[-1]["response"]


def worker_first(
    postgres: PostgresServer, store: str, response_id: str, servers: tuple[Served, Served]
) -> tuple[Served, Served]:
    """The server that works on a response, and the other one: the first to claim it runs it."""
    owner = postgres.execute(f"SELECT owner FROM responses WHERE id = '{response_id}'", store)
    here, there = servers
    return (here, there) if owner.split(":")[1] == str(here.process.pid) else (there, here)


def test_a_frozen_server_writes_no_more_once_it_is_replaced(
    postgres: PostgresServer, upstream: Upstream, tmp_path: Path
) -> None:
    with (
        postgres.database() as store,
        serve(tmp_path, "a", store, upstream) as here,
        serve(tmp_path, "b", store, upstream) as there,
    ):
        with sdk(here) as client:
            response = client.responses.create(model="gated", input="x", background=True)
        listen_to_background(here, response.id).wait_for_delta()
        frozen, other = worker_first(postgres, store, response.id, (here, there))
        listener = listen_to_background(other, response.id)
        listener.wait_for_delta()
        frozen.process.send_signal(signal.SIGSTOP)
        listener.wait_for_delta()  # of the second attempt
        frozen.process.send_signal(signal.SIGCONT)
        upstream.gate.set()  # both attempts continue
        received = listener.to_the_end()
        check_order(received)
        assert received[-1]["type"] == "response.completed"
        assert follow(frozen, response.id) == received, "it sends the other server's events"
        with sdk(frozen) as client:
            after = client.responses.create(model="slow", input="x", background=True)
        assert follow(frozen, after.id)[-1]["type"] == "response.completed"
        assert follow(other, response.id) == received
