"""Programs that attack the sandbox: the limits hold, for a server that is root and for one that is not."""

import asyncio
import time
from pathlib import Path

import pytest

from antiphon.sandbox.bubblewrap import BubblewrapSession
from antiphon.sandbox.port import CommandResult, RunResult, SandboxEnded
from tests.sandbox.sandboxes import in_sandbox

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("user", ["root", "ordinary"])]


def run(user: str, *codes: str) -> list[RunResult]:
    async def use(session: BubblewrapSession) -> list[RunResult]:
        return [await session.run(code) for code in codes]

    results: list[RunResult] = in_sandbox(user, use)
    return results


def test_a_fork_bomb_is_limited_and_the_sandbox_can_be_used_after_it(user: str) -> None:
    bomb = "import os\nn = 0\ntry:\n    while True:\n        os.fork(); n += 1\nexcept OSError as error:\n    pass\nwhile True: pass"
    began = time.monotonic()
    first, second = run(user, bomb, "print('alive')")
    assert first.outcome == "timeout"
    assert second.logs == "alive\n"
    assert time.monotonic() - began < 12


def test_the_number_of_processes_is_limited(user: str) -> None:
    code = """
import os, time
children = 0
try:
    for _ in range(300):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        children += 1
except OSError as error:
    print(error.errno, children)
"""
    living = """
import os, time
time.sleep(0.3)
[n for n in os.listdir('/proc') if n.isdigit() and open(f'/proc/{n}/stat').read().split()[2] not in 'ZX']
"""
    result, after = run(user, code, living)
    errno, children = map(int, result.logs.split())
    assert errno == 11
    assert children < 24
    assert len(eval(after.logs)) <= 3, "processes of a run end with it"


def test_processes_together_use_one_core_and_cannot_change_that(user: str) -> None:
    code = """
import os, resource, time
def attempt(pid):
    try:
        os.sched_setaffinity(pid, range(os.cpu_count()))
        print('changed', pid)
    except OSError as error:
        print(error.errno)
began = time.monotonic()
for _ in range(8):
    if os.fork() == 0:
        while time.monotonic() - began < 1: pass
        os._exit(0)
attempt(0)
attempt(os.getppid())
for _ in range(8): os.wait()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(len(os.sched_getaffinity(0)), used.ru_utime + used.ru_stime < 1.3 * (time.monotonic() - began))
"""

    async def use(session: BubblewrapSession) -> tuple[str, str]:
        command = await session.run_command("nproc; taskset -p ffff $$ >/dev/null 2>&1 || echo denied", 2)
        return (await session.run(code)).logs, command.stdout

    assert in_sandbox(user, use) == ("1\n1\n1 True\n", "1\ndenied\n")


def test_an_allocation_of_10_gb_is_a_memory_error(user: str) -> None:
    first, second = run(user, "x = bytearray(10 * 1024**3)", "print('alive')")
    assert first.outcome == "raised"
    assert "MemoryError" in first.logs
    assert second.logs == "alive\n"


def test_processes_that_use_too_much_memory_together_end_the_sandbox(user: str) -> None:
    code = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        x = bytearray(150 * 1024**2)
        for at in range(0, len(x), 4096): x[at] = 1
        time.sleep(60)
time.sleep(60)
"""
    with pytest.raises(SandboxEnded):
        run(user, code)


def test_endless_output_is_cut(user: str) -> None:
    first, second = run(user, "while True: print('x' * 1000)", "print('alive')")
    assert first.outcome == "timeout"
    assert len(first.logs) == 10_000
    assert first.dropped_bytes > 0
    assert second.logs == "alive\n"


def test_an_endless_loop_is_killed_and_files_survive_it(user: str) -> None:
    keep = "open('kept.txt', 'w').write('kept'); x = 1"
    _, looped, after = run(user, keep, "while True: pass", "print(open('kept.txt').read(), 'x' in globals())")
    assert looped.outcome == "timeout"
    assert after.logs == "kept False\n"


def test_signals_cannot_be_used_to_outlive_the_deadline(user: str) -> None:
    code = "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass"
    (result,) = run(user, code)
    assert result.outcome == "timeout"


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSTOP"])
def test_a_program_that_attacks_the_supervisor_ends_its_own_sandbox(user: str, signal: str) -> None:
    code = f"import os, signal\nos.kill(os.getppid(), signal.{signal})\nwhile True: pass"
    began = time.monotonic()
    with pytest.raises(SandboxEnded):
        run(user, code)
    assert time.monotonic() - began < 12


def test_the_memory_and_the_pipes_of_the_supervisor_are_closed(user: str) -> None:
    code = """
