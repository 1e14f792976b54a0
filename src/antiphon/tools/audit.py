"""The audit log: one record of the logger `antiphon.audit` for each call of a tool that this server runs.

A record says who called what, how it ended and how long it took. It has no arguments and no results.
"""

import logging
from typing import Literal

from msgspec import Struct

logger = logging.getLogger("antiphon.audit")

AuditOutcome = Literal["completed", "failed", "timeout", "cancelled"]
MAX_NAME_CHARACTERS = 128
"""Of the name of a tool in a record: foreign servers choose them."""


class ToolUse(Struct, frozen=True, kw_only=True):
    """A call that has ended."""

    tenant: str
    key_id: str | None = None
    """The key of the request; None: none, one of the settings, or a response that was resumed."""
    response_id: str | None = None
    """The response that the call belongs to; None: a call of the agent."""
    tool: str
    """The type of a hosted tool; `server_tool`: a tool of the agent."""
    name: str
    outcome: AuditOutcome
    seconds: float


def audit(use: ToolUse) -> None:
    """Write the record of a call."""
    logger.info(
        "tool=%s name=%s tenant=%s key=%s response=%s outcome=%s seconds=%.3f",
        use.tool,
        use.name[:MAX_NAME_CHARACTERS],
        use.tenant,
        use.key_id or "-",
        use.response_id or "-",
        use.outcome,
        use.seconds,
    )
