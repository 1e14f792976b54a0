"""Modes: the roles of an agent, as data. A mode has instructions, tools and a scope for retrieval.

The built-in modes, those of the settings, and the tool with which a model asks for another mode (TUL-007).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from antiphon.errors import InvalidRequest, SettingsError
from antiphon.orchestrator.tool import ToolResult
from antiphon.protocol.content import JsonObject
from antiphon.settings import AgentSettings, ModeSettings
from antiphon.tools.declaration import ServerTool

KEY = re.compile(r"[a-z0-9_]+")
DEFAULT_KEY = "general"
EDITING_KEY = "code_edit"
"""The mode for changing files."""


class Mode(Struct, frozen=True, kw_only=True):
    """One mode. Clients name it in any case: `DDR_CREATION` is `ddr_creation`."""

    key: str
    when_to_use: str
    """One line, for the list of modes that the model sees."""
    display_name: str = ""
    instructions: tuple[str, ...] = ()
    """Paragraphs appended to the system prompt."""
    tools: tuple[str, ...] | None = None
    """The names of the server tools it offers; None: all that are not bound to other modes."""
    hosted_tools: tuple[JsonObject, ...] = ()
    """Hosted tools, as a request to the Responses API declares them."""
    tool_choice: str | None = None
    """The tool that must be called first."""
    retrieves: bool = True
    """Whether context is retrieved for the instruction."""
    rag_scope: JsonObject | None = None
    """The chunks that may be retrieved; the client's own scope narrows it further."""
    max_turns: int | None = None


class Modes:
    """The modes by key; one is the default."""

    def __init__(self, modes: Iterable[Mode], default: str = DEFAULT_KEY) -> None:
        self._modes: dict[str, Mode] = {}
        for mode in modes:
            _check(mode)
            self._modes[mode.key] = mode  # a user's mode replaces a built-in one
        if default not in self._modes:
            raise SettingsError(f"The default mode '{default}' does not exist. Known: {', '.join(self)}.")
        self.default = self._modes[default]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modes)

    def find(self, name: str | None) -> Mode | None:
        """The mode of a name; the default for a blank name; None if there is no such mode."""
        if name is None or not name.strip():
            return self.default
        return self._modes.get(name.strip().lower())

    def all(self) -> list[Mode]:
        return list(self._modes.values())


def _check(mode: Mode) -> None:
    if KEY.fullmatch(mode.key) is None:
        raise SettingsError(f"The mode '{mode.key}' has an invalid key: use lower-case letters, digits, '_'.")
    if not mode.when_to_use.strip() or "\n" in mode.when_to_use:
        raise SettingsError(f"The mode '{mode.key}' needs 'when_to_use': one line about when to use it.")


_ONLY_THE_TOOL = (
    "Give the result through the tool of this mode and not as text. Afterwards say in one or two sentences "
    "what you did. Do not change a decision that the user has not asked you to change."
)

GENERAL = Mode(
    key=DEFAULT_KEY,
    display_name="General",
    when_to_use="Questions, explanations and any work that no other mode is made for.",
)
QA = Mode(
    key="qa",
    display_name="Questions",
    when_to_use="Questions that shall be answered in words, without changing anything.",
    tools=(),
)
CODE_EDIT = Mode(
    key=EDITING_KEY,
    display_name="Change files",
    when_to_use="The user wants files written or changed.",
    instructions=("Make every change with a file tool; afterwards say in a few words what you changed.",),
)
DDR_CREATION = Mode(
    key="ddr_creation",
    display_name="Write a design document",
    when_to_use="The user wants a design decision written down, or a design document changed.",
    instructions=(
        "You write design documents. Sections: Objective, Context, Design/Approach, Risks/Open Questions, "
        "Testing Strategy, Notes/Rationale.",
        _ONLY_THE_TOOL,
    ),
    tools=("ddr_document", "ddr_list", "ddr_read"),
    tool_choice="ddr_document",
)
DDR_REVIEW = Mode(
    key="ddr_review",
    display_name="Review a design document",
    when_to_use="The user wants to know whether something satisfies a design document.",
    instructions=(
        "You review against a design document, requirement by requirement, and change nothing. Read the "
        "document before you judge.",
        _ONLY_THE_TOOL,
    ),
    tools=("ddr_review", "ddr_document", "ddr_list", "ddr_read"),
)
DDR_SEARCH = Mode(
    key="ddr_search",
    display_name="Find design documents",
    when_to_use="The user looks for the design documents that have to do with something.",
    instructions=(
        "You look for design documents and rank those that fit, the best first. Have them listed before you "
        "choose, and name no document that is not in the list.",
        _ONLY_THE_TOOL,
    ),
    tools=("ddr_search_result", "ddr_list", "ddr_read"),
)
BUILT_IN = (GENERAL, QA, CODE_EDIT, DDR_CREATION, DDR_REVIEW, DDR_SEARCH)


def modes_from(settings: AgentSettings) -> Modes:
    """The built-in modes and those of the settings, which replace built-in modes of the same key."""
    configured = [_mode(key, mode) for key, mode in settings.modes.items()]
    return Modes([*BUILT_IN, *configured], default=settings.default_mode)


def _mode(key: str, settings: ModeSettings) -> Mode:
    return Mode(
        key=key,
        when_to_use=settings.when_to_use,
        display_name=settings.display_name,
        instructions=settings.instructions,
        tools=settings.tools,
        hosted_tools=settings.hosted_tools,
        tool_choice=settings.tool_choice or None,
        retrieves=settings.retrieves,
        rag_scope=settings.rag_scope,
        max_turns=settings.max_turns,
    )


CHANGE_MODE = "agent_change_mode"
_USAGE = (
    "Call this tool when the task of the user belongs to another mode of the list of modes. Name the mode by "
    "its key and give the reason in one sentence. Set branch to true if the work in the new mode shall not "
    "touch the present conversation. The change holds from the next request on: finish the present answer "
    "without the tools of the new mode."
)


def mode_tool(modes: Modes) -> ServerTool:
    """The tool that switches between these modes. The last successful change of a request applies."""

    def change_mode(
        mode: Annotated[str, Meta(description="The key of the mode to switch to.")],
        branch: Annotated[bool, Meta(description="Whether the new mode begins a branch.")],
        reason: Annotated[str, Meta(description="Why this mode fits better, in one sentence.")],
    ) -> ToolResult:
        """Switch the agent to another mode, from the next request on."""
        found = modes.find(mode) if mode.strip() else None
        if found is None:
            raise InvalidRequest(f"There is no mode '{mode}'. Known: {', '.join(modes)}.", param="mode")
        if not reason.strip():
            raise InvalidRequest("The reason is missing: give it in one sentence.", param="reason")
        answer = {"success": True, "mode": found.key, "branch": branch, "reason": reason}
        return ToolResult(output=msgspec.json.encode(answer).decode(), mode=found.key)

    return ServerTool.from_function(change_mode, name=CHANGE_MODE, usage=_USAGE, side_effects=False)