import os
for name in ('mem', 'fd/0', 'fd/1', 'environ'):
    try:
        open(f'/proc/{os.getppid()}/{name}', 'rb').read(1)
        print('opened', name)
    except OSError as error:
        print(type(error).__name__)
"""
    (result,) = run(user, code)
    assert set(result.logs.split()) == {"PermissionError"}


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/etc/passwd",
        "/etc/hostname",
        "/home",
        "/var",
        "/proc/1/root/etc/shadow",
        "/run",
        "/sys",
    ],
)
def test_files_of_the_host_cannot_be_read(user: str, path: str) -> None:
    code = f"import os\nprint(os.listdir({path!r}) if os.path.isdir({path!r}) else open({path!r}).read())"
    (result,) = run(user, code)
    assert result.outcome == "raised"


def test_the_hosts_processes_environment_and_this_source_are_not_visible(user: str) -> None:
    (result,) = run(
        user,
        "import os; print(sorted(os.environ), len([n for n in os.listdir('/proc') if n.isdigit()]), "
        f"os.path.exists({str(Path(__file__))!r}))",
    )
    assert "'PATH'" not in result.logs
    assert result.logs.rstrip().endswith("3 False")


def test_there_is_no_network(user: str) -> None:
    code = """
import socket
for family, address in ((socket.AF_INET, ('1.1.1.1', 80)), (socket.AF_INET, ('127.0.0.1', 22)), (socket.AF_INET6, ('::1', 22))):
    try:
        socket.socket(family).connect(address)
        print('connected', address)
    except OSError as error:
        print('no')
for family in (16, 17, 40):
    try:
        socket.socket(family, socket.SOCK_RAW if family != 40 else socket.SOCK_STREAM)
        print('opened', family)
    except OSError as error:
        print('no')
"""
    (result,) = run(user, code)
    assert set(result.logs.split()) == {"no"}


def test_system_calls_that_break_out_are_denied(user: str) -> None:
    code = """
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, *arguments):
    result = getattr(libc, name)(*arguments)
    print(name, result, ctypes.get_errno())
attempt('unshare', 0x10000000)
attempt('mount', b'none', b'/mnt', b'tmpfs', 0, None)
attempt('umount2', b'/mnt/data', 2)
attempt('ptrace', 16, os.getppid(), 0, 0)
attempt('setns', 0, 0)
attempt('chroot', b'/mnt/data')
attempt('memfd_create', b'x', 0)
attempt('shmget', 0, 1 << 20, 0o1600)
attempt('setuid', 0)
"""
    (result,) = run(user, code)
    rows = [line.split() for line in result.logs.splitlines()]
    assert len(rows) == 9
    assert all(code == "-1" for _, code, _ in rows), result.logs
    assert all(errno in ("1", "22") for _, _, errno in rows), result.logs
    assert [row for row in rows if row[2] == "22"] in ([], [["setuid", "-1", "22"]])


def test_the_disk_is_limited_in_every_place_that_can_be_written(user: str) -> None:
    code = """
import os
for folder in ('/mnt/data', '/tmp', '/dev/shm', '/dev', '/', '/mnt', '/usr/lib', '/proc'):
    written = 0
    try:
        for n in range(64):
            with open(f'{folder}/fill{n}', 'wb') as file:
                written += file.write(bytes(1024**2))
    except OSError:
        pass
    print(folder, written >> 20)
"""
    result, after = run(
        user, code, "import glob, os; [os.unlink(x) for x in glob.glob('/mnt/data/fill*')]; 'clean'"
    )
    written = dict(line.split() for line in result.logs.splitlines())
    assert 4 <= int(written.pop("/mnt/data")) <= 8
    assert 4 <= int(written.pop("/tmp")) <= 8
    assert set(written.values()) == {"0"}
    assert after.logs == "'clean'\n"


def test_binary_output_becomes_text(user: str) -> None:
    (result,) = run(user, "import os; os.write(1, bytes(range(256))); print('\\ud800')")
    assert result.outcome == "completed"
    assert "\0" not in result.logs
    assert "\ufffd" in result.logs
    result.logs.encode()


def test_a_program_that_closes_everything_ends_itself_only(user: str) -> None:
    first, second = run(user, "import os; os.closerange(0, 100)", "print('alive')")
    assert first.outcome == "died"
    assert second.logs == "alive\n"


def test_threads_do_not_run_between_runs(user: str) -> None:
    start = """
