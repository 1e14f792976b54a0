"""Optional packages: the command that installs them, which depends on where Antiphon itself came from."""

import shlex
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct


class _Folder(Struct):
    editable: bool = False


class _Origin(Struct):
    """Where a package was installed from, as installers record it (PEP 610)."""

    url: str
    dir_info: _Folder | None = None


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation."""
    return _command(extra, _record())


def _command(extra: str, record: str | None) -> str:
    wanted = f"antiphon[{extra}]"
    if record is not None:
        origin = msgspec.json.decode(record, type=_Origin)
        folder = unquote(urlsplit(origin.url).path)
        if origin.dir_info is not None and origin.dir_info.editable:
            return f"make -C {shlex.quote(folder)} setup"
        wanted = f"{wanted} @ {origin.url}"
    return f"pip install {shlex.quote(wanted)}"


def _record() -> str | None:
    try:
        return distribution("antiphon").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
