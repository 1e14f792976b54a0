"""All routes of the server in one table, and the objects that handle them."""

from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.orchestrator.agent import AgentServices
from antiphon.server.compat.chat_completions.stream import ChatCompletionsApi
from antiphon.server.compat.messages.stream import MessagesApi
from antiphon.server.compat.routes import ChatCompletionsRoutes, CountTokensRoutes, MessagesRoutes
from antiphon.server.exchange import BodyReader
from antiphon.server.lifetime import Lifetimes
from antiphon.server.multipart import FormReader
from antiphon.server.routes.agent import AgentRoutes, AgentRunRoutes
from antiphon.server.routes.conversations import ConversationRoutes
from antiphon.server.routes.embeddings import EmbeddingsRoutes
from antiphon.server.routes.files import FileRoutes
from antiphon.server.routes.health import HealthRoutes
from antiphon.server.routes.models import ModelsRoutes
from antiphon.server.routes.responses import CompactRoutes, InputTokensRoutes, ResponsesRoutes, StoredRoutes
from antiphon.server.routes.uploads import UploadRoutes
from antiphon.server.routes.vector_stores import FileBatchRoutes, StoreFileRoutes, VectorStoreRoutes
from antiphon.server.routing import RouteGroup
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
    AgentRoutes,
    AgentRunRoutes,
    ModelsRoutes,
    HealthRoutes,
)
ROUTES = tuple(route for group in GROUPS for route in group.ROUTES)
"""Every route; an application without agents does not serve those of agents."""


@dataclass(frozen=True, slots=True)
class RouteOptions:
    """The dependencies of routes besides the services."""

    lifetimes: Lifetimes
    bodies: BodyReader
    heartbeat_seconds: float
    stores: bool
    websocket: bool


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
    if agents is not None:
        yield AgentRoutes(agents.agent, lifetimes, bodies, options.heartbeat_seconds)
        yield AgentRunRoutes(agents, lifetimes, bodies)
    yield ModelsRoutes(services.router, services.embeddings, features)
    yield HealthRoutes(lifetimes)
