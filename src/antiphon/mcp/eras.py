"""The two eras of the protocol: requests that carry everything, and sessions that begin with a handshake."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MODERN_VERSION = "2026-07-28"
HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The newest first; the first is offered."""
CLIENT_INFO = {"name": "antiphon", "version": "1"}
CLIENT_CAPABILITIES: dict[str, Any] = {}
"""None: no roots, no sampling, no elicitation."""

META_PREFIX = "io.modelcontextprotocol/"
"""Of the members of `_meta` that the protocol defines."""
VERSION_HEADER = "mcp-protocol-version"
METHOD_HEADER = "mcp-method"
NAME_HEADER = "mcp-name"
NAMED_METHODS = frozenset({"tools/call"})
"""Methods whose name of a tool is repeated in a header."""
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_WRAPPED = re.compile(r"=\?base64\?(.*)\?=")


@dataclass(frozen=True, slots=True)
class Modern:
    """Every request carries version, capabilities and identity. There are no sessions."""

    version: str = MODERN_VERSION

    def params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters as they are sent."""
        meta = {
            **params.get("_meta", {}),
            f"{META_PREFIX}protocolVersion": self.version,
            f"{META_PREFIX}clientInfo": CLIENT_INFO,
            f"{META_PREFIX}clientCapabilities": CLIENT_CAPABILITIES,
        }
        return {**params, "_meta": meta}

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """The headers of a request over HTTP."""
        headers = {VERSION_HEADER: self.version, METHOD_HEADER: method}
        if method in NAMED_METHODS:
            headers[NAME_HEADER] = header_value(params["name"])
        return headers


@dataclass(frozen=True, slots=True)
class Handshake:
    """A session with a version that both sides agreed on; None before that."""

    version: str | None = None

    def params(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The parameters as they are sent."""
        return params

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """The headers of a request over HTTP."""
        return {VERSION_HEADER: self.version} if self.version else {}


Era = Modern | Handshake


def header_value(text: str) -> str:
    """A text as the value of a header; in Base64 if it could not be one."""
    if _PLAIN.fullmatch(text) and not _WRAPPED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'surrogatepass')).decode()}?="


def read_header_value(value: str) -> str | None:
    """The text of a header that `header_value` wrote; None if it is not valid Base64 of UTF-8."""
    found = _WRAPPED.fullmatch(value)
    if found is None:
        return value
    try:
        return base64.b64decode(found[1], validate=True).decode()
    except ValueError:
        return None
