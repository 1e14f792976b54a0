"""All routes of the server in one table, and the objects that handle them."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.orchestrator.agent import AgentServices
from antiphon.server.auth import Keys
from antiphon.server.compat.chat_completions.stream import ChatCompletionsApi
from antiphon.server.compat.messages.stream import MessagesApi
from antiphon.server.compat.routes import ChatCompletionsRoutes, CountTokensRoutes, MessagesRoutes
from antiphon.server.exchange import BodyReader
from antiphon.server.lifetime import Lifetimes
from antiphon.server.mcp.agent_tool import AgentTool
from antiphon.server.mcp.response_tools import ResponseTools
from antiphon.server.mcp.routes import McpRoutes
from antiphon.server.mcp.search_tool import SearchTool
from antiphon.server.mcp.tool import McpTool, McpTools
from antiphon.server.multipart import FormReader
from antiphon.server.page.bundle import Bundle
from antiphon.server.page.routes import PageRoutes
from antiphon.server.routes.admin import AdminRoutes, ConformanceRoutes, ReadSettings, RunChecks
from antiphon.server.routes.agent import AgentRoutes, AgentRunRoutes
from antiphon.server.routes.approvals import ApprovalRoutes
from antiphon.server.routes.containers import ContainerFileRoutes, ContainerRoutes
from antiphon.server.routes.conversations import ConversationRoutes
from antiphon.server.routes.embeddings import EmbeddingsRoutes
from antiphon.server.routes.files import FileRoutes
from antiphon.server.routes.health import HealthRoutes
from antiphon.server.routes.inspection import InspectionRoutes
from antiphon.server.routes.models import ModelsRoutes
from antiphon.server.routes.responses import CompactRoutes, InputTokensRoutes, ResponsesRoutes, StoredRoutes
from antiphon.server.routes.session import SessionRoutes
from antiphon.server.routes.summaries import SummaryRoutes
from antiphon.server.routes.uploads import UploadRoutes
from antiphon.server.routes.upstreams import UpstreamRoutes
from antiphon.server.routes.usage import UsageRoutes
from antiphon.server.routes.vector_stores import FileBatchRoutes, StoreFileRoutes, VectorStoreRoutes
from antiphon.server.routing import RouteGroup
from antiphon.server.sessions import Sessions
from antiphon.service.inspection import Inspection
from antiphon.service.keys import Keyring
from antiphon.service.routing.capabilities import ServerFeatures
from antiphon.service.services import Services

GROUPS: tuple[type[RouteGroup], ...] = (
    ResponsesRoutes,
    InputTokensRoutes,
    CompactRoutes,
    StoredRoutes,
    ChatCompletionsRoutes,
    MessagesRoutes,
    CountTokensRoutes,
    EmbeddingsRoutes,
    ConversationRoutes,
    FileRoutes,
    UploadRoutes,
    VectorStoreRoutes,
    StoreFileRoutes,
    FileBatchRoutes,
    ContainerRoutes,
    ContainerFileRoutes,
    ApprovalRoutes,
    AgentRoutes,
    AgentRunRoutes,
    McpRoutes,
    ModelsRoutes,
    HealthRoutes,
    SummaryRoutes,
    InspectionRoutes,
    UsageRoutes,
    UpstreamRoutes,
    AdminRoutes,
    ConformanceRoutes,
    SessionRoutes,
    PageRoutes,
)
ROUTES = tuple(route for group in GROUPS for route in group.ROUTES)
"""Every route; an application without agents or without the page does not serve theirs."""


@dataclass(frozen=True, slots=True)
class RouteOptions:
    """The dependencies of routes besides the services."""

    lifetimes: Lifetimes
    bodies: BodyReader
    heartbeat_seconds: float
    stores: bool
    websocket: bool
    keys: Keys
    sessions: Sessions
    page: Bundle | None
    """The files of the page; None: it is not served."""
    read_settings: ReadSettings
    run_checks: RunChecks | None


def route_groups(
    services: Services, agents: AgentServices | None, options: RouteOptions
) -> Iterator[RouteGroup]:
    """The objects that handle the routes, in the order of `GROUPS`."""
    creator, lifetimes, bodies = services.creator, options.lifetimes, options.bodies
    stored = StoredRoutes(services.stored, lifetimes)
    forms = FormReader(bodies)
    features = ServerFeatures(
        keeps=options.stores,
        websocket=options.websocket,
        ignored_tools=services.ignored_tools,
        served_tools=creator.parts.contexts.served.types,
    )
    yield ResponsesRoutes(creator, services.background, stored, lifetimes, bodies)
    yield InputTokensRoutes(services.tokens, bodies)
    yield CompactRoutes(services.compactor, lifetimes, bodies)
    yield stored
    yield ChatCompletionsRoutes(ChatCompletionsApi(), creator, lifetimes, bodies)
    yield MessagesRoutes(MessagesApi(services.seal_key), creator, lifetimes, bodies)
    yield CountTokensRoutes(services.tokens, bodies, services.seal_key)
    yield EmbeddingsRoutes(services.embeddings, lifetimes, bodies)
    yield ConversationRoutes(services.conversations, bodies)
    yield FileRoutes(services.files, forms)
    yield UploadRoutes(services.uploads, bodies, forms)
    stores = services.vector_stores
    yield VectorStoreRoutes(stores, lifetimes, bodies)
    yield StoreFileRoutes(stores.files, bodies)
    yield FileBatchRoutes(stores.files, bodies)
    yield ContainerRoutes(services.containers, bodies)
    yield ContainerFileRoutes(services.containers, bodies, forms)
    yield ApprovalRoutes(services.stored, None if agents is None else agents.runs)
    if agents is not None:
        yield AgentRoutes(agents.agent, lifetimes, bodies, options.heartbeat_seconds)
        yield AgentRunRoutes(agents, lifetimes, bodies)
    tools = McpTools(_mcp_tools(services, agents))
    yield McpRoutes(tools, lifetimes, bodies, options.heartbeat_seconds)
    yield ModelsRoutes(services.router, services.embeddings, features)
    yield HealthRoutes(lifetimes)
    yield SummaryRoutes(services.store.summaries)
    yield InspectionRoutes(Inspection(services.store, services.seal_key))
    yield UsageRoutes(services.store.summaries, creator.clock)
    yield UpstreamRoutes(services.router)
    yield from _admin_groups(services, options)
    if options.page is not None:
        yield SessionRoutes(options.keys, options.sessions, services.store.keys, bodies)
        yield PageRoutes(options.page)


def _admin_groups(services: Services, options: RouteOptions) -> Iterator[RouteGroup]:
    store, keys = services.store, options.keys
    keyring = Keyring(
        store.keys, store.signals, pepper=keys.pepper, clock=keys.clock, entropy=secrets.token_bytes
    )
    yield AdminRoutes(keyring, keys, store.keys, options.read_settings, options.bodies)
    if options.run_checks is not None:
        yield ConformanceRoutes(
            keyring,
            keys,
            store.keys,
            options.run_checks,
            lifetimes=options.lifetimes,
            bodies=options.bodies,
        )


def _mcp_tools(services: Services, agents: AgentServices | None) -> Iterator[McpTool]:
    """The tools of the MCP server; without agents there is none that runs one."""
    yield from ResponseTools(services.creator, services.stored, services.router).tools()
    yield SearchTool(services.vector_stores.search).tool()
    if agents is not None:
        yield AgentTool(agents.agent).tool()
