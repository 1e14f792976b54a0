"""The agent orchestrator: a client of the Responses API that builds requests, maps results and runs tools.

Five parts, each usable on its own:

    build_responses_request   a context and a request become the body of a `/responses` call (AGN-003)
    map_response, map_error   what came back becomes an `AgentExecuteResponse` (AGN-004)
    Provider                  one-shot and multi-turn calls
    run_orchestrator          a loop of tools that ends with a decision
    execute                   the reasoner: modes, retrieval, server tools and client tools around all that

The names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antiphon.orchestrator.blocks import (
        build_rag_context_block,
        build_tool_results_block,
        build_tool_usage_block,
    )
    from antiphon.orchestrator.client import InProcessResponsesClient
    from antiphon.orchestrator.http_client import HttpResponsesClient
    from antiphon.orchestrator.loop import run_orchestrator
    from antiphon.orchestrator.models import (
        ActiveFile,
        AgentExecuteRequest,
        AgentExecuteResponse,
        AgentToolCall,
        ConversationContext,
        FileBundle,
        FileBundleItem,
        LlmUsage,
        SourceRef,
    )
    from antiphon.orchestrator.provider import Provider, TurnResult
    from antiphon.orchestrator.reasoner import execute
    from antiphon.orchestrator.request_builder import build_responses_request
    from antiphon.orchestrator.response_mapper import map_error, map_response
    from antiphon.retrieval.base import RagChunk
    from antiphon.tools.declaration import ServerTool, Tool, ToolCall
    from antiphon.tools.registry import ToolRegistry

__all__ = [
    "ActiveFile",
    "AgentExecuteRequest",
    "AgentExecuteResponse",
    "AgentToolCall",
    "ConversationContext",
    "FileBundle",
    "FileBundleItem",
    "HttpResponsesClient",
    "InProcessResponsesClient",
    "LlmUsage",
    "Provider",
    "RagChunk",
    "ServerTool",
    "SourceRef",
    "Tool",
    "ToolCall",
    "ToolRegistry",
    "TurnResult",
    "build_rag_context_block",
    "build_responses_request",
    "build_tool_results_block",
    "build_tool_usage_block",
    "execute",
    "map_error",
    "map_response",
    "run_orchestrator",
]

_HERE = "antiphon.orchestrator"
_NAMES = {
    f"{_HERE}.blocks": ("build_rag_context_block", "build_tool_results_block", "build_tool_usage_block"),
    f"{_HERE}.http_client": ("HttpResponsesClient",),
    f"{_HERE}.client": ("InProcessResponsesClient",),
    f"{_HERE}.loop": ("run_orchestrator",),
    f"{_HERE}.models": (
        "ActiveFile",
        "AgentExecuteRequest",
        "AgentExecuteResponse",
        "AgentToolCall",
        "ConversationContext",
        "FileBundle",
        "FileBundleItem",
        "LlmUsage",
        "SourceRef",
    ),
    f"{_HERE}.provider": ("Provider", "TurnResult"),
    f"{_HERE}.reasoner": ("execute",),
    f"{_HERE}.request_builder": ("build_responses_request",),
    f"{_HERE}.response_mapper": ("map_error", "map_response"),
    "antiphon.retrieval.base": ("RagChunk",),
    "antiphon.tools.declaration": ("ServerTool", "Tool", "ToolCall"),
    "antiphon.tools.registry": ("ToolRegistry",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module '{_HERE}' has no attribute '{name}'")
    return getattr(import_module(home), name)
