"""Builds the agent that the settings describe. Invalid settings raise `SettingsError` at start."""

import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from antiphon.caller import DEFAULT_TENANT, Caller
from antiphon.embeddings.minilm import how_to_install, is_installed
from antiphon.errors import InvalidRequest, SettingsError
from antiphon.orchestrator.agent import Agent, ServedAgent
from antiphon.orchestrator.background_turns import BackgroundResponses, InProcessBackgroundResponses
from antiphon.orchestrator.client import InProcessResponsesClient, RememberingClient, ResponsesClient
from antiphon.orchestrator.documents.library import Library
from antiphon.orchestrator.documents.tools import ddr_tools
from antiphon.orchestrator.file_tools import file_tools
from antiphon.orchestrator.models import ConversationContext, Limits
from antiphon.orchestrator.modes import Mode, Modes, mode_tool, modes_from
from antiphon.orchestrator.resolution import hosted_key, offered_tools
from antiphon.protocol.definitions import Definitions
from antiphon.protocol.parse_tools import parse_tools
from antiphon.protocol.tools import HOSTED_TOOLS
from antiphon.retrieval.files import FileFinder
from antiphon.retrieval.folders import FolderRetriever, VectorSource, checked_folder
from antiphon.retrieval.scope import parse_scope
from antiphon.service.services import Services
from antiphon.service.tenant_service import TenantService
from antiphon.service.vector_stores.folder_sync import FolderSync
from antiphon.service.vector_stores.local_files import LocalFiles
from antiphon.service.vector_stores.retriever import StoreRetriever
from antiphon.settings import AgentSettings
from antiphon.tools.declaration import ServerTool
from antiphon.tools.registry import ToolRegistry, load_tools
from antiphon.wiring.embeddings import EmbedderSet
from antiphon.wiring.folders import vectors_path


@asynccontextmanager
async def open_agent(
    settings: AgentSettings, embedders: EmbedderSet | None = None
) -> AsyncGenerator[Agent, None]:
    """The agent; its retriever is closed at the end of the context. It ranks with one of the `embedders`."""
    agent = make_agent(settings, embedders)
    try:
        yield agent
    finally:
        if isinstance(agent.retriever, FolderRetriever):
            await agent.retriever.aclose()


def make_agent(settings: AgentSettings, embedders: EmbedderSet | None = None) -> Agent:
    modes = modes_from(settings)
    return Agent(
        context=ConversationContext(
            model_name=settings.model, system=settings.system, temperature=settings.temperature
        ),
        modes=modes,
        tools=_registry(settings, modes),
        retriever=_retriever(settings, embedders),
        limits=Limits(
            max_turns=settings.max_turns,
            max_output_tokens=settings.max_output_tokens,
            tool_deadline=settings.tool_deadline,
            max_tool_output=settings.max_tool_output,
            max_context=settings.max_context,
            chunks=settings.chunks,
        ),
    )


def serve_agent(agent: Agent, services: Services) -> ServedAgent:
    """The agent on the models of these services, in the same process."""

    def connect(caller: Caller) -> ResponsesClient:
        client = InProcessResponsesClient(TenantService(services, caller))
        # Without a store, the turns of a request are held in memory until it ends.
        return RememberingClient(client) if services.store.stateless else client

    def connect_background(caller: Caller) -> BackgroundResponses:
        return InProcessBackgroundResponses(TenantService(services, caller))

    return ServedAgent(agent, connect, connect_background)


def _registry(settings: AgentSettings, modes: Modes) -> ToolRegistry:
    registry = ToolRegistry(_with_approvals(_tools(settings, modes), settings.approve_tools))
    for mode in modes.all():
        _check_tools(mode, registry)
        _check_scope(mode)
        _check_hosted_tools(mode)
    return registry


def _tools(settings: AgentSettings, modes: Modes) -> Iterable[ServerTool]:
    """The built-in tools and those of the settings. Design documents belong to the operator: there is one
    folder, which other tenants may not read."""
    yield from file_tools()
    if (
        settings.modes
    ):  # the client chooses among built-in modes; with modes of the operator, the model may switch too
        yield mode_tool(modes)
    for tool in ddr_tools(Library(Path(settings.ddr_folder))):
        yield replace(tool, tenants=frozenset({DEFAULT_TENANT}))
    yield from load_tools(settings.tools)


