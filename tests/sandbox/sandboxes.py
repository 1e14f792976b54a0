"""Sandboxes for tests: as the user of the tests, and, if that is root, as an ordinary user too."""

import asyncio
import os
import pickle
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from antiphon.sandbox.bubblewrap import Bubblewrap, BubblewrapSession, find_bubblewrap
from antiphon.sandbox.port import MIB, SandboxEnded, SandboxLimits
from tests.required import SANDBOX_REQUIRED, skip_unless_required

NOBODY = 65_534
SMALL = SandboxLimits(
    memory_bytes=256 * MIB, disk_bytes=8 * MIB, processes=24, run_seconds=2, output_bytes=10_000
)

Use = Callable[[BubblewrapSession], Awaitable[Any]]


def bubblewrap(python: str | None = None, uid: int | None = None) -> Bubblewrap:
    """Bubblewrap, if this machine permits its sandboxes to the user; None is the user of the tests."""
    found = find_bubblewrap(python)
    if isinstance(found, str):
        skip_unless_required(SANDBOX_REQUIRED, found)
    if (reason := why_not_permitted(uid)) is not None:
        skip_unless_required(SANDBOX_REQUIRED, reason)
    return found


@cache
def why_not_permitted(uid: int | None) -> str | None:
    """Why bubblewrap does not work on this machine, whatever Antiphon does with it."""
    program = ["bwrap", "--ro-bind", "/", "/", "--unshare-ipc", "--unshare-pid", "--unshare-net"]
    mounts = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    namespace = ["--unshare-user"] if uid is not None or os.geteuid() != 0 else []
    user: dict[str, Any] = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
    done = subprocess.run(
        [*program, *mounts, *namespace, "true"], cwd="/", capture_output=True, text=True, check=False, **user
    )
    if done.returncode == 0:
        return None
    name = "the user of the tests" if uid is None else f"an ordinary user ({uid})"
    return (
        f"bubblewrap is installed, but this machine does not permit sandboxes: {done.stderr.strip()} (as {name})."
        " Permit user namespaces (sysctl kernel.unprivileged_userns_clone=1, and on Ubuntu"
        " kernel.apparmor_restrict_unprivileged_userns=0); in a container, run it as a privileged one."
    )


def in_sandbox(user: str, use: Use, limits: SandboxLimits = SMALL) -> Any:
    """The result of `use` with a sandbox that a server of this user has started."""
    if user == "ordinary" and os.geteuid() == 0:
        return _as_nobody(use, limits)
    if user == "root" and os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    return asyncio.run(_used(bubblewrap(), use, limits))


async def _used(sandbox: Bubblewrap, use: Use, limits: SandboxLimits) -> Any:
    session = await sandbox.start(limits)
    try:
        return await use(session)
    finally:
        await session.close()


def _as_nobody(use: Use, limits: SandboxLimits) -> Any:
    """Run it in a child process that has given up root."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None or str(Path(python).resolve()).startswith("/root"):
        skip_unless_required(SANDBOX_REQUIRED, "no Python that an ordinary user can run")
    sandbox = bubblewrap(python, NOBODY)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            result: object = asyncio.run(_used(sandbox, use, limits))
        except BaseException as error:  # noqa: BLE001 -- it is raised in the parent
            result = error if isinstance(error, SandboxEnded) else RuntimeError(repr(error))
        os.write(writing, pickle.dumps(result))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        result = pickle.loads(pipe.read())
    os.waitpid(pid, 0)
    if isinstance(result, BaseException):
        raise result
    return result
