"""The port that every backend implements."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from antiphon.backends.features import Features
from antiphon.protocol.downgrade import Downgrade
from antiphon.turn.chunks import Chunk
from antiphon.turn.constraints import Constraint
from antiphon.turn.context import TurnRequest


class ModelInfo(Struct, frozen=True):
    """A model that a backend offers."""

    id: str
    created: int = 0
    owned_by: str = "antiphon"


class PreparedTurn(Protocol):
    """A turn translated into a backend's own terms, before anything was sent."""

    @property
    def unenforced(self) -> frozenset[Constraint]:
        """Constraints that are only requested, not enforced: the answer must be checked."""
        ...

    @property
    def downgrades(self) -> tuple[Downgrade, ...]:
        """The parts of the request that this backend emulates, changes or omits."""
        ...

    def chunks(self) -> AsyncGenerator[Sequence[Chunk], None]:
        """Run the turn: yield non-empty batches of chunks, one batch per read.

        `HEARTBEAT` is yielded at least every `heartbeat` seconds of silence. Errors before the first other
        batch are raised as `BackendError`; a fault after it is a `Failed` chunk. The last chunk is
        `Finished` or `Failed` (`UsageReported` may follow `Finished`). Closing the generator, or cancelling
        its task, ends the upstream work at once.
        """
        ...


class Backend(Protocol):
    """Runs turns. One object serves many turns at once."""

    @property
    def name(self) -> str:
        """Its name in logs and errors."""
        ...

    @property
    def natives(self) -> frozenset[str]:
        """The tool types that it takes as they are declared. All others become functions
        (`turn/function_forms/`) before the backend sees them, and so do their calls and outputs."""
        ...

    def features(self, model: str) -> Features:
        """The features of this model, given by its upstream name."""
        ...

    async def context_window(self, model: str) -> int | None:
        """The context window of a model in tokens, as its server reports it; None if it is unknown."""
        ...

    def prepare(self, turn: TurnRequest) -> PreparedTurn:
        """Translate a turn. Raises `Unsupported` or `InvalidRequest`. No I/O."""
        ...

    async def models(self) -> Sequence[ModelInfo]:
        """The models that it offers now; raises `BackendError`."""
        ...

    async def aclose(self) -> None:
        """Release connections, processes and weights."""
        ...


@runtime_checkable
class ImageInformant(Protocol):
    """A backend whose server may say which of its models take images."""

    @property
    def images_assumed(self) -> bool:
        """Whether its models take images unless it says otherwise."""
        ...

    async def takes_images(self, model: str) -> bool | None:
        """Whether this model takes images, as its server says; None if it does not say it."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """A backend that has its model's tokenizer at hand. Not every backend does."""

    async def count_tokens(self, text: str) -> int:
        """The number of tokens of a text, without those of a chat template; raises `BackendError`."""
        ...
