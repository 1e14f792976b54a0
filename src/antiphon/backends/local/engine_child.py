"""The child process that runs llama.cpp: the one place that touches xllamacpp.

It reads one line with an `EngineStart`, loads the model, writes one line with an `EngineReport`, and serves
HTTP at the reported address until its standard input ends: when the parent closes it, or has ended itself.
"""

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

MODULE = "xllamacpp"
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


class EngineStart(Struct, frozen=True):
    """What the child needs to start. `folder` is for its socket: llama.cpp requires an address."""

    weights: str
    options: EngineOptions
    key: str
    folder: str


class EngineReport(Struct, frozen=True, omit_defaults=True):
    """The address of llama.cpp's HTTP server, or why there is none."""

    address: str = ""
    error: str = ""


def main() -> None:
    """Serve one model."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its requests first
    start = msgspec.json.decode(sys.stdin.buffer.readline(), type=EngineStart)
    with os.fdopen(os.dup(1), "wb") as reports:
        os.dup2(2, 1)  # llama.cpp may print; the report stays readable
        report = _load(start)
        reports.write(msgspec.json.encode(report) + b"\n")
    if not report.error:
        sys.stdin.buffer.read()
    os._exit(0)  # at once: nothing is worth waiting for the threads of llama.cpp


_servers: list[Any] = []
"""Keeps the server alive."""


def _load(start: EngineStart) -> EngineReport:
    try:
        library: Any = importlib.import_module(MODULE)
        _servers.append(library.Server(make_params(library, start)))
    except Exception as error:  # noqa: BLE001 -- the parent reports it
        return EngineReport(error=str(error) or type(error).__name__)
    return EngineReport(_servers[0].listening_address)


def make_params(library: Any, start: EngineStart) -> Any:
    """The parameters of llama.cpp."""
    params, options = library.CommonParams(), start.options
    params.model.path = start.weights
    params.n_ctx = options.context * options.parallel
    params.n_parallel = options.parallel
    params.n_batch = params.n_ubatch = _PROMPT_BATCH_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.cache_ram_mib = _PROMPT_CACHE_MIB
    params.use_jinja = True
    params.verbosity = 0
    # It listens on a socket in a private folder; on systems without such sockets, on a random loopback port.
    # Both require a secret key.
    params.api_keys = [start.key]
    params.hostnames = [_private_address(start.folder)]
    params.port = 0
    params.cors_origins = "null"
    params.ui = params.endpoint_slots = params.endpoint_props = params.endpoint_metrics = False
    return params


def _private_address(folder: str) -> str:
    path = str(Path(folder) / "llama.sock")
    return "127.0.0.1" if sys.platform == "win32" or len(path) > _MAX_SOCKET_PATH_CHARACTERS else path


if __name__ == "__main__":
    main()
