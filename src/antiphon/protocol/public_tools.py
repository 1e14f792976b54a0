"""The public form of a declared tool, which clients receive and which is stored as plain text.

It omits credentials as the OpenAI API does: `authorization` is absent, `headers` is null, a URL ends after
its host, and a secret of a container has no value.
"""

from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import Item
from antiphon.protocol.tool_items import AdditionalTools, ToolSearchOutput

REDACTED = "<redacted>"
"""Replaces the hidden part of a URL."""
_CONTAINERS = ("container", "environment")
_SECRET = frozenset({"authorization", "headers", "server_url", *_CONTAINERS})
"""The members of a declaration that may hold secrets."""


def public_declaration(body: JsonObject) -> JsonObject:
    """A declaration without its secrets; the same object if it has none."""
    public = dict(body)
    public.pop("authorization", None)
    if public.get("headers") is not None:
        public["headers"] = None
    if "server_url" in public:
        public["server_url"] = _public_url(public["server_url"])
    for name in _CONTAINERS:
        if isinstance(public.get(name), dict):
            public[name] = _public_container(public[name])
    return body if public == body else public


def public_declarations(bodies: Sequence[Any]) -> list[Any]:
    """Declarations without their secrets, as `Response.tools` and items contain them."""
    return [_public(body) for body in bodies]


def public_item(item: Item) -> Item:
    """An item without the secrets of the tools that it declares; the same object if there are none."""
    if not isinstance(item, AdditionalTools | ToolSearchOutput):
        return item
    tools = public_declarations(item.tools)
    return item if tools == item.tools else replace(item, tools=tools)


def is_redacted(body: JsonObject) -> bool:
    """Whether a declaration is the public form of one whose URL was longer."""
    url: object = body.get("server_url")
    return isinstance(url, str) and url.endswith(REDACTED)


def _public(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    declared = cast("JsonObject", body)
    return declared if _SECRET.isdisjoint(declared) else public_declaration(declared)


def _public_url(url: object) -> str | None:
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return REDACTED
    if not host:
        return REDACTED
    origin = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"
    return url if url.rstrip("/").lower() == origin else f"{origin}/{REDACTED}"


def _public_container(container: JsonObject) -> JsonObject:
    """A container without the values of the secrets in its network policy."""
    policy: object = container.get("network_policy")
    if not isinstance(policy, dict) or "domain_secrets" not in policy:
        return container
    shown = cast("JsonObject", policy)
    named: object = shown["domain_secrets"]
    secrets = [
        _named_secret(cast("JsonObject", secret))
        for secret in (cast("list[object]", named) if isinstance(named, list) else ())
        if isinstance(secret, dict)
    ]
    return {**container, "network_policy": {**shown, "domain_secrets": secrets}}


def _named_secret(secret: JsonObject) -> JsonObject:
    return {name: secret[name] for name in ("domain", "name") if name in secret}
