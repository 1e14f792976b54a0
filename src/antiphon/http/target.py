"""`Target`: the address of requests, their common headers, and their deadlines and retries."""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from antiphon.errors import SettingsError

_BASE_URL = re.compile(r"https?://[^\s/@?#]+(?:/[^\s?#]*)?")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds. In an event stream only events count as progress, comments do not."""

    connect: float = 5.0
    first_byte: float = 300.0
    """Until the first event of a stream."""
    between: float = 120.0
    """Between two events, or two pieces of another body."""
    answer: float = 600.0
    """Until the first byte of a body that is not a stream: its server computes all of it first."""
    total: float = 3600.0


DEFAULT_DEADLINES = Deadlines()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server to send requests to. `name` identifies it in errors and logs."""

    name: str
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Sent with every request."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Texts that must not appear in an error or a log."""
    deadlines: Deadlines = DEFAULT_DEADLINES
    retries: int = 2
    backoff: float = 0.25
    """Seconds before the first retry, doubled for each further one."""
    heartbeat: float = 10.0
    """Seconds after which a wait returns to its caller."""
    max_body_bytes: int = 64 * 1024 * 1024
    noun: str = "upstream"
    """What it is, in errors."""

    def __post_init__(self) -> None:
        if not _BASE_URL.fullmatch(self.base_url):
            raise SettingsError(
                f"The {self.described} needs a base_url such as 'http://localhost:8000/v1': http or "
                "https, without user, password, query or white space."
            )
        if not all(map(str.isprintable, (*self.headers, *self.headers.values(), *self.secrets))):
            raise SettingsError(
                f"The api_key or a header of the {self.described} contains a line break. Remove it."
            )

    @property
    def described(self) -> str:
        """As errors name it: `upstream 'vllm'`."""
        return f"{self.noun} '{self.name}'"


class Location(NamedTuple):
    """The parts of a base URL."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    path: str
    host_header: str


def locate(target: Target) -> Location:
    """Split the base URL; raises `SettingsError` if it is not one."""
    try:
        url = urlsplit(target.base_url)
        port = url.port or (443 if url.scheme == "https" else 80)
        host = (url.hostname or "").encode("idna").decode()
        path = url.path.rstrip("/").encode("ascii").decode()
    except (ValueError, UnicodeError) as error:
        message = f"The base_url of the {target.described} is not a URL: {error}."
        raise SettingsError(message) from None
    tls = ssl.create_default_context() if url.scheme == "https" else None
    shown = f"[{host}]" if ":" in host else host
    default = port == (443 if tls else 80)
    return Location(host, port, tls, path, shown if default else f"{shown}:{port}")
