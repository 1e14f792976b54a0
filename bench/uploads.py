"""Measure uploads of files: speed, memory of the server, and how long other requests wait meanwhile.

python -m bench.uploads [--megabytes 512] [--store URL] [--files URL]

The server is a process of its own, all traffic is on loopback. By default its files are in a folder beside an
SQLite file.
"""

import argparse
import http.client
import os
import socket
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import msgspec
from tests.serving import Served, run_server

from bench.procfs import process_seconds, resident_mb

MEGABYTE = 2**20
BOUNDARY = "bench-boundary"
PROBE_SECONDS = 0.01
HEAD = (
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
    f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="bench.bin"\r\n'
    "Content-Type: application/octet-stream\r\n\r\n"
).encode()
TAIL = f"\r\n--{BOUNDARY}--\r\n".encode()


class Probe:
    """Asks for `/healthz` again and again, and samples the memory of the server."""

    def __init__(self, server: Served) -> None:
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.waits: list[float] = []
        self.memory: list[float] = []

    def __enter__(self) -> "Probe":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port)
        while not self._stop.wait(PROBE_SECONDS):
            begin = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            self.waits.append(time.perf_counter() - begin)
            self.memory.append(resident_mb(self._server.process.pid))

    def report(self) -> str:
        """The worst of what it saw."""
        waits = sorted(self.waits)
        return (
            f"memory +{max(self.memory) - self.memory[0]:.1f} MB; "
            f"healthz p50 {median(waits) * 1e3:.1f} ms, p99 {waits[int(len(waits) * 0.99)] * 1e3:.1f} ms, "
            f"max {waits[-1] * 1e3:.1f} ms"
        )


def upload(server: Served, megabytes: int) -> str:
    """Send a file of random bytes; its id."""
    block = os.urandom(MEGABYTE)
    length = len(HEAD) + len(TAIL) + megabytes * MEGABYTE
    with socket.create_connection(("127.0.0.1", server.port)) as sender:
        sender.sendall(
            f"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
            f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n".encode()
        )
        sender.sendall(HEAD)
        for number in range(megabytes):
            sender.sendall(number.to_bytes(8, "big"))  # no two blocks are equal
            sender.sendall(memoryview(block)[8:])
        sender.sendall(TAIL)
        answer = http.client.HTTPResponse(sender)
        answer.begin()
        body = answer.read()
    assert answer.status == 200, body
    return msgspec.json.decode(body)["id"]


def download(server: Served, file_id: str) -> int:
    """Read the content; its size."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", f"/v1/files/{file_id}/content")
    answer, size = connection.getresponse(), 0
    while piece := answer.read(MEGABYTE):
        size += len(piece)
    return size


def measure(server: Served, megabytes: int) -> None:
    """One upload and one download, with a probe beside each."""
    upload(server, 1)
    cpu, begin = process_seconds(server.process.pid), time.perf_counter()
    with Probe(server) as probe:
        file_id = upload(server, megabytes)
        seconds = time.perf_counter() - begin
    cpu = process_seconds(server.process.pid) - cpu
    print(
        f"upload   {megabytes} MB: {megabytes / seconds:,.0f} MB/s, {cpu / megabytes * 1e3:.1f} ms CPU/MB; "
        + probe.report()
    )
    begin = time.perf_counter()
    with Probe(server) as probe:
        assert download(server, file_id) == megabytes * MEGABYTE
        seconds = time.perf_counter() - begin
    print(f"download {megabytes} MB: {megabytes / seconds:,.0f} MB/s; {probe.report()}")


def main() -> None:
    """Start a server and measure it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--store", help="where the rows are (default: an SQLite file)")
    parser.add_argument("--files", default="", help="as files.url")
    options = parser.parse_args()
    arguments = ["--store", options.store] if options.store else []
    with (
        tempfile.TemporaryDirectory() as folder,
        run_server(
            Path(folder),
            *("--upstream", "http://127.0.0.1:9/v1", *arguments),
            environment={"ANTIPHON_FILES__URL": options.files},
        ) as server,
    ):
        measure(server, options.megabytes)


if __name__ == "__main__":
    main()
