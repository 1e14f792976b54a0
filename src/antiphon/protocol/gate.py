"""Checks of a profile that run before the types of a request are validated, in the profile's order."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.large_body import Body, LargeBody
from antiphon.protocol.parse import convert, decode, missing
from antiphon.protocol.profile import Check, Profile
from antiphon.protocol.requests import NONE_UNKNOWN, RawCreate, UnknownParams
from antiphon.protocol.unknown_params import decode_known, unknown_params

R = TypeVar("R", bound=RawCreate)
Given = Callable[[str], object]
"""Returns the value of a parameter; None if it is absent."""

_NUMBER = re.compile(r"[0-9]{1,9}")
STATE_PARAMS = ("previous_response_id", "conversation")
SEND_HISTORY = "Send the full conversation history in 'input' instead."


DecodedRequest = tuple[R, tuple[str, ...], UnknownParams]
"""A request, the parameters that its profile ignores, and the unknown ones; it has neither of them."""


def decode_request(
    body: Body, kind: type[R], profile: Profile, what: str = "The request body"
) -> DecodedRequest[R]:
    """Check a request as the profile does, and decode it."""
    if not profile.checks:
        raw, unknown = decode_known(body, kind, what)
        return raw, (), unknown
    if isinstance(body, LargeBody):
        return _decode_checked(body, kind, profile, what)
    try:
        raw = msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_checked(body, kind, profile, what)
    given = partial(getattr, raw)
    _check(given, profile)
    unused = _unused(given, profile)
    raw = replace(raw, **dict.fromkeys(unused)) if unused else raw
    return raw, unused, NONE_UNKNOWN


def _decode_checked(body: Body, kind: type[R], profile: Profile, what: str) -> DecodedRequest[R]:
    """The same for a body that does not match the type: the mismatch may be in an ignored or unknown member,
    and the errors of the profile's checks take precedence."""
    members = decode(body, dict[str, Any], what)
    _check(members.get, profile)
    used = {name for name in kind.__struct_fields__ if name not in profile.ignored}
    raw = convert({name: value for name, value in members.items() if name in used}, kind, "")
    return raw, _unused(members.get, profile), unknown_params(members, kind)


def _check(given: Given, profile: Profile) -> None:
    for check in profile.checks:
        _CHECKS[check](given, profile)


def _unused(given: Given, profile: Profile) -> tuple[str, ...]:
    return tuple(sorted(name for name in profile.ignored if given(name) is not None))


def stateless(param: str, way_out: str = SEND_HISTORY) -> Unsupported:
    """The error for a reference to stored state in a profile without state."""
    message = f"'{param}' is not supported: nothing is stored between requests. {way_out}"
    return Unsupported(message, param=param, code="unsupported_parameter")


def _check_n(given: Given, _profile: Profile) -> None:
    count: object = given("n")
    if count is None:
        return
    if (isinstance(count, str) and _NUMBER.fullmatch(count)) or isinstance(count, float):
        count = float(count)
    if isinstance(count, bool) or not isinstance(count, int | float) or count < 1 or count % 1:
        message = "'n' must be 1, because a response is one answer. Omit it."
        raise InvalidRequest(message, param="n", code="invalid_value")
    if count > 1:
        message = "'n' is more than 1, but a response is one answer. Omit it, and send several requests."
        raise Unsupported(message, param="n", code="n_unsupported")


def refuse_state(given: Given) -> None:
    """Reject a request that refers to stored state."""
    for name in STATE_PARAMS:
        if given(name) is not None:
            raise stateless(name)


def _check_state(given: Given, profile: Profile) -> None:
    if not profile.state:
        refuse_state(given)


def _check_model(given: Given, _profile: Profile) -> None:
    if not given("model"):
        raise missing("model")


def _check_input(given: Given, profile: Profile) -> None:
    if not given("input") and not (profile.instructions_suffice and given("instructions")):
        raise missing("input", "Either 'input' or 'instructions' is required.")


_CHECKS: Mapping[Check, Callable[[Given, Profile], None]] = {
    "n": _check_n,
    "state": _check_state,
    "model": _check_model,
    "input": _check_input,
}
