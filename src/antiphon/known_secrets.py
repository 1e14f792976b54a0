"""The secrets of this process: keys of upstreams and of clients, the sealing key, passwords of databases.

They are registered where they are read (`antiphon.wiring`), and removed from whatever leaves the process: log
lines, error messages, the output of models and of tools.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

HIDDEN = "[redacted]"
MIN_SECRET_CHARACTERS = 16
"""Shorter texts are not registered: a key such as `local-key` protects nothing, and may be in an answer."""
START_CHARACTERS = 4
"""The characters by which the beginning of a secret is recognised."""

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
        self._secrets: set[str] = set()
        self.complete: re.Pattern[str] = _NEVER
        """Matches a secret."""
        self.starts: re.Pattern[str] = _NEVER
        """Matches the first characters of a secret."""

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def add(self, *secrets: str) -> None:
        """Register secrets; short ones are ignored."""
        found = {secret for secret in secrets if len(secret) >= MIN_SECRET_CHARACTERS} - self._secrets
        if not found:
            return
        self._secrets |= found
        longest_first = sorted(self._secrets, key=len, reverse=True)
        self.complete = re.compile("|".join(map(re.escape, longest_first)))
        starts = sorted({secret[:START_CHARACTERS] for secret in self._secrets})
        self.starts = re.compile("|".join(map(re.escape, starts)))

    def scrub(self, text: str) -> str:
        """The text without secrets."""
        return self.complete.sub(HIDDEN, text)

    def ends_within(self, text: str) -> bool:
        """Whether the text ends with the beginning of a secret."""
        for secret in self._secrets:
            at = text.find(secret[:START_CHARACTERS], max(0, len(text) - len(secret) + 1))
            while at >= 0:
                if secret.startswith(text[at:]):
                    return True
                at = text.find(secret[:START_CHARACTERS], at + 1)
        return False


KNOWN_SECRETS: Final = KnownSecrets()
"""Those of this process."""


def header_secrets(headers: Iterable[tuple[str, str]]) -> list[str]:
    """The credentials in headers: `Bearer KEY` has one."""
    return [value.split()[-1] for name, value in headers if _SECRET_HEADERS.search(name) and value.strip()]


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
