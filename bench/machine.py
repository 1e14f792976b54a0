"""A description of the machine: its properties that affect the numbers, without names and paths."""

import os
import platform
import sysconfig
from collections.abc import Mapping
from pathlib import Path

NAMES = {"antiphon": "Antiphon", "nginx": "nginx", "litellm": "LiteLLM", "agentic": "agentic-api"}


def processor() -> str:
    """The model of the processor, if the system reports it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def python_build() -> str:
    """The version of Python and its compiler options, which change times by a fifth."""
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    names = {"--enable-optimizations": "profile-guided", "--with-lto": "link-time optimised"}
    optimised = [name for option, name in names.items() if option in options] or ["no profile, no LTO"]
    flags = str(sysconfig.get_config_var("OPT") or "").split()
    level = [flag for flag in flags if flag.startswith("-O")]
    return f"Python {platform.python_version()} ({', '.join([*level, *optimised])})"


def describe(versions: Mapping[str, str]) -> str:
    """One sentence about the machine and the versions of the contenders."""
    gateways = ", ".join(
        f"{NAMES.get(name, name)} {version}" for name, version in versions.items() if version
    )
    return f"{os.cpu_count()} cores ({processor()}), Linux, {python_build()}; {gateways or 'no gateway'}."
