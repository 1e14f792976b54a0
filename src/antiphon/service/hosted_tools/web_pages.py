"""The functions `open_page` and `find_in_page` of `web_search`: the model reads pages of the web."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.protocol.content import JsonObject
from antiphon.protocol.events import WebSearchCallSearching
from antiphon.protocol.items import Item
from antiphon.protocol.tool_items import WebSearchCall
from antiphon.service.hosted_tools.base import ToolScope
from antiphon.turn.chunks import Chunk, HostedItemBegun, HostedItemDone, HostedItemStep
from antiphon.turn.function_forms.file_searches import BYTES_PER_TOKEN, ERROR, SOURCE
from antiphon.turn.function_forms.reading import read_object
from antiphon.turn.function_forms.web_searches import FIND_IN_PAGE, OPEN_PAGE, PART
from antiphon.turn.hosted_calls import HostedCall
from antiphon.turn.tools import HostedForm
from antiphon.web.port import MAX_URL_CHARACTERS, DomainRules, WebPage, WebPages

INCLUDE_RESULTS = "web_search_call.results"
MAX_PATTERN_CHARACTERS = 200
MAX_FINDS = 10
"""Places of one pattern that the model is shown."""
FIND_CONTEXT_CHARACTERS = 400
"""Before and after a place."""

_URL: JsonObject = {
    "type": "string",
    "description": "The complete address of the page, as in the results of a search.",
}
OPEN_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "url": _URL,
        PART: {"type": "integer", "minimum": 1, "description": "The part of a long page; 1 is the first."},
    },
    "required": ["url"],
    "additionalProperties": False,
}
FIND_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "url": _URL,
        "pattern": {
            "type": "string",
            "maxLength": MAX_PATTERN_CHARACTERS,
            "description": "A short text to find, such as one or two words. Upper and lower case are equal.",
        },
    },
    "required": ["url", "pattern"],
    "additionalProperties": False,
}


class _Arguments(msgspec.Struct, frozen=True):
    url: str
    pattern: str
    part: int


@dataclass(frozen=True, slots=True)
class WebPageFunction:
    """One of the functions, for one response. `max_tokens`: of the text that the model is shown."""

    form: HostedForm
    pages: WebPages
    rules: DomainRules
    max_tokens: int
    scope: ToolScope
    repeatable: bool = True

    @property
    def _finds(self) -> bool:
        return self.form.name == FIND_IN_PAGE

    def approval_request(self, call: HostedCall) -> None:
        """A page that is read needs no approval."""

    async def run(self, call: HostedCall) -> AsyncGenerator[Sequence[Chunk], None]:
        """Open the page: `searching` is emitted before, the item after."""
        index, given = call.index, _arguments(call)
        yield [HostedItemBegun(index, WebSearchCall()), HostedItemStep(index, WebSearchCallSearching)]
        if not given.url or (self._finds and not given.pattern):
            raise InvalidRequest("'pattern' must be a text." if given.url else "'url' must be an address.")
        page = await self.pages.open(self.scope.tenant, given.url, self.rules)
        parts = split_text(page.text, self.max_tokens * BYTES_PER_TOKEN)
        text = _found(page, parts, given.pattern) if self._finds else _part_text(page, parts, given.part)
        place = {"function": self.form.name} if self._finds else {"function": OPEN_PAGE, PART: given.part}
        results: list[JsonObject] = [{"url": page.url, "title": page.title, "text": text, SOURCE: place}]
        item = WebSearchCall(status="completed", action=self._action(given))
        if INCLUDE_RESULTS in self.scope.include:
            item = msgspec.structs.replace(item, results=results)
        yield [HostedItemDone(item, {"results": results}, index)]

    def failure(self, call: HostedCall, reason: str) -> HostedItemDone:
        """A page that cannot be opened; the model is shown the reason, and can answer without it."""
        item = WebSearchCall(status="failed", action=self._action(_arguments(call)))
        private: JsonObject = {"results": [{ERROR: reason, SOURCE: {"function": self.form.name}}]}
        return HostedItemDone(item, private, call.index)

    def without_model(self, items: Sequence[Item]) -> str | None:
        """Only a model knows which page."""
        return None

    def _action(self, given: _Arguments) -> JsonObject:
        if self._finds:
            return {"type": FIND_IN_PAGE, "url": given.url, "pattern": given.pattern}
        return {"type": OPEN_PAGE, "url": given.url}


def split_text(text: str, max_bytes: int) -> list[str]:
    """The text in parts, at ends of lines if possible; at least one part."""
    data, parts, start = text.encode(), list[str](), 0
    while len(data) - start > max_bytes:
        end = start + max_bytes
        while data[end] & 0xC0 == 0x80:  # within a character
            end -= 1
        for separator in (b"\n", b" "):
            found = data.rfind(separator, start + max_bytes // 2, end)
            if found > 0:
                end = found + 1
                break
        parts.append(data[start:end].decode())
        start = end
    return [*parts, data[start:].decode()]


def _part_text(page: WebPage, parts: Sequence[str], number: int) -> str:
    """A part of the page, with a note if there are others."""
    if number > len(parts):
        raise InvalidRequest(f"'{PART}' is {number}, but the page has {len(parts)}. Send a smaller number.")
    text = parts[number - 1].strip()
    if len(parts) == 1:
        return text
    note = f"[Part {number} of {len(parts)}.]"
    if number < len(parts):
        note = f"[Part {number} of {len(parts)}. To read on, open the page with '{PART}': {number + 1}.]"
    elif page.is_cut:
        note = f"{note[:-1]} The page is longer; its end cannot be read.]"
    return f"{text}\n\n{note}"


def _found(page: WebPage, parts: Sequence[str], pattern: str) -> str:
    """The places of a pattern, each with its context and the part that it is in."""
    wanted = " ".join(_folded(pattern).split())
    places = list(_places(_folded(page.text), wanted))
    if not places:
        return f"[The page does not contain '{pattern}'. Try a shorter text, or open the page.]"
    ends = [len(parts[0])]
    for part in parts[1:]:
        ends.append(ends[-1] + len(part))
    shown: list[str] = []
    covered = 0
    for place in places[:MAX_FINDS]:
        start = max(covered, place - FIND_CONTEXT_CHARACTERS)
        covered = min(len(page.text), place + len(wanted) + FIND_CONTEXT_CHARACTERS)
        if start < covered and place >= start:
            part = next(number for number, end in enumerate(ends, 1) if place < end)
            where = f"[Part {part} of {len(parts)}]\n" if len(parts) > 1 else ""
            shown.append(f"{where}…{page.text[start:covered].strip()}…")
    more = f"\n\n[Found more than {MAX_FINDS} times.]" if len(places) > MAX_FINDS else ""
    return "\n\n".join(shown) + more


def _places(text: str, wanted: str) -> Iterator[int]:
    """Where the text contains what is wanted; one more than are shown, at most."""
    position = -len(wanted)
    for _ in range(MAX_FINDS + 1):
        position = text.find(wanted, position + len(wanted))
        if position < 0:
            return
        yield position


def _folded(text: str) -> str:
    """The text for comparisons; every character stays one character."""
    return text.replace("İ", "i").lower().replace("\n", " ")


def _arguments(call: HostedCall) -> _Arguments:
    """The arguments of a call; near misses of the schema are accepted."""
    body, _ = read_object(call.arguments)
    url, pattern, part = body.get("url"), body.get("pattern", body.get("query")), body.get(PART, 1)
    if isinstance(part, str) and part.isdecimal():
        part = int(part[:9])
    return _Arguments(
        url=url.strip()[:MAX_URL_CHARACTERS] if isinstance(url, str) else "",
        pattern=pattern.strip()[:MAX_PATTERN_CHARACTERS] if isinstance(pattern, str) else "",
        part=part if isinstance(part, int) and part > 0 else 1,
    )