def _with_approvals(tools: Iterable[ServerTool], names: Sequence[str]) -> list[ServerTool]:
    """The tools; those with these names need approvals."""
    known = list(tools)
    if unknown := sorted(set(names) - {tool.name for tool in known}):
        raise SettingsError(
            f"agent.approve_tools names tools that do not exist: {', '.join(unknown)}. "
            f"Known: {', '.join(tool.name for tool in known)}.",
            param="agent.approve_tools",
        )
    return [replace(tool, needs_approval=True) if tool.name in names else tool for tool in known]


def _check_tools(mode: Mode, registry: ToolRegistry) -> None:
    """Reject a mode that lists unknown tools, or requires a call of a tool that it does not offer."""
    if unknown := registry.missing(mode):
        raise SettingsError(
            f"The mode '{mode.key}' lists tools that do not exist: {', '.join(unknown)}. "
            f"Known: {', '.join(registry.names)}. Add yours with agent.tools."
        )
    offered = offered_tools(registry, mode)
    if mode.tool_choice is not None and mode.tool_choice not in offered:
        raise SettingsError(
            f"The mode '{mode.key}' requires a call of '{mode.tool_choice}', but does not offer that tool. "
            f"Offered: {', '.join(offered) or 'none'}. Add it to agent.modes.{mode.key}.tools."
        )


def _check_scope(mode: Mode) -> None:
    try:
        parse_scope(mode.rag_scope, f"agent.modes.{mode.key}.rag_scope")
    except InvalidRequest as error:
        raise SettingsError(error.message, param=error.param) from None


def _check_hosted_tools(mode: Mode) -> None:
    path = f"agent.modes.{mode.key}.hosted_tools"
    try:
        parse_tools(list(mode.hosted_tools), Definitions(), path)
    except InvalidRequest as error:
        raise SettingsError(error.message, param=error.param) from None
    if any(hosted_key(tool) is None for tool in mode.hosted_tools):
        raise SettingsError(
            f"'{path}' has a tool that is not a hosted one. Hosted tools: {', '.join(sorted(HOSTED_TOOLS))}.",
            param=path,
        )


def _retriever(settings: AgentSettings, embedders: EmbedderSet | None) -> FolderRetriever | None:
    if not settings.documents:
        return None
    folders, root = _folders(settings)
    return FolderRetriever(folders, root=root, vectors=_vectors(settings, embedders))


def _folders(settings: AgentSettings) -> tuple[list[Path], Path]:
    """The folders, and what paths are relative to: the current folder, or a common parent if one lies
    elsewhere."""
    folders = [Path(folder).resolve() for folder in settings.documents]
    return folders, Path(os.path.commonpath([Path.cwd(), *folders]))


def make_store_retriever(settings: AgentSettings, services: Services) -> StoreRetriever:
    """Retrieval from `agent.vector_store`; its `sync` is to be run."""
    if not settings.documents:
        raise SettingsError("agent.vector_store is set. Set agent.documents, too: the folders of its files.")
    if services.store.stateless:
        raise SettingsError("agent.vector_store needs a store. Set store.url to another one than 'none'.")
    folders, root = _folders(settings)
    sync = FolderSync(
        FileFinder([checked_folder(folder, root) for folder in folders], root),
        LocalFiles(services.files, services.vector_stores),
        Caller.of(DEFAULT_TENANT),
        settings.vector_store,
    )
    return StoreRetriever(services.vector_stores.search, sync, root)


def _vectors(settings: AgentSettings, embedders: EmbedderSet | None) -> VectorSource | None:
    """None: documents are ranked by words alone. Raises `SettingsError` if they cannot be ranked as set."""
    if settings.ranking == "lexical" or embedders is None:
        return None
    find = embedders.find_bundled if settings.ranking == "auto" else embedders.find_default
    if is_installed() and (settings.ranking == "hybrid" or find() is not None):
        return VectorSource(find, vectors_path())
    if settings.ranking == "hybrid":
        raise SettingsError(f'agent.ranking is "hybrid". {how_to_install()}')
    return None
