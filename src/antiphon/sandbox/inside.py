"""The program inside a sandbox, which needs the standard library only: it is not imported by the server.

It reads requests from stdin and writes replies to stdout. Code is run by a worker, a child process that keeps
its variables from run to run. Between runs the worker is stopped, and all other processes are killed.

The code runs as the same user, so it could kill or stop this supervisor. If it is killed, the sandbox ends;
if it is stopped, it does not reply, and the server ends the sandbox. It is not dumpable, so that the code
cannot open its memory or its pipes.
"""

import ast
import contextlib
import ctypes
import json
import linecache
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

DATA_FOLDER = "/mnt/data"
WRITABLE_FOLDERS = (DATA_FOLDER, "/tmp")
CODE_NAME = "<code>"
MAX_FILES = 1000
MAX_CHANGED = 64
MAX_WALKED = 5000
READ_BYTES = 65536
SLICE_BYTES = 1024 * 1024
COMMAND_POLL_SECONDS = 0.02
FORK_ATTEMPTS = 100
FORK_PAUSE_SECONDS = 0.02
HEAD = struct.Struct("!II")
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
BPF_STEP_BYTES = 8

Files = dict[str, tuple[int, int]]


def main() -> None:
    """Serve requests until stdin ends."""
    settings = json.loads(sys.argv[1])
    sys.path += settings["paths"]
    limit_supervisor(settings)
    send_folders(settings["channel"])
    supervisor = Supervisor(settings)
    while (request := read_frame(0)) is not None:
        header, payload = request
        try:
            reply, content = supervisor.answer(header, payload)
        except OSError as error:
            reply, content = {"error": os.strerror(error.errno or 0)}, b""
        except ValueError as error:
            reply, content = {"error": str(error)}, b""
        write_frame(1, reply, content)
        supervisor.prepare()


def limit_supervisor(settings: dict[str, Any]) -> None:
    """Become the user of this sandbox, and set the limits that all its processes inherit."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(settings["uid"], settings["uid"], settings["uid"])
        os.setresuid(settings["uid"], settings["uid"], settings["uid"])
    set_dumpable(False)
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: settings["processes"],
        resource.RLIMIT_NOFILE: 128,
        resource.RLIMIT_FSIZE: settings["disk_bytes"],
        resource.RLIMIT_MEMLOCK: 0,
    }
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))
    os.nice(10)
    limit_cores(settings["cores"], bytes.fromhex(settings["fixed_cores"]))
    os.chdir(DATA_FOLDER)


def limit_cores(cores: list[int], program: bytes) -> None:
    """Use these cores only; `program` is a filter of system calls that denies to change them again."""
    os.sched_setaffinity(0, cores)
    steps = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HP", len(program) // BPF_STEP_BYTES, ctypes.addressof(steps))
    if ctypes.CDLL(None).prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0) != 0:
        raise OSError("prctl failed")


def set_dumpable(value: bool) -> None:
    """Whether other processes of the same user may open this one's memory and files."""
    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, int(value), 0, 0, 0) != 0:
        raise OSError("prctl failed")


