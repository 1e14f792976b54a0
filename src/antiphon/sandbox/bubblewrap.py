"""Sandboxes in bubblewrap.

A sandbox has its own namespaces of processes, network, mounts and IPC, a read-only Python, a filter of
system calls, and two file systems in memory. If the server is root, the sandbox is started by root and then
becomes a user that nothing else has (`user_ids.py`): limits on the number of processes do not hold for root.
Otherwise it has a user namespace. `inside.py` is the program in the sandbox, and sets the limits.
"""

import asyncio
import json
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Literal, cast

from antiphon.memory_use import forget_measured, record_measured
from antiphon.sandbox.cores import Cores
from antiphon.sandbox.folder_use import FolderUse
from antiphon.sandbox.port import (
    SLICE_BYTES,
    CommandResult,
    RunResult,
    SandboxEnded,
    SandboxFile,
    SandboxFileError,
    SandboxLimits,
)
from antiphon.sandbox.process_tree import used_memory_bytes
from antiphon.sandbox.python_files import PythonFiles, find_python
from antiphon.sandbox.seccomp import SeccompPrograms, seccomp_programs
from antiphon.sandbox.user_ids import hold_user_id

logger = logging.getLogger(__name__)

COMMANDS = "/usr/bin:/bin"
"""The folders of the programs that commands use."""
START_SECONDS = 10.0
GRACE_SECONDS = 5.0
"""How much later than the sandbox itself the server ends a run that takes too long."""
FILE_SECONDS = 20.0
WATCH_SECONDS = 0.1
MEMORY_OF_SUPERVISOR_BYTES = 64 * 1024 * 1024
MAX_HEADER_BYTES = 1024 * 1024
_HEAD_BYTES = 8
_NOBODY = 65_534
_INSIDE = Path(__file__).with_name("inside.py")


