"""The contenders: the scripts in peers/, and the mock itself as `direct`.

A script starts one gateway in the foreground. Its environment has PORT (the port to listen on at 127.0.0.1),
UP_PORT (the port of the mock) and WORK (an empty folder). With the argument `version` it prints its version
instead, and fails if the gateway is not installed. Lines `# key: value` contain its properties; `state` is
present only if it stores responses, in WORK.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.processes import ROOT, environment
from bench.rig import HERE
from bench.scenarios import APIS, Api

PEERS = HERE / "peers"
OURS = "antiphon"
DIRECT = "direct"
FACT = re.compile(r"^# (api|health|install|state): (.+)$", re.MULTILINE)
VERSION = re.compile(r"\d+(?:\.\w+)+")


@dataclass(frozen=True)
class Contender:
    """A gateway to measure. `direct` has no script: it is the mock without a gateway."""

    name: str
    api: Api
    health: str = ""
    install: str = ""
    script: Path | None = None
    state: str = ""

    def version(self) -> str | None:
        """The installed version; None if it is not installed."""
        if self.script is None:
            return ""
        command = ["bash", str(self.script), "version"]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment({}), check=False, timeout=60, cwd=ROOT
        )
        found = VERSION.search(done.stdout)
        return found.group() if done.returncode == 0 and found else None


def read_script(script: Path) -> Contender:
    """A contender from its script."""
    facts = dict(FACT.findall(script.read_text()))
    state = facts.get("state", "")
    return Contender(script.stem, APIS[facts["api"]], facts["health"], facts["install"], script, state)


def all_contenders() -> dict[str, Contender]:
    """All contenders, Antiphon first and the mock last."""
    peers = [read_script(script) for script in sorted(PEERS.glob("*.sh"))]
    peers.sort(key=lambda peer: peer.name != OURS)
    return {peer.name: peer for peer in [*peers, Contender(DIRECT, APIS["chat"])]}
