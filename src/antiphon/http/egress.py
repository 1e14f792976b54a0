"""The egress policy: every connection to another host passes it before it is opened."""

from typing import NamedTuple, Protocol


class Destination(NamedTuple):
    """Where a connection is about to go."""

    host: str
    port: int
    tls: bool


class EgressPolicy(Protocol):
    """Decides whether a connection may be opened."""

    async def permit(self, destination: Destination) -> str:
        """Return the host or address to connect to, or raise a `BackendError`.

        A policy that judges addresses resolves the name itself and returns the address that it has judged, so
        that a second lookup cannot lead elsewhere. TLS still verifies the certificate of `destination.host`.
        """
        ...


class AllowConfigured:
    """Permits every destination. For addresses that operators configure, not for those of requests."""

    async def permit(self, destination: Destination) -> str:
        return destination.host


ALLOW_CONFIGURED = AllowConfigured()
