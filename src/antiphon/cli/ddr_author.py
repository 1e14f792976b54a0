"""Has a model write a design document. Whoever asked decides what becomes of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
from msgspec import structs

from antiphon.cli.agent_client import open_client
from antiphon.cli.agent_progress import ProgressPrinter
from antiphon.cli.asking import prepare_model
from antiphon.cli.failure import Failure
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

Check = Callable[[Draft], object]
"""Raises what is wrong with a draft; the model is told, and may try again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorOptions(SettingsOptions):
    """Which model writes."""

    base_url: str | None = None

    def load(self) -> Settings:
        """The settings; of a server that is asked instead, the model is no concern of ours."""
        settings = (replace(self, model=None) if self.base_url else self).load_to_ask()
        model = self.model or settings.agent.model
        return structs.replace(settings, agent=structs.replace(settings.agent, model=model))


@dataclass(frozen=True, slots=True)
class Author:
    """The model of these settings, or of a server, with the documents that it may read."""

    base_url: str | None
    settings: Settings
    library: Library

    def write(self, instruction: str, check: Check) -> Draft:
        """What the model wants the document to say."""
        agent = replace(make_agent(self._agent_settings()), tools=self._tools(check))
        return _draft(asyncio.run(self._execute(agent, instruction)))

    def _tools(self, check: Check) -> ToolRegistry:
        """The document tools, but what `ddr_document` is called with is checked and handed to us."""

        def preflight(call: DocumentArguments) -> str:
            check(call.draft())
            return ""

        others = [tool for tool in ddr_tools(self.library) if tool.name != DOCUMENT_TOOL]
        return ToolRegistry([document_tool(preflight, final="client"), *others])

    async def _execute(self, agent: Agent, instruction: str) -> AgentExecuteResponse:
        request = AgentExecuteRequest(mode=CREATION, instruction=instruction, tool_choice_name=DOCUMENT_TOOL)
        printer = ProgressPrinter()
        try:
            async with open_client(self.base_url, self.settings) as client:
                return await agent.execute(request, client, tell=printer.tell)
        finally:
            printer.close()

    def _agent_settings(self) -> AgentSettings:
        """With the model, which may have to be fetched first."""
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
    raise Failure(f"The model wrote no document. It said: {response.text or 'nothing'}")
