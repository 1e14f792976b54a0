"""Counting what is in the folders of a sandbox."""

import os
import socket
from pathlib import Path

import pytest

from antiphon.sandbox.folder_use import FolderUse, Used


def test_descriptors_that_were_not_sent_are_an_error() -> None:
    folders = FolderUse()
    with pytest.raises(OSError, match="unavailable"):
        folders.receive()
    folders.theirs.send(b"f")
    with pytest.raises(OSError, match="were not sent"):
        folders.receive()
    folders.close()


def test_the_descriptors_are_closed_with_it(tmp_path: Path) -> None:
    folders = FolderUse()
    descriptor = os.open(tmp_path, os.O_PATH)
    socket.send_fds(folders.theirs, [b"f"], [descriptor, descriptor])
    os.close(descriptor)
    before = len(os.listdir("/proc/self/fd"))
    folders.receive()
    assert len(os.listdir("/proc/self/fd")) == before + 2
    assert folders.used().bytes > 0
    folders.close()
    assert len(os.listdir("/proc/self/fd")) == before - 2
    assert folders.used() == Used()
    folders.close()
