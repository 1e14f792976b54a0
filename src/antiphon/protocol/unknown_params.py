"""Members of a request that nothing here knows. They are accepted, and reported with the nearest known name.

An ordinary request costs nothing: the type of a request forbids unknown members, and only if it does not
match they are looked for and left out.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from antiphon.protocol.downgrade import PARAM, Downgrade
from antiphon.protocol.large_body import Body, LargeBody
from antiphon.protocol.parse import convert, decode
from antiphon.protocol.requests import NONE_UNKNOWN, CreateBody, RawCreate, UnknownParams

R = TypeVar("R", bound=RawCreate)

MAX_REPORTED_PARAMS = 5
MAX_REPORTED_NAME_CHARACTERS = 64
_LEAST_SIMILARITY = 0.7
_SUGGESTED = sorted({*CreateBody.__struct_fields__, "input", "tools", "tool_choice"})


def decode_known(body: Body, kind: type[R], what: str = "The request body") -> tuple[R, UnknownParams]:
    """Decode the known members of a request; the others."""
    if isinstance(body, LargeBody):
        values = decode(body, dict[str, Any], what)
        known = {name: values[name] for name in kind.__struct_fields__ if name in values}
        return convert(known, kind, ""), unknown_params(values, kind)
    try:
        return msgspec.json.decode(body, type=kind), NONE_UNKNOWN
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        members = decode(body, dict[str, msgspec.Raw], what)
    unknown = unknown_params(members, kind)
    if unknown.names:
        known = {name: members[name] for name in kind.__struct_fields__ if name in members}
        body = msgspec.json.encode(known)
    return decode(body, kind, what), unknown


def unknown_params(members: Iterable[str], kind: type[RawCreate]) -> UnknownParams:
    """The members that this kind of request does not have, in their order."""
    known = frozenset(kind.__struct_fields__)
    unknown = [name for name in members if name not in known]
    if not unknown:
        return NONE_UNKNOWN
    names = dict.fromkeys(name[:MAX_REPORTED_NAME_CHARACTERS] for name in unknown[:MAX_REPORTED_PARAMS])
    return UnknownParams(tuple(names), max(0, len(unknown) - MAX_REPORTED_PARAMS))


def unknown_downgrades(unknown: UnknownParams) -> list[Downgrade]:
    """What a response reports of them."""
    found = [Downgrade("not_used", f"{PARAM}: unknown{_hint(name)}", (name,)) for name in unknown.names]
    if unknown.more:
        found.append(Downgrade("not_used", f"and {unknown.more} more unknown parameters"))
    return found


def _hint(name: str) -> str:
    nearest = get_close_matches(_snake(name), _SUGGESTED, n=1, cutoff=_LEAST_SIMILARITY)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def _snake(name: str) -> str:
    """`maxOutputTokens` and `max-output-tokens` as `max_output_tokens`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).replace("-", "_")
