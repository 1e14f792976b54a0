"""The secrets of this process: keys of upstreams and of clients, the sealing key, passwords of databases.

They are registered where they are read (`antiphon.wiring`), and removed from whatever leaves the process: log
lines, error messages, the output of models and of tools.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

HIDDEN = "[redacted]"
MIN_SECRET_CHARACTERS = 16
"""Shorter texts are not registered: a key such as `local-key` protects nothing, and may be in an answer."""
START_CHARACTERS = 4
"""The characters by which the beginning of a secret is recognised."""
MAX_SHOWN_CHARACTERS = 16
"""How much of a secret that is broken off is shown, and at most half of it: keys have a public prefix."""

_NEVER = re.compile(r"(?!)")
_SECRET_HEADERS = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
_IN_URLS = re.compile(
    r"(?P<before>[?&;](?:[\w.-]*(?:key|token|secret|password|passwd|pwd|signature|credential)|sig|auth|code)=)"
    r"[^\s&;#\"'<>]+"
    r"|(?P<scheme>://)[^\s/?#@\"'<>]+(?=@)",
    re.IGNORECASE,
)


class KnownSecrets:
    """A set of secrets, and the patterns that find them."""

    def __init__(self) -> None:
        self._longest_first: tuple[str, ...] = ()
        self._encoded: tuple[bytes, ...] = ()
        self.complete: re.Pattern[str] = _NEVER
        """Matches a secret."""
        self.starts: re.Pattern[str] = _NEVER
        """Matches the first characters of a secret."""

    def __bool__(self) -> bool:
        return bool(self._longest_first)

    def add(self, *secrets: str) -> None:
        """Register secrets, also as they are written in JSON; short ones are ignored."""
        found = {
            form
            for secret in secrets
            if len(secret) >= MIN_SECRET_CHARACTERS
            for form in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
        }
        if found <= set(self._longest_first):
            return
        self._longest_first = tuple(sorted(found.union(self._longest_first), key=len, reverse=True))
        self._encoded = tuple(secret.encode("utf-8", "surrogatepass") for secret in self._longest_first)
        self.complete = re.compile("|".join(map(re.escape, self._longest_first)))
        starts = sorted({secret[:START_CHARACTERS] for secret in self._longest_first})
        self.starts = re.compile("|".join(map(re.escape, starts)))

    def scrub(self, text: str) -> str:
        """The text without secrets."""
        return self.complete.sub(HIDDEN, text) if self.are_in(text) else text

    def are_in(self, text: str) -> bool:
        """Whether the text contains a secret. In a long text this is much faster than the pattern."""
        for secret in self._longest_first:  # noqa: SIM110, any() takes twice as long
            if secret in text:
                return True
        return False

    def are_in_bytes(self, data: bytes) -> bool:
        """The same for UTF-8."""
        for secret in self._encoded:  # noqa: SIM110, any() takes twice as long
            if secret in data:
                return True
        return False

    def open_from(self, text: str) -> int:
        """Where the beginning of a secret starts that ends the text; the length of the text if none does."""
        return min((at for at, _ in self._open(text)), default=len(text))

    def hidden_from(self, text: str) -> int:
        """The same for a text that is broken off, if too much of the secret would be shown."""
        return min(
            (
                at
                for at, characters in self._open(text)
                if len(text) - at > min(characters // 2, MAX_SHOWN_CHARACTERS)
            ),
            default=len(text),
        )

    def _open(self, text: str) -> Iterator[tuple[int, int]]:
        """The places where the beginnings of secrets start that end the text, with the lengths of these
        secrets."""
        for secret in self._longest_first:
            start = secret[:START_CHARACTERS]
            at = text.find(start, max(0, len(text) - len(secret) + 1))
            while at >= 0 and not secret.startswith(text[at:]):
                at = text.find(start, at + 1)
            if at >= 0:
                yield at, len(secret)


KNOWN_SECRETS: Final = KnownSecrets()
"""Those of this process."""


def header_secrets(headers: Iterable[tuple[str, str]]) -> list[str]:
    """The credentials in headers: `Bearer KEY` has one."""
    return [value.split()[-1] for name, value in headers if _SECRET_HEADERS.search(name) and value.strip()]


def is_secret_header(name: str) -> bool:
    """Whether a header of this name may hold a credential."""
    return _SECRET_HEADERS.search(name) is not None


def url_password(url: str) -> str:
    """The password in a URL; empty if there is none."""
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


def without_url_secrets(text: str) -> str:
    """The text with `?key=…` and `user:password@` in its URLs redacted."""
    if "=" not in text and "@" not in text:
        return text
    return _IN_URLS.sub(lambda found: f"{found['before'] or found['scheme']}{HIDDEN}", text)
