"""``POST /v1/responses``: from the bytes of the body to a validated `CreateResponse`."""

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.content import JsonObject
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.gate import decode_request, refuse_state, stateless
from antiphon.protocol.ids import CONVERSATION, PREVIOUS_RESPONSE_ID
from antiphon.protocol.items import CompactionTrigger, Item, ItemReference
from antiphon.protocol.large_body import Body, LargeBody
from antiphon.protocol.parse import check_metadata, check_text, convert, decode, missing
from antiphon.protocol.parse_items import parse_input
from antiphon.protocol.parse_tools import parse_functions, parse_tool_choice, parse_tools
from antiphon.protocol.profile import OPENAI, Profile
from antiphon.protocol.requests import (
    FOREIGN_PARAMS,
    NONE_UNKNOWN,
    CreateBody,
    CreateResponse,
    RawCreate,
    TextFormat,
    UnknownParams,
)
from antiphon.protocol.unknown_params import decode_known, unknown_params


def parse_create(body: Body, profile: Profile = OPENAI, *, input_optional: bool = False) -> CreateResponse:
    """Parse and check a request. Raises `InvalidRequest` with the parameter's name."""
    if not body:
        raise InvalidRequest("The request body is empty; send a JSON object.", code="invalid_json")
    check_text(body)
    raw, unused, unknown = decode_request(body, RawCreate, profile)
    return check_create(
        raw,
        profile,
        unused=unused,
        unknown=unknown,
        input_optional=input_optional,
        input_bytes=len(body),
    )


def without_items(body: Body) -> bytes:
    """A parsed request in its stored form. Items and tools are removed, because they may contain secrets and
    are stored separately. Of members of other APIs, and of the unknown ones that are reported, only the names
    are stored."""
    if isinstance(body, LargeBody):
        members: JsonObject = decode(body, dict[str, Any])
        given = {name for name, value in members.items() if value is not None}
    else:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        given = {name for name, value in members.items() if bytes(value) != b"null"}
    stored = {
        name: "" if name in FOREIGN_PARAMS else value
        for name, value in members.items()
        if name in _STORED_PARAMS or (name in FOREIGN_PARAMS and name in given)
    }
    return msgspec.json.encode(stored | dict.fromkeys(unknown_params(members, RawCreate).names, ""))


def create_from(**params: Any) -> CreateResponse:
    """A request from Python values, for callers in the same process. They are converted without JSON.

    The values are copied, so the request does not change with the caller's objects.
    """
    unknown = unknown_params(params, RawCreate)
    known = {name: value for name, value in params.items() if name in RawCreate.__struct_fields__}
    raw = convert(msgspec.to_builtins(known, str_keys=True), RawCreate, "")
    return check_create(raw, unknown=unknown)


def check_create(
    raw: RawCreate,
    profile: Profile = OPENAI,
    *,
    input_optional: bool = False,
    unused: tuple[str, ...] = (),
    unknown: UnknownParams = NONE_UNKNOWN,
    input_bytes: int = 0,
) -> CreateResponse:
    """Apply the rules that types cannot express, and parse the parameters with several forms."""
    _check_served(raw, profile)
    if not profile.state:
        refuse_state(partial(getattr, raw))
        raw = replace(raw, store=False)
    _check_exclusive(raw)
    if not input_optional and not (profile.instructions_suffice and raw.instructions):
        _check_input(raw)
    if raw.metadata is not None:
        check_metadata(raw.metadata)
    definitions = Definitions()
    if raw.text is not None and raw.text.format is not None:
        _check_format(raw.text.format, definitions)
    items = _items(raw, definitions, profile)
    if not profile.state or profile.layout != "natural":
        _check_items(items, profile)
    return CreateResponse(
        params=raw,
        items=items,
        tools=_TOOLS[profile.tools](raw.tools, definitions) if raw.tools else (),
        tool_choice=parse_tool_choice(raw.tool_choice) if raw.tool_choice is not None else "auto",
        profile=profile,
        unused=unused,
        foreign_params=_foreign_params(raw),
        unknown=unknown,
        unchecked=definitions.unchecked,
        input_bytes=input_bytes,
    )


_foreign_values = attrgetter(*FOREIGN_PARAMS)
_NONE_GIVEN = (None,) * len(FOREIGN_PARAMS)


