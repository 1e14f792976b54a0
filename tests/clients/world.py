"""The server of the client tests: a real `antiphon serve` process, with a scripted upstream and the embedded
model.
"""

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
    """The server under test and its upstream."""

    server: Served
    upstream: Upstream

    def run(self, program: Running, scenario: Scenario) -> None:
        """Run the scenario in the program, and check its outcome."""
        before = len(self.upstream.requests)
        result = program.run(scenario.name, self.server.base_url, **scenario.params)
        scenario.check(result, Seen(self.upstream.requests[before:], self.get))

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        """The status and the body of a GET request."""
        try:
            with urllib.request.urlopen(self.server.base_url + path, timeout=30) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


@contextmanager
def run_world(folder: Path) -> Generator[World, None, None]:
    """Run all servers until the end of the block."""
    with run_upstream() as upstream:
        config = CONFIG.format(url=upstream.url, models=json.dumps(MODELS))
        (folder / "antiphon.toml").write_text(config)
        with run_server(folder) as server:
            yield World(server, upstream)
