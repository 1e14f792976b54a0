"""The modes that are always there, and those of the settings."""

from antiphon.orchestrator.modes import DEFAULT_KEY, EDITING_KEY, Mode, Modes
from antiphon.settings import AgentSettings, ModeSettings

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
    """The built-in modes and those of the settings, which replace built-in ones of the same key."""
    configured = [_mode(key, mode) for key, mode in settings.modes.items()]
    return Modes([*BUILT_IN, *configured], default=settings.default_mode)


def _mode(key: str, settings: ModeSettings) -> Mode:
    return Mode(
        key=key,
        when_to_use=settings.when_to_use,
        display_name=settings.display_name,
        instructions=settings.instructions,
        tools=settings.tools,
        tool_choice=settings.tool_choice or None,
        retrieves=settings.retrieves,
        rag_scope=settings.rag_scope,
        max_turns=settings.max_turns,
    )
