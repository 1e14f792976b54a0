"""What comes beside the words: probabilities of tokens, and citations."""

from typing import cast

from antiphon.backends.chat_completions.wire import TokenWire
from antiphon.protocol.content import JsonObject, Logprob, TopLogprob


def read_logprob(wire: TokenWire) -> Logprob:
    """A token's probability, in our type."""
    best = [TopLogprob(other.token, other.bytes, other.logprob) for other in wire.top_logprobs or ()]
    return Logprob(wire.token, wire.bytes, wire.logprob, best)


def read_citation(wire: JsonObject) -> JsonObject | None:
    """``{"type": "url_citation", "url_citation": {…}}``, flat as the Responses API has it.

    Other annotations are no citations (OpenRouter returns its parsed files in one), and are left out.
    """
    inner: object = wire.get("url_citation", wire)
    if wire.get("type") != "url_citation" or not isinstance(inner, dict):
        return None
    members = cast("JsonObject", inner)
    return {
        "type": "url_citation",
        "url": members.get("url") or "",
        "title": members.get("title") or "",
        "start_index": members.get("start_index") or 0,
        "end_index": members.get("end_index") or 0,
    }
