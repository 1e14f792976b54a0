"""PostgreSQL goes away under a server and comes back: nothing is told that is not stored, nothing is restarted."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from openai import InternalServerError, NotFoundError

from tests.postgres import PostgresServer
from tests.serving import Served, run_server
from tests.state.listener import follow, listen_to_background, listen_to_new, sdk, wait_for_log
from tests.turn.order import check_order
from tests.upstream import Upstream, run_upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults")]

REFUSED_WITHIN = 5.0
"""Seconds until a request is refused. It is far less; a loaded machine may take its time."""
RETRIES = 10


@pytest.fixture
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@pytest.fixture
def database(postgres: PostgresServer) -> Generator[str, None, None]:
    with postgres.database() as url:
        yield url


@contextmanager
def serve(
    folder: Path, database: str, upstream: Upstream, patience: float = 30
) -> Generator[Served, None, None]:
    settings = {"ANTIPHON_SEAL__KEY": "k", "ANTIPHON_STORE__PATIENCE": str(patience)}
    options = ("--store", database, "--upstream", upstream.url)
    with run_server(folder, *options, environment=settings) as served:
        yield served


@contextmanager
def away(postgres: PostgresServer) -> Generator[None, None, None]:
    """While this lasts, there is no database."""
    postgres.stop()
    try:
        yield
    finally:
        postgres.start()


def test_without_its_database_a_server_refuses_what_is_to_be_stored_and_serves_the_rest(
    postgres: PostgresServer, database: str, upstream: Upstream, tmp_path: Path
) -> None:
    with serve(tmp_path, database, upstream) as served, sdk(served) as client:
        before = client.responses.create(model="echo", input="before")
        with away(postgres):
            for background in (False, True, False):
                asked = time.monotonic()
                with pytest.raises(InternalServerError) as refused:
                    client.responses.create(model="echo", input="x", background=background)
                assert time.monotonic() - asked < REFUSED_WITHIN
                assert refused.value.status_code == 503
                assert refused.value.code == "store_unavailable"
                assert int(refused.value.response.headers["retry-after"]) >= 1
            with pytest.raises(InternalServerError, match="database"):
                client.responses.retrieve(before.id)
            assert client.responses.create(model="echo", input="x", store=False).status == "completed"
        with sdk(served, retries=RETRIES) as patient:
            after = patient.responses.create(model="echo", input="after", previous_response_id=before.id)
            assert patient.responses.retrieve(after.id) == after
            assert patient.responses.retrieve(before.id) == before


def test_a_stream_outlives_an_outage_and_ends_when_its_response_is_stored(
    postgres: PostgresServer, database: str, upstream: Upstream, tmp_path: Path
) -> None:
    with serve(tmp_path, database, upstream) as served:
        listener = listen_to_new(served, "gated")
        listener.wait_for_a_word()
        with away(postgres):
            upstream.gate.set()
            wait_for_log(served, "waits for the database")
        heard = listener.to_the_end()
        check_order(heard)
        assert heard[-1]["type"] == "response.completed"
        with sdk(served) as client:
            assert client.responses.retrieve(heard[-1]["response"]["id"]).to_dict() == heard[-1]["response"]


def test_a_stream_whose_response_cannot_be_stored_fails(
    postgres: PostgresServer, database: str, upstream: Upstream, tmp_path: Path
) -> None:
    with serve(tmp_path, database, upstream, patience=1) as served:
        listener = listen_to_new(served, "gated")
        listener.wait_for_a_word()
        with away(postgres):
            upstream.gate.set()
            heard = listener.to_the_end()
        check_order(heard)
        final = heard[-1]["response"]
        assert (heard[-1]["type"], final["error"]["code"]) == ("response.failed", "server_error")
        with sdk(served, retries=RETRIES) as client, pytest.raises(NotFoundError):
            client.responses.retrieve(final["id"])


def test_a_background_response_and_its_followers_outlive_an_outage(
    postgres: PostgresServer, database: str, upstream: Upstream, tmp_path: Path
) -> None:
    with serve(tmp_path, database, upstream) as served, sdk(served, retries=RETRIES) as client:
        response = client.responses.create(model="gated", input="x", background=True)
        listener = listen_to_background(served, response.id)
        listener.wait_for_a_word()
        with away(postgres):
            upstream.gate.set()
            wait_for_log(served, "waits for the database")
        heard = listener.to_the_end()
        check_order(heard)
        assert heard[-1]["type"] == "response.completed"
        assert heard[-1]["response"]["output"][0]["content"][0]["text"] == "Well, x"
        assert client.responses.retrieve(response.id).to_dict() == heard[-1]["response"]
        another = client.responses.create(model="slow", input="x", background=True)
        assert follow(served, another.id)[-1]["type"] == "response.completed"
