"""The two eras, as a server sees them: which one a request belongs to, and what it must carry then.

There are no sessions. In the era of handshakes, `initialize` agrees on a version and nothing is remembered:
the client repeats the version in a header. Since 2026-07-28 every request carries everything.
"""

from importlib.metadata import version as installed_version
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, UnsetType, field

from antiphon.mcp.eras import (
    HANDSHAKE_VERSIONS,
    META_PREFIX,
    METHOD_HEADER,
    MODERN_VERSION,
    NAME_HEADER,
    NAMED_METHODS,
    VERSION_HEADER,
    read_header_value,
)
from antiphon.mcp.messages import HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, UNSUPPORTED_VERSION
from antiphon.protocol.content import JsonObject
from antiphon.server.exchange import Exchange
from antiphon.server.mcp.rpc import RpcFault, RpcMessage, read_params

SERVED_HANDSHAKES = tuple(version for version in HANDSHAKE_VERSIONS if version >= "2025-03-26")
"""The newest first. The version before has another transport."""
BATCH_VERSION = "2025-03-26"
"""The only version with batches. It has no header for the version."""
LIST_TTL_MS = 300_000
"""How long a client may use the list of tools, which depends on the key."""
SERVER_INFO = {"name": "antiphon", "title": "Antiphon", "version": installed_version("antiphon")}
INSTRUCTIONS = (
    "Antiphon serves models, an agent and vector stores. list_models names the models for ask_model. Pass a "
    "response_id as previous_response_id to continue a conversation with a model."
)
CAPABILITIES: JsonObject = {"tools": {}}


class Meta(Struct):
    """`_meta` of a request."""

    progress_token: int | str | None = field(name="progressToken", default=None)
    version: str | UnsetType = field(name=f"{META_PREFIX}protocolVersion", default=UNSET)
    capabilities: dict[str, Any] | UnsetType = field(name=f"{META_PREFIX}clientCapabilities", default=UNSET)


_NO_META = Meta()


class _AnyParams(Struct):
    name: str | None = None
    meta: Meta | None = field(name="_meta", default=None)


class _Initialize(Struct, rename="camel"):
    protocol_version: str


class RequestEra(NamedTuple):
    """The era of a request; its version, as far as it is known."""

    modern: bool
    version: str
    progress_token: int | str | None = None

    @property
    def batches(self) -> bool:
        return self.version == BATCH_VERSION

    def dressed(self, result: JsonObject) -> JsonObject:
        """A result with the members that the era demands."""
        if not self.modern:
            return result
        meta = {**result.get("_meta", {}), f"{META_PREFIX}serverInfo": SERVER_INFO}
        return {"resultType": "complete", **result, "_meta": meta}

    def dressed_list(self, result: JsonObject) -> JsonObject:
        """The same for a result that a client may keep."""
        kept = {"ttlMs": LIST_TTL_MS, "cacheScope": "private"} if self.modern else {}
        return self.dressed({**result, **kept})


def names_modern(exchange: Exchange) -> bool:
    """Whether the header of the version is that of the newest era, which has other statuses."""
    return exchange.header_values(VERSION_HEADER) == [MODERN_VERSION]


def header_era(exchange: Exchange) -> RequestEra:
    """The era that the header of the version names: all that is known of a batch or an unreadable message."""
    version = _header(exchange, VERSION_HEADER) or BATCH_VERSION
    if version == MODERN_VERSION or version in SERVED_HANDSHAKES:
        return RequestEra(version == MODERN_VERSION, version)
    raise _unsupported(version)


def request_era(exchange: Exchange, message: RpcMessage) -> RequestEra:
    """The era of a request. Raises `RpcFault` if it does not carry what its era demands."""
    params = read_params(message, _AnyParams)
    meta = params.meta or _NO_META
    header = _header(exchange, VERSION_HEADER)
    if header != MODERN_VERSION and isinstance(meta.version, UnsetType):
        return header_era(exchange)._replace(progress_token=meta.progress_token)
    version = _check_envelope(meta)
    _check_header(VERSION_HEADER, header, version)
    _check_header(METHOD_HEADER, _header(exchange, METHOD_HEADER), message.method)
    if message.method in NAMED_METHODS and params.name is not None:
        name = _header(exchange, NAME_HEADER)
        _check_header(NAME_HEADER, None if name is None else read_header_value(name), params.name)
    if version != MODERN_VERSION:
        raise _unsupported(version)
    return RequestEra(modern=True, version=version, progress_token=meta.progress_token)


def initialized(message: RpcMessage) -> JsonObject:
    """The answer to a handshake: the client's version, or the newest of ours."""
    wanted = read_params(message, _Initialize).protocol_version
    return {
        "protocolVersion": wanted if wanted in SERVED_HANDSHAKES else SERVED_HANDSHAKES[0],
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER_INFO,
        "instructions": INSTRUCTIONS,
    }


def discovered() -> JsonObject:
    """The answer to `server/discover`."""
    return {
        "supportedVersions": [MODERN_VERSION],
        "capabilities": CAPABILITIES,
        "instructions": INSTRUCTIONS,
    }


def _check_envelope(meta: Meta) -> str:
    if isinstance(meta.version, UnsetType) or isinstance(meta.capabilities, UnsetType):
        members = f"'{META_PREFIX}protocolVersion' and '{META_PREFIX}clientCapabilities'"
        raise RpcFault(INVALID_PARAMS, f"'params._meta' must have {members}.")
    return meta.version


def _check_header(name: str, sent: str | None, expected: str) -> None:
    if sent != expected:
        state = "is missing" if sent is None else "is not that of the body"
        raise RpcFault(HEADER_MISMATCH, f"The header '{name}' {state}; send '{expected[:100]}'.")


def _header(exchange: Exchange, name: str) -> str | None:
    values = exchange.header_values(name)
    if len(values) > 1:
        raise RpcFault(HEADER_MISMATCH, f"A request has one '{name}' header at most.")
    return values[0] if values else None


def _unsupported(version: str) -> RpcFault:
    supported = [MODERN_VERSION, *SERVED_HANDSHAKES]
    message = f"The protocol version '{version[:40]}' is not supported; use one of {', '.join(supported)}."
    return RpcFault(UNSUPPORTED_VERSION, message, {"supported": supported, "requested": version[:40]})


def refuse_batch(era: RequestEra) -> None:
    """Raise `RpcFault` unless the version has batches."""
    if not era.batches:
        message = f"Batches do not exist in the protocol version {era.version}; send one message per request."
        raise RpcFault(INVALID_REQUEST, message)
