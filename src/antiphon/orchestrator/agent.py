"""An agent: everything that `execute` needs besides the request and the client, assembled once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from antiphon.caller import Caller
from antiphon.errors import AntiphonError
from antiphon.orchestrator.agent_runs import AgentRuns
from antiphon.orchestrator.client import ResponsesClient
from antiphon.orchestrator.events import AgentEvent
from antiphon.orchestrator.models import (
    AgentExecuteRequest,
    AgentExecuteResponse,
    ConversationContext,
    Limits,
)
from antiphon.orchestrator.modes import Modes
from antiphon.orchestrator.reasoner import execute
from antiphon.orchestrator.resolution import check_choice, offered_tools
from antiphon.orchestrator.response_mapper import map_error
from antiphon.orchestrator.run_state import Emit
from antiphon.retrieval.base import Retriever
from antiphon.tools.registry import ToolRegistry

Connect = Callable[[Caller], ResponsesClient]
"""The client of a tenant."""


class ModeSummary(Struct, frozen=True, kw_only=True):
    """A mode, as clients see it."""

    key: str
    object: str = "agent.mode"
    name: str
    when_to_use: str
    tools: tuple[str, ...]
    hosted_tools: tuple[str, ...] = ()
    """The types of its hosted tools."""
    default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The parts of an agent. The client is given with every request."""

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
        key_id: str | None = None,
        durable: bool = False,
    ) -> AgentExecuteResponse:
        """Process a request, or resume one: see `antiphon.orchestrator.reasoner`."""
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
            key_id=key_id,
            durable=durable,
        )

    def check(self, request: AgentExecuteRequest, tenant: str = "") -> None:
        """Raise `InvalidRequest` for a request that this agent cannot process, before anything is started."""
        check_choice(request, self.tools.for_tenant(tenant), self.modes)

    def list_modes(self, tenant: str = "") -> list[ModeSummary]:
        """The modes that a request may name, with the tools that they offer to a tenant."""
        tools = self.tools.for_tenant(tenant)
        return [
            ModeSummary(
                key=mode.key,
                name=mode.display_name or mode.key,
                when_to_use=mode.when_to_use,
                tools=tuple(offered_tools(tools, mode)),
                hosted_tools=tuple(str(tool.get("type")) for tool in mode.hosted_tools),
                default=mode.key == self.modes.default.key,
            )
            for mode in self.modes.all()
        ]

    def failed(self, request: AgentExecuteRequest, error: AntiphonError) -> AgentExecuteResponse:
        """The response to a request that ended with an error of Antiphon."""
        return map_error(error.status, {"error": error.to_wire()}, request, self.context)


@dataclass(frozen=True, slots=True)
class ServedAgent:
    """An agent for many tenants: it calls the models on behalf of the caller."""

    agent: Agent
    connect: Connect

    async def perform(
        self,
        caller: Caller,
        request: AgentExecuteRequest,
        past: Sequence[AgentEvent] = (),
        tell: Emit | None = None,
    ) -> AgentExecuteResponse:
        return await self.agent.execute(
            request,
            self.connect(caller),
            tell=tell,
            past=past,
            tenant=caller.tenant,
            key_id=caller.key_id,
        )

    async def perform_run(
        self, caller: Caller, request: AgentExecuteRequest, past: Sequence[AgentEvent], tell: Emit
    ) -> AgentExecuteResponse:
        """Process the request of a run in the background, which waits for approvals."""
        return await self.agent.execute(
            request,
            self.connect(caller),
            tell=tell,
            past=past,
            tenant=caller.tenant,
            key_id=caller.key_id,
            durable=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentServices:
    """The dependencies of the agent's routes: the agent, and its background runs."""

    agent: ServedAgent
    runs: AgentRuns
