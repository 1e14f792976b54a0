"""API keys: create, list, revoke, delete. A key is ``ap_<id>_<secret>``; the store has an HMAC of the secret.

The secret has 256 random bits, so a fast digest is as secure as a slow one. The pepper is not in the
database: a copy of the database is not sufficient to check a guess.
"""

import hmac
import re
from collections.abc import Collection, Sequence

from antiphon.caller import ALL_SCOPES, DEFAULT_TENANT, SCOPES
from antiphon.errors import InvalidRequest
from antiphon.protocol.ids import Clock, Entropy
from antiphon.store.base import ApiKey
from antiphon.store.ports import KeyStore
from antiphon.store.signals import Signals

PREFIX = "ap"
CHANGED = "keys"
"""The signal for all processes that have a copy of the keys."""

ID_BYTES = 8
SECRET_BYTES = 32
MAX_NAME_CHARACTERS = 100
MAX_TOOLS = 64
MAX_EXPIRY = 253_402_300_799
"""The last second of the year 9999."""
_TENANT = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TOOL = re.compile(r"[a-z0-9_]{1,64}|mcp:[A-Za-z0-9._:\[\]-]{1,255}")


class Keyring:
    """The keys of a store."""

    def __init__(
        self, store: KeyStore, signals: Signals, *, pepper: bytes, clock: Clock, entropy: Entropy
    ) -> None:
        self._store = store
        self._signals = signals
        self._pepper = pepper
        self._clock = clock
        self._entropy = entropy

    async def create(
        self,
        name: str = "",
        tenant: str = DEFAULT_TENANT,
        scopes: Collection[str] = SCOPES,
        lifetime: float | None = None,
        tools: Collection[str] | None = None,
    ) -> tuple[str, ApiKey]:
        """Create a key: its full text, which cannot be recovered later, and the stored key.

        `lifetime` is in seconds; without one it is valid until it is revoked. `tools` are the hosted tools
        that it may use; without them it may use all.
        """
        _check_name(name)
        check_tenant(tenant)
        now = self._clock()
        secret = self._entropy(SECRET_BYTES).hex()
        key = ApiKey(
            id=self._entropy(ID_BYTES).hex(),
            tenant=tenant,
            name=name,
            digest=secret_digest(self._pepper, secret.encode()).hex(),
            scopes=_checked_scopes(scopes),
            created_at=int(now),
            expires_at=None if lifetime is None else _end(now, lifetime),
            tools=None if tools is None else _checked_tools(tools),
        )
        await self._store.add_key(key)
        self._signals.publish(CHANGED)
        return f"{PREFIX}_{key.id}_{secret}", key

    async def revoke(self, key_id: str) -> None:
        """Refuse this key from now on, everywhere within a second."""
        await self._store.revoke_key(key_id, int(self._clock()))
        self._signals.publish(CHANGED)

    async def delete(self, key_ids: Sequence[str]) -> None:
        """Remove these keys, everywhere within a second. Without any key a server on loopback needs none."""
        await self._store.delete_keys(key_ids)
        self._signals.publish(CHANGED)

    async def list(self) -> Sequence[ApiKey]:
        """All keys, revoked and expired ones too, oldest first."""
        return await self._store.list_keys()


def secret_digest(pepper: bytes, secret: bytes) -> bytes:
    """The stored form of a secret."""
    return hmac.digest(pepper, secret, "sha256")


def check_tenant(tenant: str) -> None:
    """Reject an invalid name of a tenant."""
    if _TENANT.fullmatch(tenant) is None:
        raise InvalidRequest(
            "A tenant has 1 to 64 letters, digits, dots, underscores and hyphens.", param="tenant"
        )


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        raise InvalidRequest(
            f"The name of a key has at most {MAX_NAME_CHARACTERS} characters, all printable.", param="name"
        )


def _checked_scopes(scopes: Collection[str]) -> tuple[str, ...]:
    """The distinct scopes, in canonical order."""
    unknown = sorted(set(scopes) - set(ALL_SCOPES))
    if unknown or not scopes:
        what = f"There is no scope '{unknown[0]}'." if unknown else "A key needs at least one scope."
        raise InvalidRequest(f"{what} Use {', '.join(ALL_SCOPES)}.", param="scopes")
    return tuple(scope for scope in ALL_SCOPES if scope in scopes)


def _checked_tools(tools: Collection[str]) -> tuple[str, ...]:
    """The distinct tools, sorted."""
    for tool in tools:
        if _TOOL.fullmatch(tool) is None:
            raise InvalidRequest(
                f"'{tool}' is not a hosted tool. Use its type, such as file_search or mcp, or mcp:SERVER "
                "with the host or the label of an MCP server.",
                param="tools",
            )
    if len(tools) > MAX_TOOLS:
        raise InvalidRequest(f"A key names at most {MAX_TOOLS} tools.", param="tools")
    return tuple(sorted(set(tools)))


def _end(now: float, lifetime: float) -> int:
    if now + lifetime > MAX_EXPIRY:
        raise InvalidRequest("A key expires before the year 10000, or never.", param="lifetime")
    end = int(now + lifetime)
    if end <= now:
        raise InvalidRequest("A key must be valid for a second at least.", param="lifetime")
    return end
