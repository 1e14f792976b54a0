"""libfaketime: the wall clock of a server process, moved while it runs."""

import os
from pathlib import Path

LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")


def faketime_library() -> Path | None:
    """The library: the one that LIBFAKETIME names, or the one of the system's package."""
    if named := os.environ.get("LIBFAKETIME"):
        return Path(named)
    return next((path for pattern in LIBRARIES for path in Path("/").glob(pattern[1:])), None)


class MovedClock:
    """The wall clock of processes with this environment; their monotonic clock is the real one."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        self.move(0)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def move(self, seconds: int) -> None:
        """Move it to so many seconds after, or before, the real time."""
        part = self._file.with_suffix(".part")
        part.write_text(f"{seconds:+d}\n")
        part.replace(self._file)