def send_folders(channel: int) -> None:
    """Send the server a descriptor of each folder that can be written: it counts the files."""
    descriptors = [os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in WRITABLE_FOLDERS]
    with socket.socket(fileno=channel) as connection:
        socket.send_fds(connection, [b"f"], descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


class Supervisor:
    """Answers requests: runs code in the worker, reads and writes files."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.worker: Worker | None = None
        self.prepare()

    def prepare(self) -> None:
        """Start a worker, if there is none."""
        if self.worker is None:
            self.worker = start_worker(self.settings["memory_bytes"])

    def answer(self, header: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
        """The reply to a request, with its content."""
        operation = header["op"]
        if operation == "run":
            return self.run(payload.decode(), header["seconds"], header["output_bytes"])
        if operation == "command":
            return self.run_command(payload.decode(), header["seconds"], header["output_bytes"])
        if operation == "list":
            listed = [[name, size] for name, (size, _) in list_files().items()]
            return {"files": listed[:MAX_FILES]}, b""
        path = data_path(header["name"])
        if operation == "read":
            return {}, read_slice(path, header["offset"])
        if operation == "write":
            write_slice(path, header["offset"], payload)
        elif operation == "move":
            os.replace(path, data_path(header["to"]))
        else:
            os.unlink(path)
        return {}, b""

    def run(self, code: str, seconds: float, output_bytes: int) -> tuple[dict[str, Any], bytes]:
        """Run code until it ends or its time is over. The content of the reply is the output."""
        before = list_files()
        if self.worker is None:
            raise ValueError("no worker")
        outcome, kept, dropped = self.worker.run(code, seconds, output_bytes)
        if outcome in ("timeout", "died"):
            kill_all()
            self.worker.close()
            self.worker = None
        else:
            freeze_all_but(self.worker.pid)
        after = list_files()
        changed = [[name, size] for name, (size, at) in after.items() if before.get(name) != (size, at)]
        return {"outcome": outcome, "dropped_bytes": dropped, "changed": changed[:MAX_CHANGED]}, kept

    def run_command(self, command: str, seconds: float, output_bytes: int) -> tuple[dict[str, Any], bytes]:
        """Run a command of a shell while the worker is stopped. The content of the reply is stdout, then
        stderr."""
        before = list_files()
        running = Command(command, self.settings["memory_bytes"])
        exit_code = running.wait(seconds, output_bytes)
        if self.worker is not None:
            freeze_all_but(self.worker.pid)
        running.close()
        after = list_files()
        changed = [[name, size] for name, (size, at) in after.items() if before.get(name) != (size, at)]
        stdout, stderr = (bytes(running.kept[pipe]) for pipe in running.pipes)
        reply = {"exit_code": exit_code, "stdout_bytes": len(stdout), "dropped_bytes": running.dropped}
        return {**reply, "changed": changed[:MAX_CHANGED]}, stdout + stderr


class Command:
    """A command of a shell that runs."""

    def __init__(self, command: str, memory_bytes: int) -> None:
        stdout_read, stdout_write = os.pipe()
        stderr_read, stderr_write = os.pipe()
        self.pid = fork()
        if self.pid == 0:
            execute_command(command, stdout_write, stderr_write, memory_bytes)
        os.close(stdout_write)
        os.close(stderr_write)
        self.pipes = (stdout_read, stderr_read)
        self.kept = {pipe: bytearray() for pipe in self.pipes}
        self.dropped = 0
        self.exit_code: int | None = None
        for pipe in self.pipes:
            os.set_blocking(pipe, False)

    def wait(self, seconds: float, output_bytes: int) -> int | None:
        """The exit code of the shell, whose children may live longer; None if the time is over."""
        deadline = time.monotonic() + seconds
        unread = list(self.pipes)
        while (left := deadline - time.monotonic()) > 0:
            ready = select.select(unread, [], [], min(left, COMMAND_POLL_SECONDS))[0]
            for pipe in ready:
                if not self._read(pipe, output_bytes):
                    unread.remove(pipe)
            if not (ready and unread) and self._has_exited():
                return self.exit_code
        return None

    def _has_exited(self) -> bool:
        if self.exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.exit_code = os.waitstatus_to_exitcode(status)
        return self.exit_code is not None

    def _read(self, pipe: int, output_bytes: int) -> bool:
        """Append the next piece of the output; False at its end."""
        try:
            piece = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            return True
        room = output_bytes - sum(map(len, self.kept.values()))
        self.kept[pipe] += piece[:room]
        self.dropped += max(0, len(piece) - room)
        return bool(piece)

    def close(self) -> None:
        """Close the pipes, after all processes were killed."""
        if self.exit_code is None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
        for pipe in self.pipes:
            os.close(pipe)


def execute_command(command: str, stdout: int, stderr: int, memory_bytes: int) -> None:
    """Become the shell, in the forked process."""
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
            os.dup2(source, target)
        os.closerange(3, 128)
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        path = f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"
        os.execve(shell, [shell, "-c", command], {**os.environ, "PATH": path})
    finally:
        os._exit(127)


class Worker:
    """The process that runs code, seen from the supervisor."""

    def __init__(self, pid: int, code: int, done: int, output: int) -> None:
        self.pid = pid
        self.code = code
        self.done = done
        self.output = output
        os.set_blocking(output, False)

    def run(self, code: str, seconds: float, output_bytes: int) -> tuple[str, bytes, int]:
        """The outcome, the output, and the number of dropped bytes."""
        deadline = time.monotonic() + seconds
        kept, dropped = bytearray(), 0
        outcome = "timeout"
        try:
            os.kill(self.pid, signal.SIGCONT)
            write_frame(self.code, {}, code.encode())
        except OSError:
            return "died", b"", 0
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self.done, self.output], [], [], left)
            if self.output in ready:
                dropped += self._read_output(kept, output_bytes)
            if self.done in ready:
                outcome = {b"c": "completed", b"r": "raised"}.get(os.read(self.done, 1), "died")
                for _ in range(16):  # what a pipe can hold
                    dropped += self._read_output(kept, output_bytes)
                break
        return outcome, bytes(kept), dropped

    def _read_output(self, kept: bytearray, output_bytes: int) -> int:
        """Append the next piece of the output; return how much of it was dropped."""
        with contextlib.suppress(BlockingIOError):
            piece = os.read(self.output, READ_BYTES)
            room = output_bytes - len(kept)
            kept += piece[:room]
            return max(0, len(piece) - room)
        return 0

    def close(self) -> None:
        """Close the pipes of a worker that was killed."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        for descriptor in (self.code, self.done, self.output):
            os.close(descriptor)


def start_worker(memory_bytes: int) -> Worker:
    """Fork the worker."""
    code_read, code_write = os.pipe()
    done_read, done_write = os.pipe()
    output_read, output_write = os.pipe()
    pid = fork()
    if pid == 0:
        for descriptor in (code_write, done_read, output_read):
            os.close(descriptor)
        work(code_read, done_write, output_write, memory_bytes)
    for descriptor in (code_read, done_write, output_write):
        os.close(descriptor)
    return Worker(pid, code_write, done_read, output_read)


def fork() -> int:
    """Fork. Killed processes count until they are reaped, so that it may need some attempts."""
    for _ in range(FORK_ATTEMPTS):
        with contextlib.suppress(BlockingIOError):
            return os.fork()
        time.sleep(FORK_PAUSE_SECONDS)
    return os.fork()


def kill_all() -> None:
    """Kill all processes but this one and the init process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def freeze_all_but(worker: int) -> None:
    """Stop the worker until its next run, and kill all processes that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGSTOP)
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, os.getpid(), worker):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(name), signal.SIGKILL)


