"""Faults during uploads: clients that go away, processes that die, full disks. Nothing half stored stays."""

import os
import resource
import socket
import sqlite3
import time
from collections.abc import Callable, Generator
from pathlib import Path

import httpx2
import pytest

from tests.postgres import PostgresServer
from tests.serving import Served, run_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults")]

MEGABYTE = 2**20
WAIT_SECONDS = 20.0
HEAD = (
    b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
)


@pytest.fixture
def served(tmp_path: Path) -> Generator[Served, None, None]:
    with run_server(tmp_path, "--upstream", "http://127.0.0.1:9/v1") as running:
        yield running


def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "antiphon" / "antiphon.db-files"


def stored(tmp_path: Path) -> list[Path]:
    return [path for path in folder(tmp_path).rglob("*") if path.is_file()]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def recorded(tmp_path: Path) -> int:
    """How many objects upkeep will delete."""
    with sqlite3.connect(tmp_path / "data" / "antiphon" / "antiphon.db") as connection:
        return connection.execute("SELECT count(*) FROM unreferenced_objects").fetchone()[0]


def begin_upload(served: Served, sent: int) -> socket.socket:
    """A client that announces 50 MB and sends a part of them."""
    client = socket.create_connection(("127.0.0.1", served.port))
    client.sendall(
        b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n\r\n" % (50 * MEGABYTE)
    )
    client.sendall(HEAD + os.urandom(sent))
    return client


def upload(served: Served, content: bytes) -> httpx2.Response:
    form = {"purpose": "user_data"}
    return httpx2.post(
        f"{served.base_url}/files", data=form, files={"file": ("a.bin", content)}, timeout=WAIT_SECONDS
    )


def listed(served: Served) -> list[str]:
    return [file["id"] for file in httpx2.get(f"{served.base_url}/files").json()["data"]]


@pytest.mark.requirement("FILES/files-interrupted")
def test_a_client_that_goes_away_leaves_nothing(served: Served, tmp_path: Path) -> None:
    client = begin_upload(served, 5 * MEGABYTE)
    wait_for(lambda: len(stored(tmp_path)) == 1)
    client.close()
    wait_for(lambda: stored(tmp_path) == [])
    wait_for(lambda: recorded(tmp_path) == 0)
    assert listed(served) == []


def test_a_client_that_stops_sending_is_disconnected(tmp_path: Path) -> None:
    environment = {"ANTIPHON_SERVER__BODY_TIMEOUT": "1"}
    with run_server(tmp_path, "--upstream", "http://127.0.0.1:9/v1", environment=environment) as served:
        with begin_upload(served, 0) as client:
            client.settimeout(WAIT_SECONDS)
            assert client.recv(1000).startswith(b"HTTP/1.1 408 ")
        wait_for(lambda: stored(tmp_path) == [])
        assert recorded(tmp_path) == 0


def test_a_killed_server_leaves_what_upkeep_finds(served: Served, tmp_path: Path) -> None:
    file = upload(served, b"complete").json()
    client = begin_upload(served, 5 * MEGABYTE)
    wait_for(lambda: len(stored(tmp_path)) == 2)
    served.process.kill()
    served.process.wait(WAIT_SECONDS)
    client.close()
    assert recorded(tmp_path) == 1
    with run_server(tmp_path, "--upstream", "http://127.0.0.1:9/v1") as again:
        assert listed(again) == [file["id"]]
        content = httpx2.get(f"{again.base_url}/files/{file['id']}/content")
        assert content.content == b"complete"


@pytest.mark.requirement("FILES/files-disk-full")
def test_a_full_disk_is_a_507_and_nothing_is_half_stored(served: Served, tmp_path: Path) -> None:
    """The limit of the process for the size of files stands for the disk: writes fail at the same places."""
    kept = upload(served, os.urandom(MEGABYTE)).json()
    pid, unlimited = served.process.pid, resource.RLIM_INFINITY
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (8 * MEGABYTE, unlimited))
    answer = upload(served, os.urandom(20 * MEGABYTE))
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "store_full")
    assert len(stored(tmp_path)) == 1
    assert recorded(tmp_path) == 0
    assert listed(served) == [kept["id"]]
    assert len(httpx2.get(f"{served.base_url}/files/{kept['id']}/content").content) == MEGABYTE
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
    assert upload(served, os.urandom(20 * MEGABYTE)).status_code == 200


@pytest.mark.requirement("FILES/files-memory")
def test_a_large_upload_costs_little_memory_and_others_are_served(served: Served) -> None:
    upload(served, b"warm")
    before = served.memory_mb()
    block, peak = os.urandom(MEGABYTE), 0.0
    client = begin_upload(served, 0)
    for _ in range(48):
        client.sendall(block)
        peak = max(peak, served.memory_mb())
    assert httpx2.get(f"http://127.0.0.1:{served.port}/healthz").status_code == 200
    client.close()
    assert peak - before < 20


def test_a_client_that_leaves_during_a_download_ends_it(served: Served) -> None:
    file = upload(served, os.urandom(40 * MEGABYTE)).json()
    with httpx2.stream("GET", f"{served.base_url}/files/{file['id']}/content") as answer:
        next(answer.iter_raw())
        wait_for(lambda: open_objects(served) == 1)
    wait_for(lambda: open_objects(served) == 0)


def open_objects(served: Served) -> int:
    """The objects that the server has open."""
    folder = Path(f"/proc/{served.process.pid}/fd")
    targets = [os.readlink(path) for path in folder.iterdir() if path.is_symlink()]
    return sum("antiphon.db-files" in target for target in targets)


def test_replicas_share_files_through_the_database(postgres: PostgresServer, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for path in folders:
        path.mkdir()
    content = os.urandom(3 * MEGABYTE)
    with postgres.database() as url:
        options = ("--store", url, "--upstream", "http://127.0.0.1:9/v1")
        environment = {"ANTIPHON_SEAL__KEY": "shared"}
        with (
            run_server(folders[0], *options, environment=environment) as one,
            run_server(folders[1], *options, environment=environment) as two,
        ):
            file = upload(one, content).json()
            assert httpx2.get(f"{two.base_url}/files/{file['id']}/content").content == content
            assert httpx2.delete(f"{two.base_url}/files/{file['id']}").status_code == 200
            assert listed(one) == []
        left = postgres.execute("SELECT count(*) FROM object_pieces", url)
        assert int(left) == 0
