"""Scripts of API keys, and of the fingerprint of the sealing key, from which their digests are derived."""

from collections.abc import Sequence

from antiphon.errors import NotFound
from antiphon.store.base import ApiKey
from antiphon.store.database import Row, Script, Statement

_TOOL = "tool:"
"""The prefix of a hosted tool in the column of the scopes. The prefix alone: the key may use no tool."""


def add(key: ApiKey) -> Script[None]:
    """Save a key."""
    row = (
        *(key.id, key.tenant, key.name, key.digest, _permissions(key)),
        *(key.created_at, key.expires_at, key.revoked_at),
    )
    yield Statement("add_key", row)


def everything() -> Script[Sequence[ApiKey]]:
    """All keys, oldest first."""
    rows = yield Statement("all_keys")
    return [_key(row) for row in rows]


def _key(row: Row) -> ApiKey:
    key_id, tenant, name, digest, permissions, created_at, expires_at, revoked_at = row
    return ApiKey(
        id=key_id,
        tenant=tenant,
        name=name,
        digest=digest,
        scopes=tuple(word for word in permissions.split() if not word.startswith(_TOOL)),
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        tools=_tools(permissions),
    )


def _tools(permissions: str) -> tuple[str, ...] | None:
    tools = [word.removeprefix(_TOOL) for word in permissions.split() if word.startswith(_TOOL)]
    return tuple(filter(None, tools)) if tools else None


def usable_tools(permissions: str | None) -> frozenset[str] | None:
    """The hosted tools that a key may use, from its column; None: all. A deleted key may use none."""
    tools = () if permissions is None else _tools(permissions)
    return None if tools is None else frozenset(tools)


def _permissions(key: ApiKey) -> str:
    """The column of the scopes, which also holds the tools: versions that do not know them ignore them."""
    tools = () if key.tools is None else key.tools or ("",)
    return " ".join((*key.scopes, *(f"{_TOOL}{tool}" for tool in tools)))


def revoke(key_id: str, now: int) -> Script[None]:
    """Revoke a key. Revoking it again changes nothing."""
    if not (yield Statement("revoke_key", (key_id, now))):
        raise _not_found(key_id)


def delete(key_ids: Sequence[str]) -> Script[None]:
    """Remove keys; if one of them does not exist, none is removed."""
    for key_id in key_ids:
        if not (yield Statement("delete_key", (key_id,))):
            raise _not_found(key_id)


def find_seal_key() -> Script[str | None]:
    """The recorded fingerprint; None if there is none."""
    rows = yield Statement("find_seal_key")
    return str(rows[0][0]) if rows else None


def record_seal_key(fingerprint: str) -> Script[str]:
    """The recorded fingerprint. If there is none, this one is recorded."""
    yield Statement("add_seal_key", (fingerprint,))
    rows = yield Statement("find_seal_key")
    return str(rows[0][0])


def replace_seal_key(fingerprint: str) -> Script[None]:
    """Record this fingerprint instead of the previous one."""
    yield Statement("replace_seal_key", (fingerprint,))


def _not_found(key_id: str) -> NotFound:
    return NotFound(f"Key with id '{key_id}' not found. `antiphon keys list` shows all keys.")
