"""The wall clock of a server jumps by a day while it works: nothing expires, nothing is lost or done twice."""

import time
from collections.abc import Generator
from pathlib import Path

import pytest
from openai import BadRequestError

from tests.faketime import MovedClock, faketime_library
from tests.postgres import PostgresServer
from tests.required import CLOCK_REQUIRED, skip_unless_required
from tests.serving import Served, run_server
from tests.state.listener import follow, listen_to_background, listen_to_new, sdk
from tests.turn.order import check_order
from tests.upstream import Upstream, run_upstream

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("clock"),
]

DAY_SECONDS = 24 * 3600
LEASE_SECONDS = 1.0
SETTINGS = {"ANTIPHON_BACKGROUND__LEASE": str(LEASE_SECONDS), "ANTIPHON_SEAL__KEY": "k"}


@pytest.fixture
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@pytest.fixture
def clock(tmp_path: Path) -> MovedClock:
    library = faketime_library()
    if library is None:
        skip_unless_required(CLOCK_REQUIRED, "needs libfaketime: apt-get install libfaketime")
    return MovedClock(library, tmp_path / "clock")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str, None, None]:
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path}/clock.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with server.database() as url:
        yield url


@pytest.fixture
def served(
    store: str, clock: MovedClock, upstream: Upstream, tmp_path: Path
) -> Generator[Served, None, None]:
    environment = {**SETTINGS, **clock.environment}
    with run_server(
        tmp_path, "--store", store, "--upstream", upstream.url, environment=environment
    ) as running:
        yield running


def wait_for_leases() -> None:
    """Long enough for leases to lapse, if the jump affected them."""
    time.sleep(2.5 * LEASE_SECONDS)


def test_the_clock_of_the_server_is_moved(served: Served, clock: MovedClock) -> None:
    clock.move(DAY_SECONDS)
    with sdk(served) as client:
        ahead = client.responses.create(model="echo", input="x").created_at - time.time()
    assert ahead == pytest.approx(DAY_SECONDS, abs=60)


@pytest.mark.parametrize("days", [1, -1])
def test_running_work_outlives_a_jump(
    served: Served, clock: MovedClock, upstream: Upstream, days: int
) -> None:
    with sdk(served) as client:
        earlier = client.responses.create(model="transcript", input="before the jump")
        talk = client.conversations.create()
        background = client.responses.create(model="gated", input="background", background=True)
        within = client.responses.create(
            model="gated", input="in a conversation", background=True, conversation=talk.id
        )
        listeners = [listen_to_background(served, each.id) for each in (background, within)]
        listeners.append(listen_to_new(served, "gated", "foreground"))
        for listener in listeners:
            listener.wait_for_delta()
        clock.move(days * DAY_SECONDS)
        with pytest.raises(BadRequestError, match="Another response is being made"):
            client.responses.create(model="echo", input="x", conversation=talk.id)
        wait_for_leases()
        assert client.responses.retrieve(background.id).status == "in_progress"
        clock.move(0)
        wait_for_leases()
        upstream.gate.set()
        for listener in listeners:
            received = listener.to_the_end()
            check_order(received)
            assert received[-1]["type"] == "response.completed"
        going_on = client.responses.create(
            model="transcript", input="after it", previous_response_id=earlier.id
        )
        assert "before the jump" in going_on.output_text
        items = client.conversations.items.list(talk.id).data
    assert len(items) == 2, "the response is in its conversation"
    assert [request["model"] for request in upstream.requests].count("gated") == 3, "none was repeated"


@pytest.mark.parametrize("days", [1, -1])
def test_work_that_begins_after_a_jump_is_done(
    served: Served, clock: MovedClock, upstream: Upstream, days: int
) -> None:
    upstream.gate.set()
    with sdk(served) as client:
        first = client.responses.create(model="gated", input="one", background=True)
        assert follow(served, first.id)[-1]["type"] == "response.completed"
        clock.move(days * DAY_SECONDS)
        second = client.responses.create(
            model="gated", input="two", background=True, previous_response_id=first.id
        )
        assert follow(served, second.id)[-1]["type"] == "response.completed"
        assert client.responses.retrieve(first.id).status == "completed"


@pytest.mark.parametrize("days", [1, -1])
def test_replicas_with_different_clocks_do_not_take_over_from_each_other(
    postgres: PostgresServer, clock: MovedClock, upstream: Upstream, tmp_path: Path, days: int
) -> None:
    clock.move(days * DAY_SECONDS)
    for name in ("true", "moved"):
        (tmp_path / name).mkdir()
    with postgres.database() as url:
        options = ("--store", url, "--upstream", upstream.url)
        moved = {**SETTINGS, **clock.environment}
        with (
            run_server(tmp_path / "true", *options, environment=SETTINGS) as first,
            run_server(tmp_path / "moved", *options, environment=moved) as second,
        ):
            for served, other in ((first, second), (second, first)):
                with sdk(served) as client:
                    created = client.responses.create(model="gated", input="x", background=True)
                listener = listen_to_background(other, created.id)
                listener.wait_for_delta()
                wait_for_leases()
                upstream.gate.set()
                received = listener.to_the_end()
                upstream.gate.clear()
                check_order(received)
                assert received[-1]["type"] == "response.completed"
    assert [request["model"] for request in upstream.requests].count("gated") == 2, "none was repeated"
