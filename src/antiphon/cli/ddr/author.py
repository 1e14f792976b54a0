"""Lets a model write the draft of a design document."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
from msgspec import structs

from antiphon.cli.agent.progress import ProgressPrinter
from antiphon.cli.clients import open_agent_client
from antiphon.cli.failure import Failure
from antiphon.cli.models import prepare_model
from antiphon.cli.options import SettingsOptions
from antiphon.orchestrator.agent import Agent
from antiphon.orchestrator.documents.entry import Draft
from antiphon.orchestrator.documents.library import Library
from antiphon.orchestrator.documents.schemas import DocumentArguments
from antiphon.orchestrator.documents.tools import CREATION, DOCUMENT_TOOL, ddr_tools, document_tool
from antiphon.orchestrator.models import AgentExecuteRequest, AgentExecuteResponse
from antiphon.settings import AgentSettings, Settings
from antiphon.tools.registry import ToolRegistry
from antiphon.wiring.agent import make_agent

DraftCheck = Callable[[Draft], object]
"""Raises an error for an invalid draft; the model receives it and may try again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorOptions(SettingsOptions):
    """Selects the model that writes."""

    base_url: str | None = None

    def load(self) -> Settings:
        """The settings. With --base-url, the model is the server's and is not loaded here."""
        settings = (replace(self, model=None) if self.base_url else self).load_to_ask()
        model = self.model or settings.agent.model
        return structs.replace(settings, agent=structs.replace(settings.agent, model=model))


@dataclass(frozen=True, slots=True)
class Author:
    """A model that writes drafts and may read the documents of a library."""

    base_url: str | None
    settings: Settings
    library: Library

    def write(self, instruction: str, check: DraftCheck) -> Draft:
        """The draft that the model writes."""
        agent = replace(make_agent(self._agent_settings()), tools=self._tools(check))
        return _draft(asyncio.run(self._execute(agent, instruction)))

    def _tools(self, check: DraftCheck) -> ToolRegistry:
        """The document tools; calls of `ddr_document` are checked and returned instead of executed."""

        def preflight(call: DocumentArguments) -> str:
            check(call.draft())
            return ""

        others = [tool for tool in ddr_tools(self.library) if tool.name != DOCUMENT_TOOL]
        return ToolRegistry([document_tool(preflight, final="client"), *others])

    async def _execute(self, agent: Agent, instruction: str) -> AgentExecuteResponse:
        request = AgentExecuteRequest(mode=CREATION, instruction=instruction, tool_choice_name=DOCUMENT_TOOL)
        printer = ProgressPrinter()
        try:
            async with open_agent_client(self.base_url, self.settings) as client:
                return await agent.execute(request, client, tell=printer.emit)
        finally:
            printer.close()

    def _agent_settings(self) -> AgentSettings:
        """The settings of the agent with its model, downloaded if it is missing."""
        agent = self.settings.agent
        if self.base_url is not None:
            return agent
        return structs.replace(agent, model=prepare_model(self.settings, agent.model or None) or "")


def _draft(response: AgentExecuteResponse) -> Draft:
    if response.kind == "error":
        raise Failure(response.error_message or "The model failed.")
    for call in reversed(response.tool_calls):
        if call.name == DOCUMENT_TOOL and not call.is_server_tool:
            return msgspec.json.decode(call.arguments_json or "", type=DocumentArguments).draft()
    raise Failure(f"The model wrote no document. Its answer: {response.text or 'none'}")
