"""`Check`: what was looked at, what was found, and what to do about it."""

from typing import Literal

from msgspec import Struct

Status = Literal["ok", "warning", "failed"]


class Check(Struct, frozen=True, omit_defaults=True):
    """The result of one check. `advice` is one sentence, and there is one for everything that is not ok."""

    name: str
    status: Status
    found: str
    advice: str = ""


def passed(name: str, found: str) -> Check:
    """All is well."""
    return Check(name, "ok", found)


def doubtful(name: str, found: str, advice: str) -> Check:
    """It may work."""
    return Check(name, "warning", found, advice)


def failed(name: str, found: str, advice: str) -> Check:
    """It will not work."""
    return Check(name, "failed", found, advice)
