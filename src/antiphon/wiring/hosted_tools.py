"""The hosted tools that this server runs, from the settings."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack

from antiphon.backends.gemini.images import GeminiImageClient
from antiphon.backends.images import ImageClient, ImageMaker
from antiphon.backends.registry import endpoint_kind
from antiphon.documents.reader import DocumentReader
from antiphon.mcp.port import McpTools
from antiphon.protocol.ids import IdSource
from antiphon.service.checks import Checks
from antiphon.service.containers.containers import ContainerLimits, Containers
from antiphon.service.files.files import Files
from antiphon.service.hosted_tools.base import ServedTool
from antiphon.service.hosted_tools.calls import HostedLimits
from antiphon.service.hosted_tools.code_interpreter import CodeInterpreter
from antiphon.service.hosted_tools.container_shell import ContainerShell
from antiphon.service.hosted_tools.file_search import FileSearch
from antiphon.service.hosted_tools.image_generation import ImageGeneration
from antiphon.service.hosted_tools.mcp.tool import McpServed
from antiphon.service.vector_stores.search import Passages
from antiphon.settings import Settings, UpstreamSettings
from antiphon.store.ports import Stores
from antiphon.wiring.backends import make_endpoint
from antiphon.wiring.embeddings import make_json_client
from antiphon.wiring.mcp import configured_servers
from antiphon.wiring.sandbox import sandbox_limits, working_sandbox
from antiphon.wiring.web_search import make_web_search

logger = logging.getLogger(__name__)


def make_served_tools(
    settings: Settings,
    stores: Stores,
    passages: Passages,
    *,
    mcp: McpTools,
    checks: Checks,
    containers: Containers | None,
    documents: DocumentReader,
    stack: AsyncExitStack,
) -> tuple[ServedTool, ...]:
    """The tools that the settings allow. `stack` closes their connections."""

    def tools() -> Iterator[ServedTool]:
        if not stores.stateless:  # without a store there is nothing to search
            yield FileSearch(passages, settings.tools.search_tokens)
        yield _mcp(settings, mcp, checks)
        if web := make_web_search(settings, documents, stack):
            yield web
        if images := _image_models(settings, stack):
            yield ImageGeneration(images)
        if containers is not None and not stores.stateless:
            yield CodeInterpreter(containers)
            if containers.sandbox.has_shell:
                yield ContainerShell(containers, settings.tools.call_seconds)

    return tuple(tools())


def _mcp(settings: Settings, mcp: McpTools, checks: Checks) -> McpServed:
    tools = settings.tools
    return McpServed(
        mcp,
        checks,
        configured_servers(settings),
        tools.output_tokens,
        tools.call_seconds,
        settings.mcp.server_urls,
    )


def _image_models(settings: Settings, stack: AsyncExitStack) -> dict[str, ImageMaker]:
    """The image models of all upstreams; of equal names the first counts."""
    models: dict[str, ImageMaker] = {}
    for row in settings.upstreams:
        for name in row.image_models:
            if name not in models:
                models[name] = make_image_model(row, name, settings.server.heartbeat)
                stack.push_async_callback(models[name].aclose)
    return models


def make_image_model(row: UpstreamSettings, name: str, heartbeat: float) -> ImageMaker:
    """An image model of an upstream, in its dialect."""
    endpoint = make_endpoint(row, heartbeat)
    if endpoint_kind(row.kind).dialect == "gemini":
        return GeminiImageClient(endpoint, name)
    return ImageClient(make_json_client(endpoint), name)


def hosted_limits(settings: Settings) -> HostedLimits:
    """The limits of hosted tools in one response."""
    tools = settings.tools
    return HostedLimits(
        max_rounds=tools.max_rounds,
        parallel_calls=tools.parallel_calls,
        call_seconds=tools.call_seconds,
        response_seconds=tools.response_seconds,
        response_tokens=tools.response_tokens,
    )


async def open_containers(
    settings: Settings, stores: Stores, files: Files, ids: IdSource, stack: AsyncExitStack
) -> Containers | None:
    """The containers of this process, until the stack is closed; None if there is no sandbox."""
    options = settings.interpreter
    if stores.stateless or options.sandbox == "off":
        return None
    limits = sandbox_limits(options)
    sandbox = await working_sandbox(options, limits)
    if isinstance(sandbox, str):
        logger.info("code_interpreter is not served: %s", sandbox)
        return None
    bounds = ContainerLimits(
        sandbox=limits, per_tenant=options.containers_per_tenant, total=options.containers
    )
    containers = Containers(sandbox, files, ids, time.time, bounds)
    stack.push_async_callback(containers.aclose)
    watch = asyncio.create_task(containers.watch())
    stack.callback(watch.cancel)
    return containers
