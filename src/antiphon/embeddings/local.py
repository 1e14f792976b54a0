"""`LocalEmbedder`: the bundled model, in a child process."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from antiphon.embeddings.base import Embedded, Input, Vector, texts_of
from antiphon.embeddings.minilm import DIMENSIONS, MODEL_NAME, ModelFiles
from antiphon.embeddings.work import Result, Work
from antiphon.errors import AntiphonError, BackendBroken, InvalidRequest, TooManyRequests, Unsupported
from antiphon.isolated.pool import IsolatedPool, PoolLimits, WorkExceeded

RUN = "antiphon.embeddings.work:run"
MAX_INPUT_TOKENS = 8192
"""Of one text, as OpenAI's models take."""
MAX_REQUEST_TOKENS = 300_000
"""Of all texts of a call."""
MAX_INPUT_CHARACTERS = 16 * MAX_INPUT_TOKENS
"""A longer text is not tokenized: it has more tokens than are accepted."""
MAX_WAITING_CHARACTERS = 32 * 1024 * 1024
"""Of one tenant, in all calls that are not answered yet; one call is always accepted."""
EMBEDDED_CHARACTERS = 1024
"""Of one job with several texts, about 0.1 s of a core. Between two jobs others have their turn."""
SHORT_CALL_CHARACTERS = 4 * 1024
"""A call with at most so many, such as the query of a search, goes before the longer ones of its tenant."""
COUNTED_CHARACTERS = 1024 * 1024
"""Of one job that only counts tokens."""
LIMITS = PoolLimits(
    processes=1, cpu_seconds=300, wall_seconds=600.0, memory_bytes=2 * 1024**3, idle_seconds=600.0
)
"""Of the child process. The model needs 250 MB, and loads in half a second."""

_RESULTS = msgspec.msgpack.Decoder(Result)


class LocalEmbedder:
    """Embeds texts in a child process that computes in `threads` threads.

    `locate` returns the files of the model, and may block. The process starts with the first call. `run` is
    the name of the function that does the work there.
    """

    model = MODEL_NAME

    def __init__(self, locate: Callable[[], ModelFiles], *, threads: int = 1, run: str = RUN) -> None:
        self._locate = locate
        self._threads = threads
        self._run = run
        self._pool = IsolatedPool(LIMITS)
        self._waiting: dict[str, int] = {}
        """Characters by tenant."""

    async def embed(
        self, inputs: Sequence[Input], *, dimensions: int | None = None, tenant: str = ""
    ) -> Embedded:
        """The vectors. A text that is longer than the model's window has the mean of its windows' vectors."""
        if dimensions not in (None, DIMENSIONS):
            message = f"The model '{MODEL_NAME}' has {DIMENSIONS} dimensions and cannot be shortened."
            raise Unsupported(f"{message} Leave 'dimensions' out.", param="dimensions")
        texts = texts_of(inputs, MODEL_NAME)
        characters = _count_characters(texts)
        waiting = self._waiting.get(tenant, 0)
        if waiting and waiting + characters > MAX_WAITING_CHARACTERS:
            message = "Too many texts wait to be embedded. Send the next ones when some are done."
            raise TooManyRequests(message)
        self._waiting[tenant] = waiting + characters
        try:
            return await self._embed(texts, characters, tenant)
        finally:
            self._waiting[tenant] -= characters
            if not self._waiting[tenant]:
                del self._waiting[tenant]

    async def aclose(self) -> None:
        """End the process; calls that are not answered fail."""
        await self._pool.aclose()

    async def _embed(self, texts: Sequence[str], characters: int, tenant: str) -> Embedded:
        files = await asyncio.to_thread(self._locate)
        # A token has at least one character, so that most calls need not be counted first.
        if characters > MAX_REQUEST_TOKENS or any(len(text) > MAX_INPUT_TOKENS for text in texts):
            counts: list[int] = []
            for batch in _batches(texts, COUNTED_CHARACTERS):
                work = Work(files, self._threads, batch, counts_only=True)
                counts += (await self._do(work, tenant)).tokens
            _check_tokens(counts)
        vectors: list[Vector] = []
        tokens = 0
        is_short = characters <= SHORT_CALL_CHARACTERS
        for batch in _batches(texts, EMBEDDED_CHARACTERS):
            result = await self._do(Work(files, self._threads, batch), tenant, goes_first=is_short)
            vectors += result.vectors
            tokens += sum(result.tokens)
        return Embedded(vectors, tokens)

    async def _do(self, work: Work, tenant: str, *, goes_first: bool = False) -> Result:
        payload = msgspec.msgpack.encode(work)
        try:
            return _RESULTS.decode(await self._pool.run(tenant, self._run, payload, goes_first=goes_first))
        except WorkExceeded as error:
            message = (
                f"The embedding model's process was ended: {error.reason}. Try again, or send less text."
            )
            raise BackendBroken(message) from None
        except AntiphonError as error:
            if type(error) is AntiphonError:  # the function raised, and the pool has logged it
                raise BackendBroken("The embedding model failed; see the server log.") from None
            raise


def _count_characters(texts: Sequence[str]) -> int:
    """The characters of all texts; raises `InvalidRequest` for a text that is certainly too long."""
    for place, text in enumerate(texts):
        if len(text) > MAX_INPUT_CHARACTERS:
            message = f"'input[{place}]' has {len(text)} characters; at most {MAX_INPUT_TOKENS} tokens"
            raise _too_long(f"{message} are accepted. Split the text.", f"input[{place}]")
    return sum(map(len, texts))


def _check_tokens(counts: Sequence[int]) -> None:
    for place, count in enumerate(counts):
        if count > MAX_INPUT_TOKENS:
            message = f"'input[{place}]' has {count} tokens; at most {MAX_INPUT_TOKENS} are accepted."
            raise _too_long(f"{message} Split the text.", f"input[{place}]")
    if sum(counts) > MAX_REQUEST_TOKENS:
        message = f"The inputs have {sum(counts)} tokens together; at most {MAX_REQUEST_TOKENS} are accepted."
        raise _too_long(f"{message} Send them in several requests.", "input")


def _too_long(message: str, param: str) -> InvalidRequest:
    return InvalidRequest(message, param=param, code="context_length_exceeded")


def _batches(texts: Sequence[str], characters: int) -> Iterator[list[str]]:
    """The texts in their order, in batches of so many characters; each has one text at least."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and size + len(text) > characters:
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch
