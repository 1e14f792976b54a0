"""Python, the packages, and the folder where things are kept."""

import platform
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from antiphon import __version__
from antiphon.cli.checks.base import Check, doubtful, failed, passed

PACKAGES = ("click", "cryptography", "httptools", "jsonschema-rs", "msgspec", "rich", "uvicorn")
"""What every installation has; the engine of the embedded model is checked with that."""


def check_python() -> Check:
    """Which Python runs us."""
    return passed(
        "python", f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}"
    )


def check_packages() -> Check:
    """Which versions are installed."""
    found = {name: _version(name) for name in PACKAGES}
    lost = [name for name, number in found.items() if number is None]
    text = ", ".join(
        [f"antiphon {__version__}", *(f"{name} {number}" for name, number in found.items() if number)]
    )
    if lost:
        return failed("packages", f"{text}; missing: {', '.join(lost)}", "Install antiphon again.")
    return passed("packages", text)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_folder(name: str, folder: Path) -> Check:
    """Whether we can write there. A folder that is not there yet is not made for this."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        advice = f"Make {nearest} writable for this user, or set HOME or XDG_DATA_HOME to a folder that is."
        return failed(name, f"{folder}: {error.strerror}", advice)
    return passed(name, str(folder) if nearest == folder else f"{folder} (will be made)")


def check_terminal(encoding: str) -> Check | None:
    """Whether answers in any language can be printed; nothing to say if they can."""
    if encoding.lower().replace("-", "") == "utf8":
        return None
    return doubtful("terminal", f"encoding {encoding}", "Set LANG to a UTF-8 locale, or PYTHONUTF8=1.")
