"""Modes: what an agent is asked to be, as data. A mode carries instructions, tools and a scope for RAG."""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from antiphon.errors import SettingsError
from antiphon.protocol.content import JsonObject

KEY = re.compile(r"[a-z0-9_]+")
DEFAULT_KEY = "general"
EDITING_KEY = "code_edit"
"""The mode in which files are changed."""


class Mode(Struct, frozen=True, kw_only=True):
    """One mode. Clients name it in any case: `DDR_CREATION` is `ddr_creation`."""

    key: str
    when_to_use: str
    """One line, told to the model in the list of modes."""
    display_name: str = ""
    instructions: tuple[str, ...] = ()
    """Said after the system prompt, each a paragraph."""
    tools: tuple[str, ...] | None = None
    """The server tools it offers; None: all that are not bound to other modes."""
    tool_choice: str | None = None
    """The tool that must be called first."""
    retrieves: bool = True
    """Whether the instruction is looked up in the index."""
    rag_scope: JsonObject | None = None
    """Which chunks it may see; what the client's own scope allows is narrowed further."""
    max_turns: int | None = None


class Modes:
    """The modes by key. Exactly one is the default."""

    def __init__(self, modes: Iterable[Mode], default: str = DEFAULT_KEY) -> None:
        self._modes: dict[str, Mode] = {}
        for mode in modes:
            _check(mode)
            self._modes[mode.key] = mode  # a later one of the same key is the user's own
        if default not in self._modes:
            raise SettingsError(f"The default mode '{default}' does not exist. Known: {', '.join(self)}.")
        self.default = self._modes[default]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modes)

    def find(self, name: str | None) -> Mode | None:
        """The mode of this name; the default if none is named; None if there is no such mode."""
        if name is None or not name.strip():
            return self.default
        return self._modes.get(name.strip().lower())

    def all(self) -> list[Mode]:
        """All modes, in the order in which they were given."""
        return list(self._modes.values())


def _check(mode: Mode) -> None:
    if KEY.fullmatch(mode.key) is None:
        raise SettingsError(f"The mode '{mode.key}' is misnamed: use lower-case letters, digits and '_'.")
    if not mode.when_to_use.strip() or "\n" in mode.when_to_use:
        raise SettingsError(f"The mode '{mode.key}' needs 'when_to_use': one line that says when.")