def _foreign_params(raw: RawCreate) -> tuple[str, ...]:
    """The given parameters of other APIs. Null, and an `n` of 1, do not count."""
    values: tuple[object, ...] = _foreign_values(raw)
    if values == _NONE_GIVEN:
        return ()
    given = zip(FOREIGN_PARAMS, values, strict=True)
    return tuple(name for name, value in given if value is not None and (name != "n" or value != 1))


def _items(raw: RawCreate, definitions: Definitions, profile: Profile) -> tuple[Item, ...]:
    # An empty text is an empty message. Where instructions suffice, it is the same as no input.
    if raw.input is None or (raw.input == "" and profile.instructions_suffice):
        return ()
    return parse_input(raw.input, definitions)


_STORED_PARAMS = {*CreateBody.__struct_fields__, "tool_choice"}
_TOOLS = {"served": parse_tools, "functions": parse_functions}


def _check_served(raw: RawCreate, profile: Profile) -> None:
    """Reject parameters that the profile does not serve."""
    if raw.background and not (profile.background and profile.state):
        raise _unserved("background", profile)
    if raw.context_management and profile.layout != "natural":
        raise _unserved("context_management", profile)


def _check_items(items: Sequence[Item], profile: Profile) -> None:
    for index, item in enumerate(items):
        if isinstance(item, ItemReference) and not profile.state:
            raise stateless(f"input[{index}]", "Include the item itself instead of the reference to it.")
        if isinstance(item, CompactionTrigger) and profile.layout != "natural":
            raise _unserved(f"input[{index}]", profile)


def _unserved(param: str, profile: Profile) -> Unsupported:
    message = f"'{param}' is not served in the profile '{profile.name}'. Leave it out."
    return Unsupported(message, param=param, code="unsupported_parameter")


def _check_exclusive(raw: RawCreate) -> None:
    if raw.previous_response_id is not None and raw.conversation is not None:
        message = "'previous_response_id' and 'conversation' exclude each other. Send one of them."
        raise InvalidRequest(message, param="previous_response_id", code="mutually_exclusive_parameters")
    _check_ids(raw)
    if raw.background and raw.store is False:
        message = "'background' needs a stored response: leave 'store' out or set it to true."
        raise InvalidRequest(message, param="background", code="mutually_exclusive_parameters")


def _check_ids(raw: RawCreate) -> None:
    if raw.previous_response_id is not None:
        PREVIOUS_RESPONSE_ID.check(raw.previous_response_id)
    if raw.conversation is not None:
        CONVERSATION.check(raw.conversation if isinstance(raw.conversation, str) else raw.conversation.id)


def _check_input(raw: RawCreate) -> None:
    continues = raw.previous_response_id is not None or raw.conversation is not None
    if raw.input is None and raw.messages is not None:
        message = (
            "'messages' is a parameter of POST /v1/chat/completions and POST /v1/messages, and this is "
            "POST /v1/responses. Send the request there, or the messages as 'input'."
        )
        raise InvalidRequest(message, param="messages", code="wrong_endpoint")
    if not raw.input and not continues and raw.prompt is None:
        raise missing("input", "Send a string or a list of items.")


def _check_format(form: TextFormat, definitions: Definitions) -> None:
    if form.type != "json_schema":
        return
    if not form.name:
        raise missing("text.format.name")
    if not isinstance(form.schema, dict):
        raise missing("text.format.schema")
    definitions.schema(form.schema, "text.format.schema")


class RawCount(RawCreate, frozen=True, kw_only=True):
    """The body of ``POST /v1/responses/input_tokens``. The model is optional."""

    model: Annotated[str, Meta(max_length=256)] | None = ""  # pyright: ignore[reportIncompatibleVariableOverride] -- liberal


def parse_count(body: bytes) -> CreateResponse:
    """Parse and check a request to count its input tokens, as `parse_create` does."""
    if not body:
        raise InvalidRequest("The request body is empty; send a JSON object.", code="invalid_json")
    raw, _ = decode_known(body, RawCount)
    counted = raw.instructions is not None or bool(raw.tools)
    return check_create(replace(raw, model=raw.model or ""), input_optional=counted)
