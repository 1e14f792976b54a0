"""The files of a container that have an id: those of the client, and those that a run has written."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from antiphon.protocol.ids import Clock, IdSource
from antiphon.sandbox.port import SandboxFile

Source = Literal["user", "assistant"]
MAX_KNOWN = 2000
"""More than a sandbox lists, so that only files that are gone lose their id."""


class KnownFile(Struct, frozen=True):
    """A file of a container. It keeps its id while it exists, also if its content changes."""

    id: str
    name: str
    size_bytes: int
    created_at: float
    source: Source


@dataclass(slots=True)
class KnownFiles:
    """The files of one container, by name."""

    ids: IdSource
    clock: Clock
    by_name: dict[str, KnownFile] = field(default_factory=dict[str, KnownFile])

    def add(self, files: Sequence[SandboxFile], source: Source) -> None:
        """Files that were written. One that has an id keeps it."""
        for file in files:
            known = self.by_name.get(file.name)
            if known is not None:
                self.by_name[file.name] = replace(known, size_bytes=file.size_bytes)
            elif len(self.by_name) < MAX_KNOWN:
                self.by_name[file.name] = KnownFile(
                    self.ids.new("cfile"), file.name, file.size_bytes, self.clock(), source
                )

    def update(self, listed: Sequence[SandboxFile]) -> None:
        """All files that there are; the others have lost their ids."""
        names = {file.name for file in listed}
        for name in [name for name in self.by_name if name not in names]:
            del self.by_name[name]
        self.add(listed, "assistant")

    def find(self, file_id: str) -> KnownFile | None:
        """The file with an id."""
        return next((file for file in self.by_name.values() if file.id == file_id), None)
