"""The sections of the settings about hosted tools."""

from typing import Annotated, Literal

from msgspec import Meta, Struct


class ToolSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Hosted tools."""

    ignore: tuple[str, ...] = (
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    )
    """Hosted tools that are left out and reported, instead of refused, if nothing serves them; `*`: all."""
    max_rounds: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Rounds of a response in which a model may call hosted tools of this server before it has to answer."""
    parallel_calls: Annotated[int, Meta(ge=1, le=1000)] = 8
    """Calls of hosted tools of one turn that run at the same time."""
    call_seconds: Annotated[float, Meta(gt=0)] = 120.0
    """The time of one call of a hosted tool."""
    response_seconds: Annotated[float, Meta(gt=0)] = 3600.0
    """The time of a response with hosted tools of this server, over all rounds; then it is incomplete."""
    response_tokens: Annotated[int, Meta(ge=0)] = 0
    """The tokens of such a response, over all rounds, as upstreams report them; beyond them it is incomplete.
    0: no limit."""
    search_tokens: Annotated[int, Meta(ge=100)] = 16_000
    """Tokens of the results of one search (`file_search`, `web_search`) that a model is shown."""
    output_tokens: Annotated[int, Meta(ge=100)] = 16_000
    """Tokens of the output of one call of an MCP tool that a model is shown."""
    result_tokens: Annotated[int, Meta(ge=100)] = 48_000
    """Tokens of the results of all searches of a conversation that a model is shown."""


class WebSearchSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The search engine that `web_search` uses."""

    kind: Literal["", "searxng", "brave", "tavily"] = ""
    """The engine; empty: none, and `tools.ignore` decides about the tool."""
    url: str = ""
    """Its address; required for `searxng`."""
    key_env: str = ""
    """The environment variable that holds the key of the engine; required for `brave` and `tavily`."""
    timeout: Annotated[float, Meta(gt=0)] = 20.0
    """Seconds that a search may take."""
    open_pages: bool = True
    """Whether models may open pages of the web and find texts in them."""
    page_seconds: Annotated[float, Meta(gt=0)] = 20.0
    """Seconds that the download of a page may take, with its redirects."""
    page_mb: Annotated[int, Meta(ge=1, le=64)] = 10
    """The largest page, in MB."""


class InterpreterSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The sandboxes of `code_interpreter`."""

    sandbox: Literal["auto", "bubblewrap", "monty", "off"] = "auto"
    """`auto`: bubblewrap, if it is installed and works; otherwise Monty, if it is installed; otherwise the
    tool is not served."""
    python: str = ""
    """The interpreter, for example that of a virtual environment with packages. Empty: that of the server,
    without packages."""
    run_seconds: Annotated[float, Meta(gt=0)] = 30.0
    """The time of one run."""
    memory_mb: Annotated[int, Meta(ge=64)] = 1024
    """Memory of one container, in MB, without its files."""
    disk_mb: Annotated[int, Meta(ge=1)] = 64
    """Files of one container in `/mnt/data`, and again in `/tmp`, in MB. They are in memory."""
    processes: Annotated[int, Meta(ge=4)] = 32
    """Processes and threads of one container."""
    cores: Annotated[int, Meta(ge=1)] = 1
    """Cores of the machine that one container can use."""
    output_kb: Annotated[int, Meta(ge=1, le=1024)] = 64
    """Output of one run, in KB."""
    containers_per_tenant: Annotated[int, Meta(ge=1)] = 8
    """Containers of one tenant in one process."""
    containers: Annotated[int, Meta(ge=1)] = 32
    """Containers of one process."""
