"""Checks of a request's head, before its body is read.

The protocol has bounded the head already; it accepts requests with no Host or two.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from antiphon.errors import Forbidden, HeadersTooLarge, InvalidRequest
from antiphon.protocol.profile import HEADER

MAX_HEADER_BYTES = 32 * 1024
MAX_REMEMBERED_HOSTS = 64
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\[\]:]+)(?::[0-9]*)?")


class Head(Struct, gc=False):
    """The headers that the server reads; it ignores all others."""

    host: bytes = b""
    content_type: bytes = b""
    content_length: bytes = b""
    content_encoding: bytes = b""
    authorization: bytes = b""
    api_key: bytes = b""
    anthropic_version: bytes = b""
    profile: bytes = b""
    trace: bytes = b""
    if_none_match: bytes = b""
    range: bytes = b""
    origin: bytes | None = None


_PROFILE = HEADER.encode()
TRACE_HEADER = b"antiphon-trace"
"""`record`: what is sent upstream for this request, and what comes back, is recorded."""
_DECISIVE = (
    b"host",
    b"content-type",
    b"content-length",
    b"content-encoding",
    b"authorization",
    b"x-api-key",
    b"anthropic-version",
    b"origin",
    b"if-none-match",
    b"range",
    _PROFILE,
    TRACE_HEADER,
)


def read_head(headers: Sequence[tuple[bytes, bytes]]) -> Head:
    """Read the known headers; refuse heads that are too large, or without exactly one Host."""
    fields = dict(headers)
    size = len(b"".join(fields)) + len(b"".join(fields.values()))
    if len(fields) != len(headers):
        size = sum(len(name) + len(value) for name, value in headers)
        _check_repeated([name for name, _ in headers])
    if size > MAX_HEADER_BYTES:
        raise HeadersTooLarge(f"The request headers have {size} bytes; the limit is {MAX_HEADER_BYTES}.")
    value = fields.get
    head = Head(
        value(b"host", b""),
        value(b"content-type", b""),
        value(b"content-length", b""),
        value(b"content-encoding", b""),
        value(b"authorization", b""),
        value(b"x-api-key", b""),
        value(b"anthropic-version", b""),
        value(_PROFILE, b""),
        value(TRACE_HEADER, b""),
        value(b"if-none-match", b""),
        value(b"range", b""),
        value(b"origin"),
    )
    if not head.host:
        raise _no_host()
    if head.api_key and not head.authorization:  # where clients of Anthropic's API send their key
        head.authorization = b"Bearer " + head.api_key
    return head


def _check_repeated(names: Sequence[bytes]) -> None:
    """Refuse headers that decide something and are there twice: a proxy may have read the other one."""
    if names.count(b"host") > 1:
        raise _no_host()
    for name in _DECISIVE:
        if names.count(name) > 1:
            text = name.decode()
            raise InvalidRequest(f"A request has one '{text}' header at most.", param=text)


def _no_host() -> InvalidRequest:
    return InvalidRequest("A request needs exactly one Host header.", code="invalid_host")


class HostGuard:
    """Accepts only names, each with a port or without. On loopback, only loopback names, so that no web page
    reaches the server by DNS rebinding."""

    def __init__(self, names: Iterable[str] | None) -> None:
        self._names = None if names is None else frozenset(name.lower() for name in names)
        self._accepted: set[bytes] = set()
        """Hosts that were checked before; at most `MAX_REMEMBERED_HOSTS`."""

    def check(self, host: bytes) -> None:
        """Refuse an invalid or foreign Host."""
        if host in self._accepted:
            return
        found = _HOST.fullmatch(host.decode("latin-1").lower())
        if found is None:
            raise InvalidRequest(
                "The Host header is invalid: it is a name or an address, and a port.", code="invalid_host"
            )
        if self._names is not None and found["name"].strip("[]") not in self._names:
            raise InvalidRequest(
                f"This server does not answer to the host '{host.decode('latin-1')[:100]}'. "
                "Use localhost, or add the name to server.allowed_hosts.",
                code="invalid_host",
            )
        if len(self._accepted) < MAX_REMEMBERED_HOSTS:
            self._accepted.add(host)


def check_origin(head: Head) -> None:
    """Refuse web pages of other sites: browsers let every page send requests to every server.

    Programs that are not browsers send no Origin and pass.
    """
    if head.origin is None:
        return
    scheme, _, site = head.origin.lower().partition(b"://")
    usual_port = {b"http": b":80", b"https": b":443"}.get(scheme, b"")
    if site.removesuffix(usual_port) == head.host.lower().removesuffix(usual_port):
        return
    raise Forbidden(
        f"Web pages of '{head.origin.decode('latin-1')[:100]}' may not use this server, only those of its "
        f"own host, '{head.host.decode('latin-1')[:100]}'. Programs that are not browsers send no Origin.",
        code="forbidden_origin",
    )