class Bubblewrap:
    """Starts sandboxes with `bwrap`."""

    notes = ""

    def __init__(self, program: str, python: PythonFiles, seccomp: SeccompPrograms) -> None:
        self.has_shell = shutil.which("sh", path=COMMANDS) is not None
        self._program = program
        self._python = python
        self._seccomp = seccomp
        self._source = _INSIDE.read_bytes()
        self._cores = Cores()

    async def start(self, limits: SandboxLimits) -> "BubblewrapSession":
        """Start a sandbox, and wait until it answers."""
        with ExitStack() as stack:
            folders = FolderUse()
            stack.callback(folders.close)
            settings = {
                "uid": self._hold_user_id(stack),
                "cores": self._take_cores(limits.cores, stack),
                "fixed_cores": self._seccomp.fixed_cores.hex(),
                "memory_bytes": limits.memory_bytes,
                "disk_bytes": limits.disk_bytes,
                "processes": limits.processes,
                "paths": self._python.packages,
                "channel": folders.theirs.fileno(),
            }
            process = await self._start_process(settings, limits.disk_bytes)
            session = BubblewrapSession(process, limits, folders, stack.pop_all())
        try:
            async with asyncio.timeout(START_SECONDS):
                await session.files()
            folders.receive()
        except (SandboxEnded, OSError):
            reason = await session.last_error()
            raise SandboxEnded(f"the sandbox does not start: {reason}") from None
        except BaseException:
            await session.close()
            raise
        return session

    def _hold_user_id(self, stack: ExitStack) -> int | None:
        """The user id of the sandbox, if it is not that of the server."""
        if os.geteuid() != 0:
            return None
        try:
            held = hold_user_id()
        except OSError as error:
            raise SandboxEnded(str(error)) from error
        stack.callback(held.release)
        return held.uid

    def _take_cores(self, count: int, stack: ExitStack) -> tuple[int, ...]:
        taken = self._cores.take(count)
        stack.callback(self._cores.give_back, taken)
        return taken

    async def _start_process(
        self, settings: Mapping[str, Any], disk_bytes: int
    ) -> asyncio.subprocess.Process:
        seccomp, source = _data_file(self._seccomp.sandbox), _data_file(self._source)
        try:
            return await asyncio.create_subprocess_exec(
                *self._command(seccomp, source, settings, disk_bytes),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(seccomp, source, settings["channel"]),
                env={},
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxEnded(f"bubblewrap cannot be run: {error}") from error
        finally:
            os.close(seccomp)
            os.close(source)

    def _command(self, seccomp: int, source: int, settings: Mapping[str, Any], disk_bytes: int) -> list[str]:
        python, size = self._python, str(disk_bytes)
        identity = (
            ["--unshare-user", "--uid", str(_NOBODY), "--gid", str(_NOBODY), "--cap-drop", "ALL"]
            if settings["uid"] is None
            else ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        )
        return [
            *(self._program, *identity),
            *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
            *("--die-with-parent", "--new-session", "--hostname", "sandbox", "--seccomp", str(seccomp)),
            *(part for folder in _parents(python.mounts) for part in ("--perms", "0755", "--dir", folder)),
            *(part for path in python.mounts for part in _mount(path)),
            *("--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"),
            *("--perms", "0777", "--size", size, "--tmpfs", "/mnt/data"),
            *("--perms", "1777", "--size", size, "--tmpfs", "/tmp"),
            *("--perms", "0444", "--ro-bind-data", str(source), "/inside.py", "--remount-ro", "/"),
            *("--setenv", "HOME", "/tmp", "--setenv", "LANG", "C.UTF-8", "--setenv", "MPLBACKEND", "Agg"),
            *("--setenv", "LD_LIBRARY_PATH", python.libraries, "--setenv", "OPENBLAS_NUM_THREADS", "1"),
            *("--chdir", "/mnt/data", "--"),
            *(python.executable, "-I", "-S", "-X", "utf8", "/inside.py", json.dumps(settings)),
        ]


class BubblewrapSession:
    """A running sandbox."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        limits: SandboxLimits,
        folders: FolderUse,
        resources: ExitStack,
    ) -> None:
        self._process = process
        self._limits = limits
        self._folders = folders
        self._resources = resources
        self._turn = asyncio.Lock()
        self._ended: str | None = None
        self._exchanges: set[asyncio.Task[tuple[dict[str, Any], bytes]]] = set()
        assert process.stdin is not None
        assert process.stdout is not None
        self._requests, self._replies = process.stdin, process.stdout
        self._used = asyncio.Event()
        self._watching = asyncio.create_task(self._watch())

    @property
    def running(self) -> bool:
        """Whether it can be used."""
        return self._ended is None and self._process.returncode is None

    async def run(self, code: str) -> RunResult:
        """Run code."""
        limits = self._limits
        header = {"op": "run", "seconds": limits.run_seconds, "output_bytes": limits.output_bytes}
        reply, output = await self._exchange(header, code.encode(), limits.run_seconds + GRACE_SECONDS)
        return RunResult(
            outcome=_outcome(reply.get("outcome")),
            logs=_text(output[: limits.output_bytes]),
            dropped_bytes=int(reply.get("dropped_bytes", 0)),
            changed=_files(reply.get("changed")),
        )

    async def run_command(self, command: str, seconds: float) -> CommandResult:
        """Run a command."""
        limits = self._limits
        seconds = min(seconds, limits.run_seconds)
        header = {"op": "command", "seconds": seconds, "output_bytes": limits.output_bytes}
        reply, output = await self._exchange(header, command.encode(), seconds + GRACE_SECONDS)
        code, stdout_bytes = reply.get("exit_code"), int(reply.get("stdout_bytes", 0))
        return CommandResult(
            exit_code=code if isinstance(code, int) else None,
            stdout=_text(output[:stdout_bytes]),
            stderr=_text(output[stdout_bytes:]),
            dropped_bytes=int(reply.get("dropped_bytes", 0)),
            changed=_files(reply.get("changed")),
        )

    async def write(self, name: str, content: bytes, offset: int = 0) -> None:
        """Write a slice of a file."""
        await self._about_files({"op": "write", "name": name, "offset": offset}, content)

    async def read(self, name: str, offset: int = 0) -> bytes:
        """A slice of a file; empty at its end."""
        return (await self._about_files({"op": "read", "name": name, "offset": offset}))[1]

    async def move(self, name: str, to: str) -> None:
        """Rename a file."""
        await self._about_files({"op": "move", "name": name, "to": to})

    async def delete(self, name: str) -> None:
        """Delete a file."""
        await self._about_files({"op": "delete", "name": name})

    async def files(self) -> tuple[SandboxFile, ...]:
        """The files of the sandbox."""
        return _files((await self._about_files({"op": "list"}))[0].get("files"))

    async def close(self) -> None:
        """Kill it. The kernel ends all its processes with the first one."""
        self._end("it was closed")
        self._watching.cancel()
        try:
            await self._process.wait()
        finally:
            self._resources.close()

    async def last_error(self) -> str:
        """End it; what bubblewrap has written to its standard error."""
        await self.close()
        stderr = self._process.stderr
        text = b"" if stderr is None else await stderr.read(2000)
        return text.decode(errors="replace").strip() or self._ended or "no reply"

    def _end(self, reason: str) -> None:
        if self._ended is None:
            self._ended = reason
            self._folders.close()
            forget_measured(self._process.pid)
        with suppress(ProcessLookupError):
            self._process.kill()

    async def _about_files(
        self, header: Mapping[str, object], content: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """An exchange that is finished although its caller is cancelled: a client that leaves while it reads
        a file must not end the sandbox."""
        task = asyncio.create_task(self._exchange(header, content, FILE_SECONDS))
        self._exchanges.add(task)
        task.add_done_callback(self._exchanges.discard)
        return await asyncio.shield(task)

    async def _exchange(
        self, header: Mapping[str, object], content: bytes, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request and wait for its reply. If it is not answered in full, the sandbox is ended."""
        async with self._turn:
            if not self.running:
                raise SandboxEnded(self._ended or "its process has ended")
            self._used.set()
            try:
                async with asyncio.timeout(seconds):
                    self._requests.write(_frame(header, content))
                    await self._requests.drain()
                    reply, payload = await self._receive()
            except TimeoutError:
                self._end("it did not reply in time")
                raise SandboxEnded("it did not reply in time") from None
            except (OSError, EOFError, ValueError):
                self._end("its process has ended")
                raise SandboxEnded(self._ended or "its process has ended") from None
            except BaseException:
                self._end("a run was cancelled")
                raise
            self._check_files()
            if self._ended is not None:
                raise SandboxEnded(self._ended)
        if "error" in reply:
            raise SandboxFileError(str(reply["error"])[:200])
        return reply, payload

    async def _receive(self) -> tuple[dict[str, Any], bytes]:
        head = await self._replies.readexactly(_HEAD_BYTES)
        header_bytes, content_bytes = int.from_bytes(head[:4]), int.from_bytes(head[4:])
        if header_bytes > MAX_HEADER_BYTES or content_bytes > SLICE_BYTES:
            raise ValueError("the reply is too long")
        header = json.loads(await self._replies.readexactly(header_bytes))
        if not isinstance(header, dict):
            raise ValueError("the reply is not an object")
        return cast("dict[str, Any]", header), await self._replies.readexactly(content_bytes)

    async def _watch(self) -> None:
        """Measure the sandbox while it is used, and once after that: otherwise nothing runs in it. End it if
        its processes together use too much memory, or it has too many files."""
        pid, limit = self._process.pid, self._limits.memory_bytes + MEMORY_OF_SUPERVISOR_BYTES
        while self._ended is None:
            await self._used.wait()
            await asyncio.sleep(WATCH_SECONDS)
            if not self._turn.locked():
                self._used.clear()
            self._check_files()
            used = await asyncio.to_thread(used_memory_bytes, pid)
            if self._ended is None:
                record_measured(pid, used + self._folders.used().bytes)
            if used > limit:
                logger.warning("a sandbox was ended: its processes used %d MiB", used >> 20)
                self._end("its processes used too much memory together")

    def _check_files(self) -> None:
        files = self._folders.used().files
        if files > self._limits.files:
            logger.warning("a sandbox was ended: it had %d files", files)
            self._end(f"it had more than {self._limits.files:,} files")


def find_bubblewrap(python: str | None) -> Bubblewrap | str:
    """Bubblewrap, or the reason why it cannot be used."""
    program, seccomp = shutil.which("bwrap"), seccomp_programs()
    if program is None:
        return "bubblewrap (bwrap) is not installed"
    if seccomp is None:
        return "the system calls of this machine are not known"
    try:
        return Bubblewrap(program, find_python(python), seccomp)
    except (OSError, ValueError) as error:
        return str(error)


def _parents(paths: Sequence[str]) -> list[str]:
    """The folders above, which are made before: bubblewrap would give them the mode of the host's."""
    return sorted({str(parent) for path in paths for parent in Path(path).parents} - {"/", *paths})


def _mount(path: str) -> list[str]:
    """A folder of libraries that is a link in the host is one in the sandbox."""
    if Path(path).is_symlink():
        return ["--symlink", str(Path(path).readlink()), path]
    return ["--ro-bind", path, path]


def _data_file(content: bytes) -> int:
    """A descriptor that bubblewrap reads the content from."""
    descriptor = os.memfd_create("sandbox")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _frame(header: Mapping[str, object], content: bytes) -> bytes:
    encoded = json.dumps(header).encode()
    return len(encoded).to_bytes(4) + len(content).to_bytes(4) + encoded + content


def _text(output: bytes) -> str:
    return output.decode(errors="replace").replace("\0", "\ufffd")


def _outcome(value: object) -> Literal["completed", "raised", "timeout", "died"]:
    return value if value in ("completed", "raised", "timeout") else "died"


def _files(listed: object) -> tuple[SandboxFile, ...]:
    """The files of a reply."""
    entries = cast("list[list[Any]]", listed) if isinstance(listed, list) else []
    return tuple(SandboxFile(str(name), int(size)) for name, size in entries)
