"""`agent_change_mode`: how a model asks for another mode (TUL-007)."""

from typing import Annotated

import msgspec
from msgspec import Meta

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.modes import Modes
from antiphon.orchestrator.tool import ToolResult
from antiphon.tools.declaration import ServerTool

CHANGE_MODE = "agent_change_mode"
_USAGE = (
    "Call this tool when the task of the user belongs to another mode of the list of modes. Name the mode by "
    "its key and give the reason in one sentence. Set branch to true if the work in the new mode shall not "
    "touch the present conversation. The change holds from the next request on: finish the present answer "
    "without the tools of the new mode."
)


def mode_tool(modes: Modes) -> ServerTool:
    """The tool that switches between these modes. The last successful change of a request counts."""

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
            raise InvalidRequest("The reason is missing: say in one sentence why.", param="reason")
        told = {"success": True, "mode": found.key, "branch": branch, "reason": reason}
        return ToolResult(output=msgspec.json.encode(told).decode(), mode=found.key)

    return ServerTool.from_function(change_mode, name=CHANGE_MODE, usage=_USAGE, side_effects=False)
