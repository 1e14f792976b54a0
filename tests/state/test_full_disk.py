"""The disk of an SQLite store fills up: stored responses stay readable, and writes succeed again once there
is space.
"""

import os
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from openai import APIStatusError, NotFoundError

from tests.serving import Served, free_port, wait_until_ready
from tests.state.listener import TEST_TIMEOUT_SECONDS, listen_to_background, listen_to_new, sdk, wait_for_log
from tests.turn.order import check_order
from tests.upstream import Upstream, run_upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults")]

MUCH = "x" * 200_000
"""More than fits into the free rest of the last pages."""
RETRIES = 10


@pytest.fixture
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


@dataclass(frozen=True)
class Disk:
    """The disk space of a server's store."""

    switch: Path

    def fill(self) -> None:
        self.switch.touch()

    def make_room(self) -> None:
        self.switch.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "full")


@pytest.fixture
def served(disk: Disk, upstream: Upstream, tmp_path: Path) -> Generator[Served, None, None]:
    port, log = free_port(), tmp_path / "server.log"
    command = [sys.executable, "-m", "tests.state.filling_server", str(disk.switch), str(port)]
    command += [f"sqlite:{tmp_path}/antiphon.db", upstream.url]
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")}
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, text=True, env=environment)
    try:
        wait_until_ready(process, port, log)
        yield Served(process, port, log)
    finally:
        process.kill()
        process.wait(TEST_TIMEOUT_SECONDS)


def test_only_requests_that_need_disk_space_are_rejected(served: Served, disk: Disk) -> None:
    with sdk(served) as client:
        before = client.responses.create(model="echo", input="before")
        disk.fill()
        for _ in range(2):  # the first one detects it, the next one is rejected at once
            with pytest.raises(APIStatusError) as refused:
                client.responses.create(model="echo", input=MUCH)
            assert (refused.value.status_code, refused.value.code) == (507, "store_full")
        assert client.responses.retrieve(before.id) == before
        assert client.responses.create(model="echo", input=MUCH, store=False).status == "completed"
        disk.make_room()
    with sdk(served, retries=RETRIES) as client:
        after = client.responses.create(model="echo", input=MUCH, previous_response_id=before.id)
        assert client.responses.retrieve(after.id) == after


def test_a_stream_that_finds_no_room_fails(served: Served, disk: Disk) -> None:
    disk.fill()
    received = listen_to_new(served, "echo", MUCH).to_the_end()
    check_order(received)
    assert [event["type"] for event in received[-2:]] == ["error", "response.failed"]
    assert received[-2]["error"]["code"] == "store_full"
    with sdk(served) as client, pytest.raises(NotFoundError):
        client.responses.retrieve(received[-1]["response"]["id"])


def test_a_background_response_waits_for_room(served: Served, disk: Disk, upstream: Upstream) -> None:
    with sdk(served) as client:
        response = client.responses.create(model="gated", input=MUCH, background=True)
        listener = listen_to_background(served, response.id)
        listener.wait_for_delta()
        disk.fill()
        upstream.gate.set()
        wait_for_log(served, "waits for the database")
        assert client.responses.retrieve(response.id).status == "in_progress"
        disk.make_room()
        received = listener.to_the_end()
        check_order(received)
        assert received[-1]["response"] == client.responses.retrieve(response.id).to_dict()
        assert received[-1]["type"] == "response.completed"
