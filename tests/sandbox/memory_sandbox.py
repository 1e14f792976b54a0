"""A sandbox that keeps files in memory and runs nothing, for tests of what surrounds sandboxes."""

from dataclasses import dataclass, field

from antiphon.sandbox.port import (
    SLICE_BYTES,
    CommandResult,
    RunResult,
    SandboxEnded,
    SandboxFile,
    SandboxFileError,
    SandboxLimits,
)


@dataclass
class MemorySession:
    """Its code is the name of a file that it writes."""

    limits: SandboxLimits
    contents: dict[str, bytes] = field(default_factory=dict[str, bytes])
    running: bool = True

    async def run(self, code: str) -> RunResult:
        self._check()
        self.contents[code] = b"made"
        return RunResult("completed", "", changed=(SandboxFile(code, 4),))

    async def run_command(self, command: str, seconds: float) -> CommandResult:
        await self.run(command)
        return CommandResult(0, "made\n", "", changed=(SandboxFile(command, 4),))

    async def write(self, name: str, content: bytes, offset: int = 0) -> None:
        self._check()
        written = self.contents.get(name, b"")[:offset] + content
        others = sum(len(other) for known, other in self.contents.items() if known != name)
        if others + len(written) > self.limits.disk_bytes:
            raise SandboxFileError("No space left on device")
        self.contents[name] = written

    async def read(self, name: str, offset: int = 0) -> bytes:
        return self._content(name)[offset : offset + SLICE_BYTES]

    async def move(self, name: str, to: str) -> None:
        self.contents[to] = self._content(name)
        del self.contents[name]

    async def delete(self, name: str) -> None:
        self._content(name)
        del self.contents[name]

    async def files(self) -> tuple[SandboxFile, ...]:
        self._check()
        return tuple(
            SandboxFile(name, len(content))
            for name, content in self.contents.items()
            if not name.startswith(".")
        )

    async def close(self) -> None:
        self.running = False

    def _content(self, name: str) -> bytes:
        self._check()
        if name not in self.contents:
            raise SandboxFileError("No such file or directory")
        return self.contents[name]

    def _check(self) -> None:
        if not self.running:
            raise SandboxEnded("it was closed")


class MemorySandbox:
    """Starts such sessions."""

    notes = ""
    has_shell = True

    async def start(self, limits: SandboxLimits) -> MemorySession:
        return MemorySession(limits)
