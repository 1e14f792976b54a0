"""Text of other servers made safe to show: short, on one line, without anything that looks like a secret."""

import re
from collections.abc import Iterable

from antiphon.known_secrets import HIDDEN, KNOWN_SECRETS

_KEY_SHAPES = re.compile(
    r"""(?ix)
    (?<=bearer\s)(?!(?-i:KEY)`)[^\s"',;<>]+             # Authorization: Bearer …; `Bearer KEY` is our advice
    | (?<=basic\s)[a-z0-9+/=_-]{16,}
    | \b(?:sk|pk|ap|rk|gsk|xai|hf|r8|whsec|ghp|github_pat|glpat)[-_][-_a-z0-9*.]{7,}[a-z0-9*]
    | \b(?-i:AKIA|AIza)[-_a-z0-9]{12,}
    | \beyJ[\w-]{8,}\.[\w-]+\.[\w-]*                     # a JSON web token
    | (?<=key=)[^\s"'&,;<>]{6,}
    | (?<=token=)[^\s"'&,;<>]{6,}
    | (?<=password=)[^\s"'&,;<>]+
    | (?<=://)[^\s/@"'<>]+(?=@)                          # user and password in a URL
    """
)
_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)


def redact(text: str, secrets: Iterable[str] = (), limit: int = 500) -> str:
    """`text` on one line, at most `limit` characters, without `secrets` and anything that looks like one."""
    text = KNOWN_SECRETS.scrub(text[: 8 * limit])  # bounds the cost of the patterns below
    for secret in secrets:
        # Not inside a longer word: a key such as "x" must not replace every "x".
        text = re.sub(rf"(?<![\w-]){re.escape(secret)}(?![\w-])", HIDDEN, text)
    text = " ".join(_KEY_SHAPES.sub(HIDDEN, text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def excerpt(body: bytes, secrets: Iterable[str] = (), limit: int = 200) -> str:
    """The beginning of an unexpected body, for an error message."""
    text = _MARKUP.sub(" ", body[: 20 * limit].decode("utf-8", "replace"))
    return redact(text, secrets, limit)
