"""Sessions of the page: a signed cookie that stands for an API key.

The cookie names the key, when it ends and a token; nothing is stored, so all replicas with the same sealing
key accept it. The key is checked with each request: a session ends with its key. The page sends the token in
a header of its own, which no other web page can do (`antiphon-csrf`), and the origin of the request is
checked.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable

import msgspec
from msgspec import Struct

from antiphon.caller import Caller
from antiphon.errors import Forbidden, Unauthorized
from antiphon.protocol.ids import Entropy
from antiphon.server.auth import Keys

COOKIE = "antiphon_session"
"""The beginning of the name of the cookie; `cookie_name` adds the port."""
CSRF_HEADER = "antiphon-csrf"
LIFETIME_SECONDS = 12 * 3600
CSRF_BYTES = 18
MAX_COOKIE_CHARACTERS = 1024

_PORT = re.compile(r":([0-9]{1,5})\Z")

ReadHeader = Callable[[str], list[str]]
"""The values of a header of the request."""


class Session(Struct, frozen=True, array_like=True):
    """The content of a cookie: a reference to the key, the end of the session and the token."""

    key: str
    ends: int
    csrf: str


_decoder = msgspec.json.Decoder(Session)


class Sessions:
    """Makes and checks the cookies of sessions."""

    def __init__(self, keys: Keys, *, secret: bytes, entropy: Entropy) -> None:
        self._keys = keys
        self._secret = secret
        self._entropy = entropy

    def open(self, api_key: str) -> tuple[str, Session, Caller]:
        """The value of the cookie for a key, its content and the caller. Raises `Unauthorized`."""
        caller = self._keys.check(b"Bearer " + api_key.strip().encode("utf-8", "replace"))
        csrf = base64.urlsafe_b64encode(self._entropy(CSRF_BYTES)).decode()
        session = Session(
            self._keys.reference(api_key.strip()), int(self._keys.clock()) + LIFETIME_SECONDS, csrf
        )
        return self._sign(session), session, caller

    def find(self, header: ReadHeader) -> tuple[Session, Caller] | None:
        """The session of a request and its caller; None if there is none, it has ended, or its key has."""
        value = _cookie(header("cookie"), cookie_name(header("host")))
        session = None if value is None else self._verified(value)
        if session is None or session.ends <= self._keys.clock():
            return None
        try:
            return session, self._keys.check_reference(session.key)
        except Unauthorized:
            return None

    def authenticate(self, header: ReadHeader) -> Caller | None:
        """The caller of a request without a key; None if it has no session. Raises `Forbidden` without the
        token."""
        if (found := self.find(header)) is None:
            return None
        session, caller = found
        sent = header(CSRF_HEADER)
        if len(sent) != 1 or not hmac.compare_digest(sent[0].encode("latin-1"), session.csrf.encode()):
            raise Forbidden(
                f"A request with the cookie of a session needs its token in the header '{CSRF_HEADER}'; "
                "GET /v1/session has it. Programs send their API key instead.",
                code="csrf_token_required",
            )
        return caller

    def _sign(self, session: Session) -> str:
        content = base64.urlsafe_b64encode(msgspec.json.encode(session)).decode().rstrip("=")
        return f"{content}.{self._signature(content)}"

    def _verified(self, value: str) -> Session | None:
        content, _, signature = value.partition(".")
        if not hmac.compare_digest(signature.encode("latin-1", "replace"), self._signature(content).encode()):
            return None
        try:
            return _decoder.decode(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
        except (binascii.Error, ValueError, msgspec.MsgspecError):
            return None

    def _signature(self, content: str) -> str:
        return hmac.digest(self._secret, content.encode("utf-8", "replace"), "sha256").hex()


def cookie_name(hosts: list[str]) -> str:
    """The name of the cookie at this Host. It contains the port: browsers send the cookies of a host to all
    of its ports, where two servers would overwrite each other's session."""
    port = _PORT.search(hosts[0]) if hosts else None
    return COOKIE if port is None else f"{COOKIE}_{port[1]}"


def set_cookie(name: str, value: str, *, secure: bool) -> bytes:
    """The header that starts a session; an empty value ends it."""
    seconds = LIFETIME_SECONDS if value else 0
    tail = "; Secure" if secure else ""
    return f"{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{tail}".encode()


def _cookie(headers: list[str], wanted: str) -> str | None:
    """The value of the cookie; None unless there is exactly one of a plausible size."""
    pairs = [pair.strip().partition("=") for header in headers for pair in header.split(";")]
    values = [value for name, _, value in pairs if name == wanted]
    return values[0] if len(values) == 1 and len(values[0]) <= MAX_COOKIE_CHARACTERS else None
