"""PostgreSQL outages under a running server: no response is reported that is not stored, and no restart is
needed.
"""

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
"""Seconds until a request is rejected. It is usually far less, except on a loaded machine."""
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
    """A context without the database."""
    postgres.stop()
    try:
        yield
    finally:
        postgres.start()


def test_without_its_database_a_server_rejects_stored_requests_and_serves_others(
    postgres: PostgresServer, database: str, upstream: Upstream, tmp_path: Path
) -> None:
    with serve(tmp_path, database, upstream) as served, sdk(served) as client:
        before = client.responses.create(model="echo", input="before")
        with away(postgres):
            for background in (False, True, False):
                started_at = time.monotonic()
                with pytest.raises(InternalServerError) as refused:
                    client.responses.create(model="echo", input="x", background=background)
                assert time.monotonic() - started_at < REFUSED_WITHIN
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
        listener.wait_for_delta()
        with away(postgres):
            upstream.gate.set()
            wait_for_log(served, "waits for the database")
        received = listener.to_the_end()
        check_order(received)
        assert received[-1]["type"] == "response.completed"
        with sdk(served) as client:
            assert (
                client.responses.retrieve(received[-1]["response"]["id"]).to_dict()
                == received[-1]["response"]
            )


def test_a_stream_whose_response_cannot_be_stored_fails(
    postgres: PostgresServer, database: str, upstream: Upstream, tmp_path: Path
) -> None:
    with serve(tmp_path, database, upstream, patience=1) as served:
        listener = listen_to_new(served, "gated")
        listener.wait_for_delta()
        with away(postgres):
            upstream.gate.set()
            received = listener.to_the_end()
        check_order(received)
        final = received[-1]["response"]
        assert (received[-1]["type"], final["error"]["code"]) == ("response.failed", "server_error")
        with sdk(served, retries=RETRIES) as client, pytest.raises(NotFoundError):
            client.responses.retrieve(final["id"])


def test_a_background_response_and_its_followers_outlive_an_outage(
    postgres: PostgresServer, database: str, upstream: Upstream, tmp_path: Path
) -> None:
    with serve(tmp_path, database, upstream) as served, sdk(served, retries=RETRIES) as client:
        response = client.responses.create(model="gated", input="x", background=True)
        listener = listen_to_background(served, response.id)
        listener.wait_for_delta()
        with away(postgres):
            upstream.gate.set()
            wait_for_log(served, "waits for the database")
        received = listener.to_the_end()
        check_order(received)
        assert received[-1]["type"] == "response.completed"
        assert received[-1]["response"]["output"][0]["content"][0]["text"] == "Well, x"
        assert client.responses.retrieve(response.id).to_dict() == received[-1]["response"]
        second_run = client.responses.create(model="slow", input="x", background=True)
        assert follow(served, second_run.id)[-1]["type"] == "response.completed"
