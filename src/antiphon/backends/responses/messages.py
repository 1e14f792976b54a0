"""The conversation as input items of the upstream. The upstream stores nothing: every turn sends all items.

Ids of Antiphon mean nothing to the upstream, so they are omitted where that is possible. Some items must have
one. Reasoning has the upstream's own id, because its sealed content is bound to it.
"""

from urllib.parse import urlsplit

from msgspec import Struct, UnsetType, to_builtins

from antiphon.backends.files import FileNotTaken
from antiphon.backends.registry import Endpoint
from antiphon.errors import Unsupported
from antiphon.protocol.content import InputFile, JsonObject
from antiphon.protocol.downgrade import Downgrades
from antiphon.protocol.ids import is_stored_file_id
from antiphon.protocol.items import CustomToolCall, Item, Message, OpaqueItem, Reasoning, is_call, is_output
from antiphon.protocol.stored_items import item_type
from antiphon.protocol.tool_items import (
    ApplyPatchCall,
    ComputerCall,
    HostedItem,
    LocalShellCall,
    McpApprovalRequest,
    McpApprovalResponse,
    McpListTools,
)
from antiphon.turn.context import TurnRequest
from antiphon.turn.provider_state import OpenedReasoning, ProviderState

_WITH_ID: tuple[type[Struct], ...] = (LocalShellCall, ComputerCall, *HostedItem.__args__)
"""Items that are rejected without an id, besides the model's messages and reasoning."""
_WITHOUT_STATUS = (CustomToolCall, McpListTools, McpApprovalRequest, McpApprovalResponse)
_LEFT_OUT = "reasoning of earlier turns is left out: this model's server takes back only its own"


def origin_of(endpoint: Endpoint) -> str:
    """The origin of provider state: only this server can read it, regardless of its configured name."""
    return f"responses@{urlsplit(endpoint.base_url).netloc.lower()}"


def reasoning_state(origin: str, item_id: str | None, sealed: str) -> ProviderState:
    """The state of reasoning that the upstream has sealed."""
    return ProviderState(origin, {"id": item_id or "", "encrypted_content": sealed})


def input_items(turn: TurnRequest, endpoint: Endpoint, downgrades: Downgrades) -> list[JsonObject]:
    found: list[JsonObject] = []
    for index, item in enumerate(turn.items):
        if isinstance(item, Reasoning):
            found += _reasoning(item, index, endpoint, downgrades)
            continue
        body = _message(item, index) if isinstance(item, Message) else _other(item, turn.param(index))
        for name in ("content", "output"):
            if isinstance(body.get(name), list):
                _fit_parts(body[name], f"{turn.param(index)}.{name}", endpoint, downgrades)
        found.append(body)
    return found


def _fit_parts(parts: list[JsonObject], path: str, endpoint: Endpoint, downgrades: Downgrades) -> None:
    """Parts as this upstream takes them; an error for those that it does not."""
    quirks = endpoint.quirks
    for position, part in enumerate(parts):
        kind = part.get("type")
        if is_stored_file_id(part.get("file_id") or ""):
            message = "This model's server does not have this file. Send its content instead."
            raise FileNotTaken(
                message,
                param=f"{path}[{position}].file_id",
                takes=_takes_file if quirks.files else None,
                stores_files=quirks.files is not None,
            )
        if kind == "input_image":
            part.setdefault("detail", "auto")  # some servers insist on it
        elif kind == "input_file" and not quirks.files:
            message = "This model's server does not take files. Send text instead."
            raise FileNotTaken(message, param=f"{path}[{position}]")
        elif kind == "input_audio" and not quirks.audio:
            message = "This model's server does not take sound. Send text instead."
            raise Unsupported(message, param=f"{path}[{position}]", code="unsupported_content")
        if kind == "input_file" and "file_data" in part:
            part.setdefault("filename", "file.pdf")  # the real API insists on it
        marked = quirks.prompt_cache and kind != "output_text"  # not allowed on the model's own text
        if kind and not marked and part.pop("prompt_cache_breakpoint", None):
            downgrades.add(
                "not_sent",
                "breakpoints of the prompt cache are not sent: this model's server may not support them",
                "input",
            )


def _takes_file(part: InputFile) -> bool:
    return not is_stored_file_id(part.file_id or "")


def _message(message: Message, index: int) -> JsonObject:
    body = to_builtins(message)
    content = body["content"]
    if message.role != "assistant" or isinstance(content, str):
        return {name: value for name, value in body.items() if name not in ("id", "status")}
    for part in content:
        part.pop("logprobs", None)
    # Servers that check by OpenAI's types insist on both.
    return {**body, "id": body.get("id") or f"msg_{index}", "status": body.get("status") or "completed"}


def _reasoning(item: Reasoning, index: int, endpoint: Endpoint, downgrades: Downgrades) -> list[JsonObject]:
    """The sealed form if the upstream made one, else the text if it takes that, else a downgrade."""
    plain: JsonObject = {"type": "reasoning", "summary": to_builtins(item.summary)}
    if endpoint.quirks.replay_reasoning == "item" and item.content:
        plain["content"] = to_builtins(item.content)
    states = item.states_from(origin_of(endpoint)) if isinstance(item, OpenedReasoning) else []
    if states:
        sealed = [{name: value for name, value in state.items() if value} for state in states]
        bare: JsonObject = {"type": "reasoning", "summary": []}
        return [{**plain, **sealed[0]}, *({**bare, **more} for more in sealed[1:])]
    if "content" in plain:
        return [{**plain, "id": item.id or f"rs_{index}"}]
    if item.summary or item.content or not isinstance(item.encrypted_content, UnsetType):
        downgrades.add("input_omitted", _LEFT_OUT, "input")
    return []


def _other(item: Item, param: str) -> JsonObject:
    if isinstance(item, OpaqueItem):
        return item.body
    if not (is_call(item) or is_output(item) or isinstance(item, HostedItem | McpApprovalResponse)):
        message = f"An item of type '{item_type(item)}' cannot be sent to this model's server."
        raise Unsupported(message, param=param, code="unsupported_item")
    body = to_builtins(item)
    if not isinstance(item, _WITH_ID) and "call_id" in body:
        body.pop("id", None)
    if isinstance(item, _WITHOUT_STATUS) or body["type"] == "custom_tool_call_output":
        body.pop("status", None)
    if isinstance(item, ApplyPatchCall):
        body["status"] = "completed"  # it knows no other end
    return body
