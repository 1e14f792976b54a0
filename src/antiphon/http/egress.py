"""The egress policy: every connection to another host passes it before it is opened."""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from antiphon.errors import BackendRefused, SettingsError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NOT_PERMITTED = "egress_not_permitted"
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv4 addresses as hosts with IPv6 alone see them (NAT64)."""


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


class AllowPublic:
    """Permits public addresses, and the hosts, addresses and networks that the operator allows; never those
    that the operator denies.

    For addresses of requests: others would let a client reach into the networks of the server.
    """

    def __init__(self, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> None:
        """Raises `SettingsError` for an entry that is no host, address or network."""
        self._allowed = _parse_entries("egress.allow", allow)
        self._denied = _parse_entries("egress.deny", deny)

    async def permit(self, destination: Destination) -> str:
        found = await asyncio.get_running_loop().getaddrinfo(
            destination.host, destination.port, type=socket.SOCK_STREAM
        )
        host = destination.host.lower().rstrip(".")
        if self._denied.has_domain_of(host):
            raise _denied(destination.host)
        addresses = [str(row[4][0]) for row in found]
        left = [address for address in addresses if not self._denied.has_address(_parsed(address))]
        if addresses and not left:
            raise _denied(destination.host)
        if host in self._allowed.hosts:
            return left[0]
        for address in left:
            if self._is_allowed(_parsed(address)):
                return address
        message = (
            f"Connections to '{destination.host}' are not permitted: its address is not public. The operator "
            "can allow it with egress.allow."
        )
        raise BackendRefused(message, status=403, code=NOT_PERMITTED)

    def _is_allowed(self, address: Address) -> bool:
        if self._allowed.has_address(address):
            return True
        real = _real(address)
        return real.is_global and not (real.is_multicast or real.is_reserved or real.is_unspecified)


class _Entries(NamedTuple):
    """The entries of one setting."""

    hosts: frozenset[str]
    networks: tuple[Network, ...]

    def has_domain_of(self, host: str) -> bool:
        """Whether the host, or a domain that it belongs to, is an entry."""
        labels = host.split(".")
        return any(".".join(labels[start:]) in self.hosts for start in range(len(labels)))

    def has_address(self, address: Address) -> bool:
        """Whether an entry contains the address, or the IPv4 address that it stands for."""
        real = _real(address)
        return any(address in network or real in network for network in self.networks)


def _parse_entries(setting: str, entries: Iterable[str]) -> _Entries:
    hosts, networks = set[str](), list[Network]()
    for entry in entries:
        try:
            networks.append(ipaddress.ip_network(entry, strict=False))
        except ValueError:
            if not entry or any(mark in entry for mark in "/:@ *"):
                message = (
                    f"{setting}: '{entry}' is neither a host such as 'files.internal', nor an "
                    "address, nor a network such as '10.0.0.0/8'."
                )
                raise SettingsError(message) from None
            hosts.add(entry.lower().rstrip("."))
    return _Entries(frozenset(hosts), tuple(networks))


def _denied(host: str) -> BackendRefused:
    message = f"Connections to '{host}' are not permitted: the operator denies them (egress.deny)."
    return BackendRefused(message, status=403, code=NOT_PERMITTED)


def _parsed(address: str) -> Address:
    return ipaddress.ip_address(address.partition("%")[0])


def _real(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for; else the address itself."""
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
