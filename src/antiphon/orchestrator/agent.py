"""An agent: all that `execute` needs besides a request, put together once and asked again and again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from antiphon.errors import AntiphonError
from antiphon.orchestrator.agent_runs import AgentRuns
from antiphon.orchestrator.client import ResponsesClient
from antiphon.orchestrator.events import AgentEvent
from antiphon.orchestrator.limits import Limits
from antiphon.orchestrator.models import AgentExecuteRequest, AgentExecuteResponse, ConversationContext
from antiphon.orchestrator.modes import Modes
from antiphon.orchestrator.reasoner import execute
from antiphon.orchestrator.resolution import check_choice, offered_tools
from antiphon.orchestrator.response_mapper import map_error
from antiphon.orchestrator.run_state import Emit
from antiphon.retrieval.base import Retriever
from antiphon.tools.registry import ToolRegistry

Connect = Callable[[str], ResponsesClient]
"""The client of a tenant."""


class ModeSummary(Struct, frozen=True, kw_only=True):
    """A mode, as clients see it."""

    key: str
    object: str = "agent.mode"
    name: str
    when_to_use: str
    tools: tuple[str, ...]
    default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """What an agent knows and can do. Whom it asks is said with every request."""

    context: ConversationContext
    modes: Modes
    tools: ToolRegistry
    limits: Limits
    retriever: Retriever | None = None

    async def execute(
        self,
        request: AgentExecuteRequest,
        client: ResponsesClient,
        *,
        tell: Emit | None = None,
        past: Sequence[AgentEvent] = (),
        tenant: str = "",
    ) -> AgentExecuteResponse:
        """Do what is asked, or go on with what was begun: see `antiphon.orchestrator.reasoner`."""
        return await execute(
            request,
            client=client,
            context=self.context,
            tools=self.tools.for_tenant(tenant),
            modes=self.modes,
            retriever=self.retriever,
            limits=self.limits,
            tell=tell,
            past=past,
            tenant=tenant,
        )

    def check(self, request: AgentExecuteRequest, tenant: str = "") -> None:
        """Refuse with `InvalidRequest` what this agent could not do, before anything is begun."""
        check_choice(request, self.tools.for_tenant(tenant), self.modes)

    def list_modes(self, tenant: str = "") -> list[ModeSummary]:
        """The modes that a request may name, and what they offer to a tenant."""
        tools = self.tools.for_tenant(tenant)
        return [
            ModeSummary(
                key=mode.key,
                name=mode.display_name or mode.key,
                when_to_use=mode.when_to_use,
                tools=tuple(offered_tools(tools, mode)),
                default=mode.key == self.modes.default.key,
            )
            for mode in self.modes.all()
        ]

    def failed(self, request: AgentExecuteRequest, error: AntiphonError) -> AgentExecuteResponse:
        """The answer to a request that an error of ours has ended."""
        return map_error(error.status, {"error": error.to_wire()}, request, self.context)


@dataclass(frozen=True, slots=True)
class ServedAgent:
    """An agent for many tenants: it asks the models as the tenant whose request it is."""

    agent: Agent
    connect: Connect

    async def perform(
        self,
        tenant: str,
        request: AgentExecuteRequest,
        past: Sequence[AgentEvent] = (),
        tell: Emit | None = None,
    ) -> AgentExecuteResponse:
        """Do what a tenant asks."""
        return await self.agent.execute(request, self.connect(tenant), tell=tell, past=past, tenant=tenant)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentServices:
    """What the doors of the agent call: the agent itself, and its runs in the background."""

    agent: ServedAgent
    runs: AgentRuns
