"""All checks, in the order in which they run."""

from antiphon.conformance.checks import (
    background,
    conversations,
    endpoints,
    errors,
    objects,
    state,
    streams,
    structured,
    tools,
    websocket,
)
from antiphon.conformance.probe import Check

CHECKS: tuple[Check, ...] = (
    *streams.CHECKS,
    *objects.CHECKS,
    *tools.CHECKS,
    *structured.CHECKS,
    *state.CHECKS,
    *conversations.CHECKS,
    *background.CHECKS,
    *endpoints.CHECKS,
    *errors.CHECKS,
    *websocket.CHECKS,
)
GROUPS = tuple(dict.fromkeys(check.group for check in CHECKS))
