"""AGN-003: from a conversation and a request to the body of `POST /v1/responses`.

The body is literal: content of type `text`, a tool choice of type `tool`, as in the document.
`antiphon.orchestrator.wire` makes it strict for servers that require it.
"""

from typing import cast

from antiphon.orchestrator.blocks import build_tool_results_block, json_or_none
from antiphon.orchestrator.models import AgentExecuteRequest, ConversationContext
from antiphon.protocol.content import JsonObject


def build_responses_request(
    context: ConversationContext,
    request: AgentExecuteRequest,
    *,
    rag_context_block: str | None = None,
    tool_usage_metadata_block: str | None = None,
    stream: bool | None = None,
) -> JsonObject:
    """The body of one call. Empty members are absent; malformed JSON never raises."""
    body: JsonObject = {"model": context.model_name}
    if context.temperature is not None:
        body["temperature"] = context.temperature
    if stream is not None:
        body["stream"] = stream
    user = _message("user", _opening(request), rag_context_block, _tool_results(request))
    if _present(request.response_continuation_id):
        body["previous_response_id"] = request.response_continuation_id
        body["input"] = [user]
    else:
        system = _message("system", context.system or "", request.system_prompt, tool_usage_metadata_block)
        body["input"] = [system, user]
        body.update(_tools(request.tools_json))
    if _present(request.tool_choice_name):
        body["tool_choice"] = {"type": "tool", "name": request.tool_choice_name}
    return body


def _present(text: str | None) -> bool:
    return bool(text and text.strip())


def _message(role: str, first: str, *others: str | None) -> JsonObject:
    """The first part is always present, even if empty; the others if they are not blank."""
    texts = [first, *(text for text in others if _present(text))]
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def _opening(request: AgentExecuteRequest) -> str:
    return f"[MODE: {request.mode or ''}]\n\n[INSTRUCTION]\n{request.instruction or ''}"


def _tool_results(request: AgentExecuteRequest) -> str:
    text = request.tool_results_json
    return build_tool_results_block(text if _present(text) else request.tool_results)


def _tools(tools_json: str | None) -> JsonObject:
    found = json_or_none(tools_json or "")
    if not isinstance(found, list) or not found:
        return {}
    return {"tools": [tool for tool in cast("list[object]", found) if isinstance(tool, dict)]}
