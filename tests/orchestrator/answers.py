"""Responses in the shapes that servers send, and their mapping."""

from typing import Any

from antiphon.orchestrator.models import AgentExecuteRequest, AgentExecuteResponse, ConversationContext
from antiphon.orchestrator.response_mapper import map_response

REQUEST = AgentExecuteRequest(mode="QA", conversation_id="conv_1", instruction="Hi")
CONTEXT = ConversationContext(model_name="asked", id="ctx_1", agent_context_id="agent_1")


def mapped(raw: Any, request: AgentExecuteRequest = REQUEST) -> AgentExecuteResponse:
    return map_response(raw, request, CONTEXT)


def of(*output: Any, **members: Any) -> AgentExecuteResponse:
    """Map a response with these segments."""
    return mapped({"id": "resp_1", "model": "gpt-5.1", "output": list(output), **members})


def text_part(text: str, **members: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, **members}


def message(*parts: Any, **members: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(parts), **members}


CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": '{"a":1}'}
