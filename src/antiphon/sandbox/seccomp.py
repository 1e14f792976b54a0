"""The filter of system calls in a sandbox, as a classic BPF program for `bwrap --seccomp`.

It denies what a Python program does not need, and what could break out of the limits: namespaces and mounts,
memory that no limit counts (memfd, System V), tracing of processes, and sockets that are not of the (empty)
network namespace.

A second program denies changes of the cores that a process runs on. The supervisor adds it when it has chosen
its cores.
"""

import errno
import platform
import struct
from collections.abc import Sequence
from typing import NamedTuple

_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_OFFSET, _ARCH_OFFSET, _FIRST_ARGUMENT_OFFSET = 0, 4, 16
_X32_BIT = 0x40000000
_NAMESPACE_FLAGS = 0x7E020000
"""CLONE_NEW* in the flags of `clone`: namespaces of mounts, cgroups, UTS, IPC, users, pids, networks."""
_SOCKET_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET, AF_INET6."""
_CLONE3 = 435
_SAME_EVERYWHERE = (*range(425, 434), 438, 440, 442, 443, 447)
"""io_uring, the mount API, pidfd_getfd, process_madvise, mount_setattr, quotactl_fd, memfd_secret."""


class _Machine(NamedTuple):
    arch: int
    clone: int
    socket: int
    sched_setaffinity: int
    denied: tuple[int, ...]


_X86_64 = (
    *(29, 30, 31, 64, 68, 240),  # shmget, shmat, shmctl, semget, msgget, mq_open
    *(101, 310, 311, 312),  # ptrace, process_vm_readv, process_vm_writev, kcmp
    *(103, 134, 135, 154, 163, 172, 173, 179, 180, 212),  # syslog, uselib, personality, modify_ldt, acct, …
    *(155, 161, 165, 166, 272, 308),  # pivot_root, chroot, mount, umount2, unshare, setns
    *(159, 164, 227, 305),  # adjtimex, settimeofday, clock_settime, clock_adjtime
    *(167, 168, 169, 175, 176, 246, 313, 320),  # swapon, swapoff, reboot, modules, kexec
    *(237, 238, 256, 278, 279),  # mbind, set_mempolicy, migrate_pages, vmsplice, move_pages
    *(248, 249, 250, 298, 300, 303, 304, 319, 321, 323),  # keys, perf, fanotify, handles, memfd, bpf, …
)
_AARCH64 = (
    *(194, 195, 196, 190, 186, 180),  # shmget, shmctl, shmat, semget, msgget, mq_open
    *(117, 270, 271, 272),  # ptrace, process_vm_readv, process_vm_writev, kcmp
    *(116, 92, 89, 60, 42, 18),  # syslog, personality, acct, quotactl, nfsservctl, lookup_dcookie
    *(41, 51, 40, 39, 97, 268),  # pivot_root, chroot, mount, umount2, unshare, setns
    *(171, 170, 112, 266),  # adjtimex, settimeofday, clock_settime, clock_adjtime
    *(224, 225, 142, 105, 106, 104, 273, 294),  # swapon, swapoff, reboot, modules, kexec
    *(235, 237, 238, 75, 239),  # mbind, set_mempolicy, migrate_pages, vmsplice, move_pages
    *(217, 218, 219, 241, 262, 264, 265, 279, 280, 282),  # keys, perf, fanotify, handles, memfd, bpf, …
)
_MACHINES = {
    "x86_64": _Machine(0xC000003E, 56, 41, 203, _X86_64),
    "aarch64": _Machine(0xC00000B7, 220, 198, 122, _AARCH64),
}


class SeccompPrograms(NamedTuple):
    """The programs for a machine."""

    sandbox: bytes
    fixed_cores: bytes
    """It needs the other one, which denies the system calls of other architectures."""


def seccomp_programs() -> SeccompPrograms | None:
    """The programs for this machine; None if its system calls are not known."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return None
    program = [
        _step(_LOAD, _ARCH_OFFSET),
        _step(_JUMP_EQUAL, machine.arch, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_OFFSET),
        _step(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1),
        _step(_RETURN, _KILL),
        *_deny((_CLONE3,), errno.ENOSYS),
        *_deny((*machine.denied, *_SAME_EVERYWHERE), errno.EPERM),
        # clone: deny new namespaces
        _step(_JUMP_EQUAL, machine.clone, 0, 4),
        _step(_LOAD, _FIRST_ARGUMENT_OFFSET),
        _step(_JUMP_ANY_BIT, _NAMESPACE_FLAGS, 0, 1),
        _step(_RETURN, _ERRNO | errno.EPERM),
        _step(_RETURN, _ALLOW),
        # socket: allow some families
        _step(_JUMP_EQUAL, machine.socket, 0, 2 + len(_SOCKET_FAMILIES)),
        _step(_LOAD, _FIRST_ARGUMENT_OFFSET),
        *_families(),
        _step(_RETURN, _ERRNO | errno.EAFNOSUPPORT),
        _step(_RETURN, _ALLOW),
    ]
    fixed_cores = [
        _step(_LOAD, _NUMBER_OFFSET),
        *_deny((machine.sched_setaffinity,), errno.EPERM),
        _step(_RETURN, _ALLOW),
    ]
    return SeccompPrograms(b"".join(program), b"".join(fixed_cores))


def _families() -> list[bytes]:
    """Jump to the last step for each family that is allowed."""
    count = len(_SOCKET_FAMILIES)
    return [_step(_JUMP_EQUAL, family, count - index, 0) for index, family in enumerate(_SOCKET_FAMILIES)]


def _deny(numbers: Sequence[int], error: int) -> list[bytes]:
    return [
        step
        for number in numbers
        for step in (_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, _ERRNO | error))
    ]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
