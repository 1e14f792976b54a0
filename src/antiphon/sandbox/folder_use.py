"""What is in the two file systems of a sandbox.

The supervisor sends the server a descriptor of each before it reads a request. So the server can count
whatever the code does to the supervisor, and needs no right to open the files of another process.
"""

import os
import socket
from array import array
from typing import NamedTuple

FOLDERS = 2


class Used(NamedTuple):
    """Files, with folders and links, and the memory of their content."""

    files: int = 0
    bytes: int = 0


class FolderUse:
    """Counts what is used, from the time when the descriptors were received until it is closed."""

    def __init__(self) -> None:
        self._own, self.theirs = socket.socketpair()
        self._descriptors: list[int] = []

    def receive(self) -> None:
        """Receive the descriptors, which were sent already. Raises `OSError` if they were not."""
        self._own.setblocking(False)
        room = socket.CMSG_LEN(FOLDERS * array("i").itemsize)
        flags = socket.MSG_CMSG_CLOEXEC
        for level, kind, data in self._own.recvmsg(1, room, flags)[1]:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self._descriptors += array("i", data)
        if len(self._descriptors) != FOLDERS:
            raise OSError("the folders of the sandbox were not sent")

    def used(self) -> Used:
        """What is used now; nothing, if it is closed."""
        found = [os.fstatvfs(descriptor) for descriptor in self._descriptors]
        return Used(
            files=sum(folder.f_files - folder.f_ffree for folder in found),
            bytes=sum((folder.f_blocks - folder.f_bfree) * folder.f_frsize for folder in found),
        )

    def close(self) -> None:
        """Close the descriptors: they keep the file systems, and their memory."""
        self._own.close()
        self.theirs.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
