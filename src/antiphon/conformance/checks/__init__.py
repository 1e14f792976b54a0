"""All checks, one file per group of them, in the order in which they run."""

from antiphon.conformance.checking import Check
from antiphon.conformance.checks import (
    background,
    conversations,
    endpoints,
    errors,
    folds,
    identity,
    objects,
    state,
    streams,
    structured,
    tools,
    websocket,
)

CHECKS: tuple[Check, ...] = (
    *streams.CHECKS,
    *identity.CHECKS,
    *folds.CHECKS,
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
