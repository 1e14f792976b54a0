"""The two APIs, the kinds of work, and the scenarios (`kind:connections`)."""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Api:
    """The API of a contender, and the patterns that the load generator searches in its answers."""

    path: str
    bodies: str
    delta: str
    end: str


APIS = {
    "responses": Api("/v1/responses", "resp", '"response.output_text.delta"', "response.completed"),
    "chat": Api("/v1/chat/completions", "chat", '"delta":{"content":"', "[DONE]"),
    "messages": Api("/v1/messages", "messages", '"text_delta"', "message_stop"),
}
JSON_END = '"usage"'

Work = Literal["create", "retrieve", "resume"]
"""Create responses; retrieve a stored one; continue a long chain of stored ones."""

Asked = Literal["everybody", "stateful", "ours"]
"""The contenders of a kind: all of them, those with state, Antiphon only."""


@dataclass(frozen=True)
class Kind:
    """One kind of load; `seconds` are measured after `warm_up`.

    If it has a kind `beside` it, both are measured in alternation, in `pairs` of slices.
    """

    about: str
    body: str
    deltas: int | None = None
    seconds: float = 3
    warm_up: float = 1
    delay_us: int = 0
    burst: int = 1
    stamp: int = 0
    work: Work = "create"
    header: str = ""
    api: str = ""
    """The API to use, if it is not the contender's own."""
    asked: Asked = "everybody"
    beside: str = ""
    pairs: int = 1

    @property
    def takes(self) -> float:
        """The approximate total duration in seconds."""
        once = self.seconds + self.warm_up + 1
        return once * self.pairs * 2 if self.beside else once


def _beside(about: str, other: str, body: str, header: str = "", api: str = "") -> Kind:
    """Streams of 100 tokens from Antiphon, in slices that alternate with those of the kind `other`."""
    return Kind(about, body, 100, 0.6, 0.3, header=header, api=api, asked="ours", beside=other, pairs=8)


KINDS = {
    "json": Kind("JSON answers of 100 tokens", "100"),
    "s100": Kind("streams of 100 tokens, each chunk in a write of its own", "stream_100", 100),
    "m100": _beside("like s100, in the profile maestro", "s100", "stream_100", "X-Antiphon-Profile: maestro"),
    "p100": _beside("like s100, in the profile proxy", "s100", "stream_100", "X-Antiphon-Profile: proxy"),
    "u100": Kind(
        "like s100, with two tools; their calls are not looked for in the text",
        "untouched_stream_100",
        100,
        2,
        asked="ours",
    ),
    "t100": _beside("like u100, and calls are looked for in the text", "u100", "recovered_stream_100"),
    "an100": _beside("like s100, from an upstream with Anthropic's API", "s100", "anthropic_stream_100"),
    "ge100": _beside("like s100, from an upstream with Gemini's API", "s100", "gemini_stream_100"),
    "re100": _beside("like s100, from an upstream with the Responses API", "s100", "responses_stream_100"),
    "cd100": _beside("like s100, through the door of chat completions", "s100", "stream_100", api="chat"),
    "md100": _beside("like s100, through the door of messages", "s100", "stream_100", api="messages"),
    "cx100": Kind("like s100, with the 40 kB request of Codex", "codex_stream_100", 100, 2, asked="ours"),
    "a100": _beside("s100 beside itself: how fine such comparisons are", "s100", "stream_100"),
    "s1000": Kind("streams of 1,000 tokens, each chunk in a write of its own", "stream_1000", 1000, 4),
    "b100": Kind("streams of 100 tokens, many chunks per write", "stream_100", 100, burst=0),
    "b1000": Kind("streams of 1,000 tokens, many chunks per write", "stream_1000", 1000, 4, burst=0),
    "paced": Kind(
        "streams of 50 tokens/s, each token timed on its way",
        "stream_100",
        100,
        5,
        3,
        delay_us=20_000,
        stamp=1,
    ),
    "hold": Kind(
        "streams of 10 tokens/s, for the memory they take", "stream_100", 100, 10, 2, delay_us=100_000
    ),
    "kept": Kind("like json, and every answer is stored", "kept_100", asked="stateful"),
    "k100": Kind("like s100, and every answer is stored", "kept_stream_100", 100, asked="stateful"),
    "retrieve": Kind(
        "one stored answer, read again and again", "kept_100", work="retrieve", asked="stateful"
    ),
    "chain": Kind(
        "going on from 1,000 stored turns of 4 items (takes no connections)",
        "",
        seconds=10,
        work="resume",
        asked="ours",
    ),
}
DEFAULT = (
    "json:32", "s100:32", "m100:32", "p100:32", "u100:32", "t100:32", "an100:32", "ge100:32", "re100:32",
    "cd100:32", "md100:32", "cx100:1", "s1000:32", "s100:1",
    "paced:256", "hold:256", "kept:32", "k100:32", "retrieve:1", "chain",
)  # fmt: skip
MAX_CONNECTIONS = 4096


@dataclass(frozen=True)
class Scenario:
    """A kind of work over a number of connections."""

    name: str
    kind_name: str
    kind: Kind
    connections: int

    @property
    def unhurried(self) -> bool:
        """Whether times matter more than rates: the mock then yields its core after each write."""
        return self.connections == 1 or self.kind.delay_us > 0

    def control(self) -> str:
        """The mock's options."""
        kind = self.kind
        return f"burst={kind.burst}&delay_us={kind.delay_us}&stamp={kind.stamp}&yield={int(self.unhurried)}"

    def beside(self) -> "Scenario":
        """The scenario that it alternates with, in slices of the same length."""
        name = self.kind.beside
        kind = replace(KINDS[name], seconds=self.kind.seconds, warm_up=self.kind.warm_up)
        return Scenario(f"{name}:{self.connections}", name, kind, self.connections)

    def shortened(self) -> "Scenario":
        """The same, for a quick run."""
        kind = self.kind
        if kind.beside:
            return replace(self, kind=replace(kind, pairs=2))
        quick = replace(kind, seconds=min(kind.seconds / 2, 3), warm_up=kind.warm_up / 2)
        return replace(self, kind=quick)


def parse(text: str) -> Scenario:
    """Read `kind:connections`, or the name of a kind that takes none; raises ValueError."""
    kind_name, _, count = text.partition(":")
    if kind_name not in KINDS:
        raise ValueError(f"unknown kind {kind_name!r}, use one of {', '.join(KINDS)}")
    kind = KINDS[kind_name]
    if kind.work == "resume":
        if text != kind_name:
            raise ValueError(f"{kind_name} takes no connections: say only {kind_name}")
        return Scenario(text, kind_name, kind, 1)
    if not count.isdecimal() or not 1 <= int(count) <= MAX_CONNECTIONS:
        raise ValueError(
            f"{text!r} needs a number of connections from 1 to {MAX_CONNECTIONS}, as in {kind_name}:32"
        )
    return Scenario(text, kind_name, kind, int(count))
