"""kill -9 at every write to the database: no acknowledged response is lost, and no event is sent twice.

A client creates a response, continues it, and creates one in the background. The server is killed at its
n-th write, for every n until the client finishes; then a new server starts on the same file.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from openai import APIError, OpenAI

from tests.serving import free_port, run_server, wait_until_ready
from tests.turn.order import check_order
from tests.upstream import Upstream, run_upstream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("crash")]

KILLS = [*range(1, 9), *range(9, 60, 3)]
"""The writes to die at. Every write of a response's beginning and end, and a sample of the many between,
which are alike. The test ends when the server survives, because the client causes no more writes.
"""


@pytest.fixture(scope="module")
def upstream() -> Generator[Upstream, None, None]:
    with run_upstream() as running:
        yield running


class Client:
    """Acknowledged results must be preserved; unacknowledged ones may have happened or not."""

    def __init__(self) -> None:
        self.acknowledged: list[Any] = []
        self.submitted: Any = None
        self.received: list[dict[str, Any]] = []

    def go(self, base_url: str) -> bool:
        """All steps in order; False if the server died meanwhile."""
        client = OpenAI(base_url=base_url, api_key="-", max_retries=0, timeout=30)
        try:
            first = client.responses.create(model="transcript", input="one")
            self.acknowledged.append(first)
            second = client.responses.create(model="transcript", input="two", previous_response_id=first.id)
            self.acknowledged.append(second)
            self.submitted = client.responses.create(model="slow", input="three", background=True)
            for event in client.responses.retrieve(self.submitted.id, stream=True):
                self.received.append(event.to_dict())
        except APIError:
            return False
        finally:
            client.close()
        return True


def test_a_kill_at_any_write_loses_nothing(upstream: Upstream, tmp_path: Path) -> None:
    for number in KILLS:
        folder = tmp_path / str(number)
        folder.mkdir()
        client = Client()
        if not die(client, folder, number, "before" if number % 2 else "after", upstream):
            assert number > 8, "the server was killed at least so often"
            return
        check(client, folder, upstream)
    raise AssertionError("the server never survived")


def die(client: Client, folder: Path, number: int, when: str, upstream: Upstream) -> bool:
    """Run a server until its n-th write; False if it was not killed."""
    port = free_port()
    command = [sys.executable, "-m", "tests.state.dying_server", str(number), when, str(port)]
    command += [f"sqlite:{folder}/antiphon.db", upstream.url]
    log = folder / "dying.log"
    environment = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, text=True, env=environment)
    try:
        try:
            wait_until_ready(process, port, log)
        except AssertionError:
            assert process.returncode == -9, log.read_text()
            return True
        survived = client.go(f"http://127.0.0.1:{port}/v1")
        return not survived
    finally:
        process.kill()
        process.wait(10)


def check(client: Client, folder: Path, upstream: Upstream) -> None:
    """A new server on the same file has everything that the client received."""
    with run_server(folder, "--store", f"sqlite:{folder}/antiphon.db", "--upstream", upstream.url) as served:
        sdk = OpenAI(base_url=served.base_url, api_key="-", max_retries=0, timeout=30)
        for response in client.acknowledged:
            assert sdk.responses.retrieve(response.id) == response
        if client.acknowledged:
            last = client.acknowledged[-1]
            going_on = sdk.responses.create(model="transcript", input="more", previous_response_id=last.id)
            history = json.loads(going_on.output_text)
            assert history == [*json.loads(last.output_text), last.output_text, "more"]
        if client.submitted is not None:
            check_background(sdk, client)
        sdk.close()


def check_background(sdk: OpenAI, client: Client) -> None:
    started = time.monotonic()
    events = [event.to_dict() for event in sdk.responses.retrieve(client.submitted.id, stream=True)]
    assert time.monotonic() - started < 20, "it resumed within seconds"
    check_order(events)
    assert events[: len(client.received)] == client.received, "the events are the same as before"
    final = sdk.responses.retrieve(client.submitted.id)
    assert final.status == "completed"
    assert final.to_dict() == events[-1]["response"]
    assert final.output[-1].content[0].text == "".join(f"w{number} " for number in range(12))  # type: ignore[union-attr]
    ids = [item.id for item in final.output]
    assert len(set(ids)) == len(ids), "no item twice"