import threading, time
count = 0
def work():
    global count
    while True:
        count += 1
        time.sleep(0.01)
threading.Thread(target=work, daemon=True).start()
"""

    async def use(session: BubblewrapSession) -> int:
        await session.run(start)
        first = int((await session.run("print(count)")).logs)
        await asyncio.sleep(0.5)
        return int((await session.run("print(count)")).logs) - first

    assert in_sandbox(user, use) < 20


ENVIRONMENT = {
    "HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "MPLBACKEND",
    "OPENBLAS_NUM_THREADS",
    "PATH",
    "PWD",
    "SHLVL",
    "_",
}
"""What commands can see: nothing of the server's own environment."""


def run_commands(user: str, *commands: str) -> list[CommandResult]:
    async def use(session: BubblewrapSession) -> list[CommandResult]:
        return [await session.run_command(command, 2) for command in commands]

    results: list[CommandResult] = in_sandbox(user, use)
    return results


def test_a_fork_bomb_of_the_shell_is_limited(user: str) -> None:
    first, second = run_commands(user, "b() { b | b & }; b; while true; do :; done", "echo alive")
    assert first.exit_code != 0
    assert second.stdout == "alive\n"


def test_endless_output_of_a_command_is_cut_off(user: str) -> None:
    first, second = run_commands(user, "yes; yes >&2", "echo alive")
    assert first.exit_code is None
    assert len(first.stdout) + len(first.stderr) == 10_000
    assert first.dropped_bytes > 0
    assert second.stdout == "alive\n"


def test_commands_do_not_leave_the_sandbox(user: str) -> None:
    results = run_commands(
        user,
        "cat /etc/passwd /etc/shadow",
        "touch /usr/bin/x",
        "mount -t tmpfs tmpfs /mnt",
        "unshare -U true",
        "su -c true || mount --bind / /mnt",
        "(echo > /dev/tcp/127.0.0.1/22) 2>&1",
    )
    assert [result for result in results if result.exit_code == 0] == []
    [environment] = run_commands(user, "env | cut -d= -f1 | sort | tr '\\n' ' '")
    assert "ANTIPHON" not in environment.stdout
    assert set(environment.stdout.split()) <= ENVIRONMENT


MANY_FILES = """
import os
for n in range({count}):
    os.close(os.open('{folder}/f' + str(n), os.O_CREAT))
{after}
"""


@pytest.mark.parametrize("folder", ["/mnt/data", "/tmp"])
@pytest.mark.parametrize("after", ["import time; time.sleep(60)", "print('made')"])
def test_empty_files_without_end_end_the_sandbox(user: str, folder: str, after: str) -> None:
    code = MANY_FILES.format(count=25_000, folder=folder, after=after)
    began = time.monotonic()
    with pytest.raises(SandboxEnded, match="more than 20,000 files"):
        run(user, code)
    assert time.monotonic() - began < 5


def test_files_are_counted_although_the_supervisor_is_stopped(user: str) -> None:
    stop = "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\n"
    began = time.monotonic()
    with pytest.raises(SandboxEnded, match="more than 20,000 files"):
        run(user, stop + MANY_FILES.format(count=10**9, folder="/tmp", after=""))
    assert time.monotonic() - began < 5


def test_files_of_commands_and_of_several_runs_are_counted(user: str) -> None:
    async def use(session: BubblewrapSession) -> None:
        for folder in ("/mnt/data/a", "/tmp/a"):
            code = f"import os; os.mkdir('{folder}')" + MANY_FILES.format(
                count=8_000, folder=folder, after=""
            )
            assert (await session.run(code)).outcome == "completed"
        await session.run_command("mkdir b && cd b && touch $(seq 5000)", 2)

    with pytest.raises(SandboxEnded, match="more than 20,000 files"):
        in_sandbox(user, use)
