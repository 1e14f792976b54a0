"""llama.cpp in this process: the one place that touches xllamacpp.

The model is loaded once, by the first request that needs it, in a worker thread; each request then runs in
such a thread, and its payloads come to the event loop through a `Pipe`. Closing the stream ends the request
at llama.cpp's next sign of life: after a token, or after a small batch of the prompt.
"""

import asyncio
import http.client
import importlib
import importlib.util
import logging
import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from antiphon.backends.local.errors import broken_model, from_exception, from_payload, is_error
from antiphon.backends.local.pipe import Pipe
from antiphon.errors import BackendBroken, BackendError, SettingsError, Unavailable
from antiphon.extras import install_command

logger = logging.getLogger(__name__)

_MODULE = "xllamacpp"
_PROMPT_BATCH_TOKENS = 64
"""Tokens of the prompt between two checks for a cancellation; the usual 2048 are only 10 % faster."""
_PROMPT_CACHE_MIB = 256
"""Memory for prompts whose slot was given to another; unset, llama.cpp takes 8 GiB."""
_MAX_SOCKET_PATH_CHARACTERS = 100


class EngineOptions(Struct, frozen=True, kw_only=True):
    """How llama.cpp runs. `context` is for each of `parallel` requests."""

    context: int
    parallel: int
    threads: int


class LlamaServer(Protocol):
    """The used part of xllamacpp.Server. The callback returns True to stop."""

    @property
    def listening_address(self) -> str: ...

    def handle_chat_completions(self, prompt: bytes, callback: Callable[[bytes], bool], /) -> None: ...


class _Loaded(Struct, frozen=True):
    """A model in memory."""

    server: LlamaServer
    key: str
    folder: "tempfile.TemporaryDirectory[str]"
    """Holds the socket that llama.cpp insists on; readable by this user only."""


class Engine:
    """Answers chat-completion bodies. `locate` finds the weights; it may take long, and runs in a thread."""

    def __init__(self, locate: Callable[[], Path], options: EngineOptions, *, patience: float) -> None:
        check_installed()
        self._locate = locate
        self._options = options
        self._patience = patience
        self._workers = ThreadPoolExecutor(options.parallel, thread_name_prefix="antiphon-model")
        self._lock = threading.Lock()
        self._loading: Future[_Loaded] | None = None
        self._pipes: set[Pipe] = set()
        self._closed = False

    async def load(self) -> None:
        """Get the model into memory now rather than with the first request."""
        await asyncio.to_thread(self._load)

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
                loaded = self._load()
                loaded.server.handle_chat_completions(body, pipe.put)
            pipe.end()
        except (BackendError, Unavailable) as error:
            pipe.end(error)
        except Exception as error:  # noqa: BLE001 -- whatever the native side throws ends this request only
            pipe.end(from_exception(error))

    def _load(self) -> _Loaded:
        """Load the model once. Concurrent callers share the result, or the error."""
        with self._lock:
            if self._closed:
                raise Unavailable
            loading, mine = self._loading, Future[_Loaded]()
            if loading is None:
                self._loading = mine
        if loading is None:
            loading = mine
            try:
                loading.set_result(_open(self._locate(), self._options))
            except BaseException as error:  # noqa: BLE001 -- raised below, here and to all who wait
                self._loading = None  # the next request tries again
                loading.set_exception(error)
        return loading.result()

    def _count(self, text: str) -> int:
        loaded = self._load()
        return count_tokens(loaded.server.listening_address, loaded.key, text)

    def _release(self) -> None:
        self._workers.shutdown(cancel_futures=True)
        with self._lock:
            loading, self._loading = self._loading, None
        if loading is not None and loading.exception() is None:
            loading.result().folder.cleanup()


def check_installed() -> None:
    """Fail at the start, not at the first request, if the optional engine is not installed."""
    if importlib.util.find_spec(_MODULE) is None:
        raise SettingsError(
            f"The embedded model needs its engine: run {install_command('local')}, "
            "or name an upstream instead."
        )


def _open(path: Path, options: EngineOptions) -> _Loaded:
    began = time.monotonic()
    logger.info("loading the model %s", path)
    library: Any = importlib.import_module(_MODULE)
    key = secrets.token_urlsafe(32)
    folder = tempfile.TemporaryDirectory(prefix="antiphon-", ignore_cleanup_errors=True)
    try:
        server = library.Server(_params(library, path, options, key, Path(folder.name)))
    except Exception as error:
        folder.cleanup()
        raise broken_model(path, error) from error
    logger.info("loaded the model %s in %.1f s", path.name, time.monotonic() - began)
    return _Loaded(server, key, folder)


def _params(library: Any, path: Path, options: EngineOptions, key: str, folder: Path) -> Any:
    params = library.CommonParams()
    params.model.path = str(path)
    params.n_ctx = options.context * options.parallel
    params.n_parallel = options.parallel
    params.n_batch = params.n_ubatch = _PROMPT_BATCH_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    params.use_jinja = True
    params.verbosity = 0
    # Its HTTP server cannot be disabled. It listens on a socket in a private folder; on systems without such
    # sockets, on a random loopback port. Both require a secret key.
    params.api_keys = [key]
    params.hostnames = [_private_address(folder)]
    params.port = 0
    params.cors_origins = "null"
    params.ui = params.endpoint_slots = params.endpoint_props = params.endpoint_metrics = False
    return params


def _private_address(folder: Path) -> str:
    path = str(folder / "llama.sock")
    return "127.0.0.1" if sys.platform == "win32" or len(path) > _MAX_SOCKET_PATH_CHARACTERS else path


_TIMEOUT_SECONDS = 30.0


class _Tokens(Struct):
    tokens: list[int]


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT_SECONDS)
        self.sock.connect(self._path)


def count_tokens(address: str, key: str, text: str) -> int:
    """The number of tokens of a text, without those of a chat template. Blocks."""
    connection = _connect(address)
    try:
        body = msgspec.json.encode({"content": text})
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/tokenize", body, headers)
        answer = connection.getresponse().read()
        return len(msgspec.json.decode(answer, type=_Tokens).tokens)
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
        raise BackendBroken(f"The embedded model could not count tokens: {error}.") from error
    finally:
        connection.close()


def _connect(address: str) -> http.client.HTTPConnection:
    split = urlsplit(address)
    if split.scheme == "unix":
        return _UnixConnection(split.path)
    return http.client.HTTPConnection(split.hostname or "127.0.0.1", split.port, timeout=_TIMEOUT_SECONDS)
