"""`Caller`: the tenant, key and scopes of a request. It is passed from the edge to all code that acts for the
caller."""

from typing import Self

from msgspec import Struct

from antiphon.errors import Forbidden

READ = "responses:read"
WRITE = "responses:write"
DELETE = "responses:delete"
SCOPES = (READ, WRITE, DELETE)
"""The scopes of a key. Conversations and files count as responses; models and health need no scope."""
ADMIN = "admin"
"""The scope of an operator: keys of all tenants, the settings and the upstreams. No key has it by default."""
ALL_SCOPES = (*SCOPES, ADMIN)

DEFAULT_TENANT = "default"


class Caller(Struct, frozen=True):
    """A tenant, the key that was presented (None: a key of the settings, or no keys are in use), and what
    that key allows."""

    tenant: str
    scopes: frozenset[str] = frozenset(SCOPES)
    key_id: str | None = None
    tools: frozenset[str] | None = None
    """The hosted tools that the key may use: a type, or `mcp:SERVER` for one MCP server. None: all."""

    def require(self, scope: str) -> None:
        """Raise `Forbidden` for a caller without this scope."""
        if scope not in self.scopes:
            raise Forbidden(f"This API key may not do that: it lacks the scope '{scope}'.")

    def may_use(self, tool: str, server: str | None = None) -> bool:
        """Whether the key may use a hosted tool of this type, on this MCP server."""
        allowed = self.tools
        return allowed is None or tool in allowed or (bool(server) and f"{tool}:{server}" in allowed)

    @classmethod
    def of(cls, tenant: str) -> Self:
        """A caller of this process itself: every scope but that of operators, no key."""
        return cls(tenant)


OPERATOR = Caller(DEFAULT_TENANT, frozenset(ALL_SCOPES))
"""The caller with a key of the settings; every caller, if there are no keys."""
ANONYMOUS = Caller("", frozenset())
"""The caller of a request whose key was not checked."""
