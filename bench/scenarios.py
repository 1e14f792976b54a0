"""What is measured: the two APIs, the kinds of work, and scenarios (`kind:connections`)."""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Api:
    """How a contender is spoken to, and what the load generator looks for in its answers."""

    path: str
    bodies: str
    delta: str
    end: str


APIS = {
    "responses": Api("/v1/responses", "resp", '"response.output_text.delta"', "response.completed"),
    "chat": Api("/v1/chat/completions", "chat", '"delta":{"content":"', "[DONE]"),
}
JSON_END = '"usage"'

Work = Literal["create", "retrieve", "resume"]
"""Ask for answers; read a stored one again; go on from a long chain of stored ones."""


@dataclass(frozen=True)
class Kind:
    """One way to put a contender to work; `seconds` are measured after `warm_up`.

    What is `stored` is asked only of contenders that keep state.
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
    stored: bool = False


KINDS = {
    "json": Kind("JSON answers of 100 tokens", "100"),
    "s100": Kind("streams of 100 tokens, each chunk in a write of its own", "stream_100", 100),
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
    "kept": Kind("like json, and every answer is stored", "kept_100", stored=True),
    "k100": Kind("like s100, and every answer is stored", "kept_stream_100", 100, stored=True),
    "retrieve": Kind("one stored answer, read again and again", "kept_100", work="retrieve", stored=True),
    "chain": Kind(
        "going on from 1,000 stored turns of 4 items (takes no connections)",
        "",
        seconds=10,
        work="resume",
        stored=True,
    ),
}
DEFAULT = (
    "json:32", "s100:32", "s1000:32", "s100:1", "paced:256", "hold:256",
    "kept:32", "k100:32", "retrieve:1", "chain",
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

    def shortened(self) -> "Scenario":
        """The same, for a quick run."""
        kind = self.kind
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
