"""Tools of an agent whose server is killed: one with side effects, one without.

NOTES names the file. DIES_IN_TOOL kills the process in `write_line`: `before` or `after` the line.
"""

import os
import signal
from pathlib import Path

from antiphon.orchestrator.tool import ServerTool


def write_line(text: str) -> str:
    """Write a line."""
    dies = os.environ.get("DIES_IN_TOOL")
    if dies == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    with _notes().open("a") as file:
        file.write(f"{text}\n")
    if dies == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return "written"


def read_lines() -> str:
    """Read all lines."""
    return " ".join(_notes().read_text().split()) if _notes().exists() else "nothing"


def _notes() -> Path:
    return Path(os.environ["NOTES"])


TOOLS = [ServerTool.from_function(write_line), ServerTool.from_function(read_lines, side_effects=False)]
