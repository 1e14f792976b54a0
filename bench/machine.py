"""What the numbers were taken on: no names, no paths, only what changes them."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

NAMES = {"antiphon": "Antiphon", "nginx": "nginx", "litellm": "LiteLLM", "agentic": "agentic-api"}


def processor() -> str:
    """The model of the processor, as far as the system tells."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def describe(versions: Mapping[str, str]) -> str:
    """One sentence about the machine and the versions of the contenders."""
    gateways = ", ".join(
        f"{NAMES.get(name, name)} {version}" for name, version in versions.items() if version
    )
    python = platform.python_version()
    return f"{os.cpu_count()} cores ({processor()}), Linux, Python {python}; {gateways or 'no gateway'}."