def work(code: int, done: int, output: int, memory_bytes: int) -> None:
    """The worker: run code until the pipe ends."""
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        set_dumpable(True)
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        sys.stdout = open(  # noqa: SIM115 -- until the process ends
            1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
        )
        scope: dict[str, Any] = {"__name__": "__main__"}
        sys.argv = [""]
        while (request := read_frame(code)) is not None:
            reap_children()
            completed = execute(request[1].decode(), scope)
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            with contextlib.suppress(Exception):
                sys.stderr.flush()
            os.write(done, b"c" if completed else b"r")
    finally:
        os._exit(1)


def reap_children() -> None:
    """Take notice of the processes that were killed after the last run."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def execute(code: str, scope: dict[str, Any]) -> bool:
    """Run code like a notebook: the value of a last expression is printed. False if it has raised."""
    linecache.cache[CODE_NAME] = (len(code), None, code.splitlines(keepends=True), CODE_NAME)
    try:
        tree = ast.parse(code, CODE_NAME)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, CODE_NAME, "exec"), scope)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), CODE_NAME, "eval"), scope)
            if value is not None:
                scope["_"] = value
                print(repr(value))  # noqa: T201 -- like a notebook
    except SystemExit:
        return True
    except BaseException as error:  # noqa: BLE001 -- the code may raise anything
        print_traceback(error)
        return False
    return True


def print_traceback(error: BaseException) -> None:
    """Print the traceback, without the frames of this program."""
    with contextlib.suppress(BaseException):
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != CODE_NAME:
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace, limit=-20, file=sys.stdout)


def list_files() -> Files:
    """Size and time of the regular files below the data folder."""
    found: Files = {}
    for folder, name in walk():
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            entry = os.lstat(path)
            if stat.S_ISREG(entry.st_mode):
                relative = os.path.relpath(path, DATA_FOLDER)
                found[os.fsencode(relative).decode(errors="replace")] = (entry.st_size, entry.st_mtime_ns)
    return found


def walk() -> Iterator[tuple[str, str]]:
    """Folder and name of the files, at most `MAX_WALKED`."""
    count = 0
    for folder, folders, names in os.walk(DATA_FOLDER):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            count += 1
            if count > MAX_WALKED:
                return
            yield folder, name


def data_path(name: str) -> str:
    """The path of a file in the data folder."""
    path = os.path.normpath(os.path.join(DATA_FOLDER, name))
    if not path.startswith(DATA_FOLDER + "/") or "\0" in path:
        raise ValueError("the name is not one of a file in " + DATA_FOLDER)
    return path


def read_slice(path: str, offset: int) -> bytes:
    """A slice of a regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a file")
        file.seek(offset)
        return file.read(SLICE_BYTES)


def write_slice(path: str, offset: int, content: bytes) -> None:
    """Write a slice; the first one creates the file."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | (0 if offset else os.O_CREAT | os.O_TRUNC)
    with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
        file.seek(offset)
        file.write(content)


def read_frame(descriptor: int) -> tuple[dict[str, Any], bytes] | None:
    """A header and its content; None at the end."""
    head = read_exactly(descriptor, HEAD.size)
    if head is None:
        return None
    header_bytes, content_bytes = HEAD.unpack(head)
    header, content = read_exactly(descriptor, header_bytes), read_exactly(descriptor, content_bytes)
    return None if header is None or content is None else (json.loads(header), content)


def read_exactly(descriptor: int, count: int) -> bytes | None:
    """`count` bytes; None if the pipe ends before."""
    pieces: list[bytes] = []
    while count:
        piece = os.read(descriptor, min(count, SLICE_BYTES))
        if not piece:
            return None
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def write_frame(descriptor: int, header: dict[str, Any], content: bytes) -> None:
    """Write a header and its content."""
    encoded = json.dumps(header).encode()
    left = memoryview(HEAD.pack(len(encoded), len(content)) + encoded + content)
    while left:
        left = left[os.write(descriptor, left) :]


if __name__ == "__main__":
    main()
