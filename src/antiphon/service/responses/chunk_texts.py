"""The texts in chunks, as the secret filter needs them: the pieces of a longer text, and all others."""

from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import AntiphonError
from antiphon.known_secrets import KnownSecrets
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrade
from antiphon.protocol.events import CodeInterpreterCallCodeDelta, HostedEvent, McpCallArgumentsDelta
from antiphon.turn.chunks import (
    AnnotationAdded,
    CallDelta,
    CallStarted,
    Chunk,
    DowngradesAdded,
    Failed,
    HostedItemBegun,
    HostedItemDone,
    HostedItemStep,
    ItemBegun,
    ReasoningDelta,
    ReasoningSummaryDelta,
    RefusalDelta,
    TextDelta,
    ToolsFound,
)

Delta = TextDelta | RefusalDelta | ReasoningDelta | ReasoningSummaryDelta | CallDelta | HostedItemStep
"""A chunk with a piece of a longer text. A `HostedItemStep` is one if its event is in `STEP_DELTAS`."""
STEP_DELTAS: tuple[type[HostedEvent], ...] = (CodeInterpreterCallCodeDelta, McpCallArgumentsDelta)
"""The events of hosted tools that report a piece of a text; `HostedItemStep.fields` contains it alone."""

_Value = TypeVar("_Value", bound=Struct | JsonObject)


def text_of(delta: Delta) -> str:
    """The piece."""
    match delta:
        case CallDelta():
            return delta.arguments
        case HostedItemStep():
            return str(delta.fields[0])
        case _:
            return delta.text


def with_text(delta: Delta, text: str) -> Delta:
    """The same with another text. Log probabilities are left out: they repeat the text."""
    match delta:
        case CallDelta():
            return CallDelta(delta.index, text)
        case HostedItemStep():
            return HostedItemStep(delta.index, delta.event, (text,))
        case TextDelta():
            return TextDelta(text)
        case _:
            return replace(delta, text=text)


def rest_from(delta: Delta, at: int) -> Delta:
    """The same without its first characters. Log probabilities stay with the rest."""
    rest = text_of(delta)[at:]
    return TextDelta(rest, delta.logprobs) if isinstance(delta, TextDelta) else with_text(delta, rest)


def scrubbed(chunk: Chunk, secrets: KnownSecrets) -> Chunk:
    """The chunk without the secrets in its complete texts, names and JSON values.

    Untouched are values that no client can read, because they are sealed (`ProviderStateAdded`, `Compacted`),
    and those of the client itself (`StopSequenceFound`).
    """
    match chunk:
        case CallStarted():
            return CallStarted(chunk.index, secrets.scrub(chunk.call_id), secrets.scrub(chunk.name))
        case ItemBegun():
            return ItemBegun(secrets.scrub(chunk.phase)) if chunk.phase else chunk
        case AnnotationAdded():
            return AnnotationAdded(_scrubbed_json(chunk.annotation, secrets), chunk.covers)
        case DowngradesAdded():
            return DowngradesAdded(tuple(_scrubbed_downgrade(found, secrets) for found in chunk.downgrades))
        case ToolsFound():
            found = tuple(_scrubbed_json(tool, secrets) for tool in chunk.tools)
            return ToolsFound(_scrubbed_json(chunk.arguments, secrets), found)
        case HostedItemBegun():
            return replace(chunk, item=_scrubbed_json(chunk.item, secrets))
        case HostedItemStep():
            fields = (secrets.scrub(one) if isinstance(one, str) else one for one in chunk.fields)
            return replace(chunk, fields=tuple(fields)) if chunk.fields else chunk
        case HostedItemDone():
            private = None if chunk.private is None else _scrubbed_json(chunk.private, secrets)
            return replace(chunk, item=_scrubbed_json(chunk.item, secrets), private=private)
        case Failed():
            _scrub_error(chunk.error, secrets)
            return chunk
        case _:
            return chunk


def _scrubbed_downgrade(found: Downgrade, secrets: KnownSecrets) -> Downgrade:
    return replace(found, text=secrets.scrub(found.text), params=tuple(map(secrets.scrub, found.params)))


def _scrub_error(error: AntiphonError, secrets: KnownSecrets) -> None:
    error.message = secrets.scrub(error.message)
    error.args = (error.message,)
    if error.code is not None:
        error.code = secrets.scrub(error.code)
    if error.param is not None:
        error.param = secrets.scrub(error.param)


def _scrubbed_json(value: _Value, secrets: KnownSecrets) -> _Value:
    """A struct or an object, the same if it has no secret."""
    return _scrubbed_value(value, secrets) if secrets.are_in(msgspec.json.encode(value).decode()) else value


def _scrubbed_value(value: Any, secrets: KnownSecrets) -> Any:
    match value:
        case str():
            return secrets.scrub(value)
        case list():
            return [_scrubbed_value(element, secrets) for element in cast("list[Any]", value)]
        case tuple():
            return tuple(_scrubbed_value(element, secrets) for element in cast("tuple[Any, ...]", value))
        case dict():
            members = cast("JsonObject", value)
            return {secrets.scrub(name): _scrubbed_value(member, secrets) for name, member in members.items()}
        case Struct():
            names = value.__struct_fields__
            return replace(value, **{name: _scrubbed_value(getattr(value, name), secrets) for name in names})
        case _:
            return value
