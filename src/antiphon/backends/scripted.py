"""The public fake: a backend that plays a script. For tests, examples and demonstrations; needs no model."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Protocol

from antiphon.backends.base import ModelInfo
from antiphon.backends.features import FEATURES, FUNCTIONS, NATIVE, Features
from antiphon.errors import BackendError
from antiphon.protocol.downgrade import Downgrade
from antiphon.turn.chunks import Chunk, Finished, TextDelta
from antiphon.turn.constraints import Constraint
from antiphon.turn.context import TurnRequest

Step = Sequence[Chunk] | BackendError
"""A batch of chunks, or an error to raise at this point."""


_EVERYTHING: Features = dict.fromkeys(FEATURES, NATIVE)


class Play(Protocol):
    """Makes the script of one turn from the turn itself; an async generator may wait between its steps."""

    def __call__(self, turn: TurnRequest, /) -> Iterable[Step] | AsyncGenerator[Step, None]: ...


Script = Sequence[Step] | Play


class ScriptedTurn:
    """One turn that will be played."""

    def __init__(
        self, steps: Callable[[], AsyncGenerator[Sequence[Chunk], None]], unenforced: frozenset[Constraint]
    ) -> None:
        self.downgrades: tuple[Downgrade, ...] = ()
        self.unenforced = unenforced
        self.chunks = steps


class ScriptedBackend:
    """Plays the first script for the first turn, and so on; the last one is repeated for all further turns.

    `turns` contains the requested turns, in order. It does not enforce constraints: the caller checks them.
    """

    def __init__(
        self,
        *scripts: Script,
        name: str = "scripted",
        models: Sequence[str] = ("scripted",),
        unenforced: frozenset[Constraint] = frozenset(),
        features: Features = _EVERYTHING,
    ) -> None:
        if not scripts:
            raise ValueError("A scripted backend needs a script; see ScriptedBackend.saying.")
        self.name = name
        self.turns: list[TurnRequest] = []
        self.closed = False
        self._scripts = scripts
        self._models = models
        self._unenforced = unenforced
        self._features = features

    @classmethod
    def saying(cls, *deltas: str) -> "ScriptedBackend":
        """A backend that always gives this answer, one delta for each argument."""
        return cls([*([TextDelta(delta)] for delta in deltas), [Finished("stop")]])

    @property
    def natives(self) -> frozenset[str]:
        """Functions only."""
        return FUNCTIONS

    def features(self, model: str) -> Features:
        """Everything is native unless other features were given."""
        return self._features

    async def context_window(self, model: str) -> int | None:
        """Unknown: a script has no window."""
        return None

    def prepare(self, turn: TurnRequest) -> ScriptedTurn:
        """Note the turn; its script is the next one."""
        script = self._scripts[min(len(self.turns), len(self._scripts) - 1)]
        self.turns.append(turn)
        return ScriptedTurn(lambda: _play(script, turn), self._unenforced)

    async def models(self) -> Sequence[ModelInfo]:
        """The names that were given."""
        return [ModelInfo(name) for name in self._models]

    async def aclose(self) -> None:
        """Record that it was closed."""
        self.closed = True


async def _play(script: Script, turn: TurnRequest) -> AsyncGenerator[Sequence[Chunk], None]:
    steps = script(turn) if callable(script) else script
    if isinstance(steps, AsyncGenerator):
        async with aclosing(steps):
            async for step in steps:
                yield _batch(step)
    else:
        for step in steps:
            yield _batch(step)


def _batch(step: Step) -> Sequence[Chunk]:
    if isinstance(step, BackendError):
        raise step
    return step
