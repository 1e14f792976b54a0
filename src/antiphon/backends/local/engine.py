"""The embedded model's engine: llama.cpp in a child process, one thread of this process for each request.

The model is loaded once, by the first request that needs it, in a worker thread; each request then runs in
such a thread, and its payloads come to the event loop through a `Pipe`. Closing the stream ends the request
at llama.cpp's next sign of life: after a token, or after a small batch of the prompt.
"""

import asyncio
import importlib.util
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from antiphon.backends.local.engine_child import MODULE, EngineOptions
from antiphon.backends.local.engine_process import EngineProcess
from antiphon.backends.local.errors import from_payload, is_error
from antiphon.backends.local.pipe import Pipe
from antiphon.errors import BackendError, SettingsError, Unavailable
from antiphon.extras import install_command

logger = logging.getLogger(__name__)


class Engine:
    """Answers chat-completion bodies. `locate` finds the weights; it may take long, and runs in a thread."""

    def __init__(self, locate: Callable[[], Path], options: EngineOptions, *, patience: float) -> None:
        check_installed()
        self._locate = locate
        self._options = options
        self._patience = patience
        self._workers = ThreadPoolExecutor(options.parallel, thread_name_prefix="antiphon-model")
        self._lock = threading.Lock()
        self._loading: Future[EngineProcess] | None = None
        self._pipes: set[Pipe] = set()
        self._closed = False

    async def stream(self, body: bytes) -> AsyncGenerator[list[bytes], None]:
        """Yield the chunks of the completion; an empty list after each `patience` seconds without one."""
        pipe = Pipe()
        self._pipes.add(pipe)
        try:
            self._submit(body, pipe)
            while (payloads := await pipe.take(self._patience)) is not None:
                for payload in filter(is_error, payloads):
                    raise from_payload(payload)
                yield payloads
        finally:
            self._pipes.discard(pipe)
            pipe.close()

    async def count_tokens(self, text: str) -> int:
        """How many tokens the text is for this model."""
        return await asyncio.to_thread(self._count, text)

    async def aclose(self) -> None:
        """End all requests and let the model go; returns when llama.cpp has stopped."""
        self._closed = True
        for pipe in self._pipes:
            pipe.close(Unavailable())
        await asyncio.to_thread(self._release)

    def _submit(self, body: bytes, pipe: Pipe) -> None:
        if self._closed:
            raise Unavailable
        self._workers.submit(self._answer, body, pipe)

    def _answer(self, body: bytes, pipe: Pipe) -> None:
        """In a worker: run one request to its end."""
        try:
            if not pipe.closed:
                self._load().chat(body, pipe.put)
            pipe.end()
        except (BackendError, Unavailable) as error:
            pipe.end(error)
        except Exception:
            logger.exception("the embedded model's engine failed")
            pipe.end(BackendError("The embedded model failed; see the server log."))

    def _load(self) -> EngineProcess:
        """Load the model once, and again if its process has ended. Concurrent callers share the result, or
        the error."""
        with self._lock:
            if self._closed:
                raise Unavailable
            earlier = self._loading
            if earlier is not None and not _has_ended(earlier):
                loading, is_mine = earlier, False
            else:
                loading, is_mine = Future[EngineProcess](), True
                self._loading = loading
        if is_mine:
            try:
                if earlier is not None:
                    earlier.result().close()
                loading.set_result(_start(self._locate(), self._options))
            except BaseException as error:  # noqa: BLE001 -- raised below, here and to all who wait
                self._loading = None  # the next request tries again
                loading.set_exception(error)
        return loading.result()

    def _count(self, text: str) -> int:
        return self._load().count_tokens(text)

    def _release(self) -> None:
        with self._lock:
            loading, self._loading = self._loading, None
        if loading is not None and loading.exception() is None:
            loading.result().close()
        self._workers.shutdown(cancel_futures=True)


def _has_ended(loading: Future[EngineProcess]) -> bool:
    return loading.done() and loading.exception() is None and not loading.result().is_alive


def check_installed() -> None:
    """Fail at the start, not at the first request, if the optional engine is not installed."""
    if importlib.util.find_spec(MODULE) is None:
        raise SettingsError(
            f"The embedded model needs its engine: run {install_command('local')}, "
            "or name an upstream instead."
        )


def _start(path: Path, options: EngineOptions) -> EngineProcess:
    began = time.monotonic()
    logger.info("loading the model %s", path)
    process = EngineProcess(path, options)
    logger.info("loaded the model %s in %.1f s", path.name, time.monotonic() - began)
    return process
