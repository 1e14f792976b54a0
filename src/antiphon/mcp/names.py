"""Names of functions for the tools of MCP servers, and back.

A model calls functions whose names have at most 64 letters, digits, `_` and `-`. Names of tools may be
longer, have other characters, and be the same on two servers.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

MAX_FUNCTION_NAME_CHARS = 64
DIGEST_CHARS = 8
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")


class QualifiedTool(NamedTuple):
    """A tool by the label of its server and its own name."""

    server_label: str
    name: str


class FunctionNames:
    """The names of functions for some tools. They depend on the set of tools, not on its order.

    A tool keeps its name if that is possible. If another tool has the same name, or if it is `reserved`, the
    label of the server comes before it. A name that had to be changed in any other way ends with a digest.
    """

    def __init__(self, tools: Iterable[QualifiedTool], reserved: Collection[str] = ()) -> None:
        wanted = set(tools)
        same_names = Counter(tool.name for tool in wanted)
        self._tools: dict[str, QualifiedTool] = {}
        for tool in sorted(wanted):
            clashes = same_names[tool.name] > 1 or tool.name in reserved
            name = f"{tool.server_label}__{tool.name}" if clashes else tool.name
            name = _function_name(name, tool)
            salt = 0
            while name in self._tools or name in reserved:
                salt += 1
                name = _shortened(name, tool, salt)
            self._tools[name] = tool
        self._names = {tool: name for name, tool in self._tools.items()}

    def function_name(self, server_label: str, name: str) -> str:
        """The name of the function of a tool; raises `KeyError` if it is none of these."""
        return self._names[QualifiedTool(server_label, name)]

    def find(self, function_name: str) -> QualifiedTool | None:
        """The tool of a function; None if it is none of these."""
        return self._tools.get(function_name)


def _function_name(name: str, tool: QualifiedTool) -> str:
    plain = _OTHER.sub("_", name)
    if plain == name and len(name) <= MAX_FUNCTION_NAME_CHARS:
        return name
    return _shortened(plain, tool, 0)


def _shortened(name: str, tool: QualifiedTool, salt: int) -> str:
    """The beginning of a name, and a digest of the tool."""
    text = f"{tool.server_label}\0{tool.name}\0{salt}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(text).hexdigest()[:DIGEST_CHARS]
    return f"{name[: MAX_FUNCTION_NAME_CHARS - DIGEST_CHARS - 1]}_{digest}"
