"""What the clients talk to: a real `antiphon serve` process, before a scripted upstream and the embedded model."""

import json
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.programs import Running
from tests.clients.scenarios import MODELS, Scenario, Seen
from tests.serving import Served, run_server
from tests.upstream import Upstream, run_upstream

CONFIG = """
[server]
log_level = "warning"

[local]
enabled = true

[[upstreams]]
kind = "vllm"
base_url = "{url}"
models = {models}
"""


@dataclass(frozen=True)
class World:
    """The server under test and the model behind it."""

    server: Served
    upstream: Upstream

    def run(self, program: Running, scenario: Scenario) -> None:
        """Ask the program for the scenario, and look at what came of it."""
        before = len(self.upstream.requests)
        result = program.ask(scenario.name, self.server.base_url, **scenario.asks)
        scenario.check(result, Seen(self.upstream.requests[before:], self.get))

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        """The status and the body."""
        try:
            with urllib.request.urlopen(self.server.base_url + path, timeout=30) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


@contextmanager
def run_world(folder: Path) -> Generator[World, None, None]:
    """Everything, until the end of the block."""
    with run_upstream() as upstream:
        config = CONFIG.format(url=upstream.url, models=json.dumps(MODELS))
        (folder / "antiphon.toml").write_text(config)
        with run_server(folder) as server:
            yield World(server, upstream)
