"""Translate a turn into the requests to codex: a thread, its history, and one turn in it. Pure."""

from collections.abc import Mapping
from hashlib import sha256
from itertools import takewhile
from typing import Literal

import msgspec
from msgspec import Struct, UnsetType

from antiphon.backends.codex_app_server.messages import OUTPUT, call_item, thread_items
from antiphon.backends.codex_app_server.tools import ToolNames, tool_result, tool_spec
from antiphon.protocol.content import JsonObject
from antiphon.protocol.downgrade import Downgrade, Downgrades
from antiphon.protocol.requests import CreateBody, TextFormat
from antiphon.turn.constraints import Constraint
from antiphon.turn.context import TurnRequest, TurnTool
from antiphon.turn.function_forms.normal_arguments import normal_arguments

DEFAULT_MODEL = "codex"
"""The name of the model that codex itself is configured with."""

PERSONA = "You are a helpful assistant. Use the given tools when they help."
"""In place of codex's own prompt, which describes tools that are off."""

_FEATURES = (
    "apps",
    "goals",
    "hooks",
    "image_generation",
    "multi_agent",
    "plugins",
    "shell_tool",
    "sleep_tool",
    "unified_exec",
    "view_image",
)
_TOOLS_ARE_CALLED: JsonObject = {"code_mode": {"direct_only_tool_namespaces": ["functions"]}}
"""Many models of codex call tools from programs that they write and codex runs. The client's are called by
the model itself, so that the client sees the call as the model wrote it, and all calls of a round at once."""
NO_TOOLS_OF_ITS_OWN: JsonObject = {
    "web_search": "disabled",
    "project_doc_max_bytes": 0,
    "include_environment_context": False,
    "include_permissions_instructions": False,
    "include_apps_instructions": False,
    "include_collaboration_mode_instructions": False,
    "skills": {"include_instructions": False},
    "tools": {"experimental_request_user_input": {"enabled": False}},
    "features": {**dict.fromkeys(_FEATURES, False), **_TOOLS_ARE_CALLED},
}
"""The part of codex's configuration that makes it a model rather than an agent."""

_NOT_SENT = {
    "frequency_penalty": 0,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "presence_penalty": 0,
    "prompt_cache_key": None,
    "prompt_cache_options": None,
    "prompt_cache_retention": None,
    "safety_identifier": None,
    "temperature": 1,
    "top_logprobs": 0,
    "top_p": 1,
}
"""Parameters that codex has no field for, each with the value that is the default."""
_LOGPROBS = "message.output_text.logprobs"


class ThreadOptions(Struct, frozen=True):
    """The settings of all threads."""

    folder: str
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "read-only"
    own_tools: bool = False


class CodexRequest(Struct, frozen=True):
    """One turn in codex's terms."""

    thread: JsonObject
    items: list[JsonObject]
    turn: JsonObject
    tools: Mapping[str, TurnTool]
    downgrades: tuple[Downgrade, ...]
    unenforced: frozenset[Constraint] = frozenset()
    tenant: str = ""

    @property
    def outputs(self) -> Mapping[str, JsonObject]:
        """The tool outputs that the history ends with, as answers to codex, by the ids of their calls."""
        last = list(takewhile(lambda item: item["type"] == OUTPUT, reversed(self.items)))
        return {item["call_id"]: tool_result(item["output"]) for item in reversed(last)}

    def fingerprint(self, length: int) -> bytes:
        """The request with so many items of the history: an equal one continues the same turn."""
        return sha256(
            msgspec.json.encode([self.tenant, self.thread, self.turn, self.items[:length]])
        ).digest()

    def added_after(self, length: int) -> tuple[str, list[JsonObject]] | None:
        """Text and calls of the assistant after `length` items of the history and before the outputs at its
        end. None: there are other items too."""
        added = self.items[length : len(self.items) - len(self.outputs)]
        messages = [item for item in added if item.get("role") == "assistant"]
        calls = [item for item in added if item["type"] == "function_call"]
        if len(messages) + len(calls) < len(added):
            return None
        return "".join(part["text"] for message in messages for part in message["content"]), calls

    def sent_back(self, call_id: str, name: str, arguments: str) -> JsonObject:
        """The call as it is in the history of a client that received it."""
        return call_item(call_id, name, normal_arguments(self.tools[name], arguments))


def build_request(turn: TurnRequest, options: ThreadOptions) -> CodexRequest:
    """Translate a turn."""
    downgrades = Downgrades()
    asks = [turn.params.instructions] if turn.params.instructions else []
    names = ToolNames(turn.tools)
    items = thread_items(turn, names, downgrades)
    tools = [tool_spec(tool, alias, downgrades) for alias, tool in names.by_alias.items()]
    _ask_for_choice(turn, names, downgrades, asks)
    request = _turn_options(turn.params, downgrades, asks)
    _list_not_sent(turn, downgrades)
    return CodexRequest(
        thread=_thread(turn.model, options, "\n\n".join(asks), tools),
        items=items,
        turn=request,
        tools=names.by_alias,
        downgrades=tuple(downgrades),
        unenforced=_unenforced(turn),
        tenant=turn.tenant,
    )


def _unenforced(turn: TurnRequest) -> frozenset[Constraint]:
    demands: set[Constraint] = set()
    if turn.choice not in ("auto", "none"):
        demands.add("tool_choice")
    form = turn.params.text.format if turn.params.text is not None else None
    if form is not None and form.type == "json_object":
        demands.add("format")
    if any(tool.grammar is not None for tool in turn.tools):
        demands.add("grammar")
    return frozenset(demands)


def _thread(model: str, options: ThreadOptions, instructions: str, tools: list[JsonObject]) -> JsonObject:
    thread: JsonObject = {
        "cwd": options.folder,
        "sandbox": options.sandbox,
        "approvalPolicy": "never",
        "ephemeral": True,
        # They contain the end of a model call, its usage, and its tool calls as the model wrote them.
        "experimentalRawEvents": True,
    }
    if model != DEFAULT_MODEL:
        thread["model"] = model
    if instructions:
        thread["developerInstructions"] = instructions
    if tools:
        thread["dynamicTools"] = tools
    if not options.own_tools:
        thread |= {"baseInstructions": PERSONA, "environments": [], "config": NO_TOOLS_OF_ITS_OWN}
    elif tools:
        thread["config"] = {"features": _TOOLS_ARE_CALLED}
    return thread


def _ask_for_choice(turn: TurnRequest, names: ToolNames, downgrades: Downgrades, asks: list[str]) -> None:
    if turn.choice in ("auto", "none"):
        return  # with "none" the model is shown no tools
    tools = ", ".join(names.by_alias)
    asks.append(f"You must answer by calling one of these tools, and not with text: {tools}.")
    downgrades.add(
        "not_enforced", "{param} is asked for in the prompt: codex does not enforce it", "tool_choice"
    )


def _turn_options(params: CreateBody, downgrades: Downgrades, asks: list[str]) -> JsonObject:
    options: JsonObject = {}
    if params.reasoning is not None:
        if params.reasoning.effort is not None:
            options["effort"] = params.reasoning.effort
        if params.reasoning.summary is not None:
            options["summary"] = params.reasoning.summary
    if params.text is not None and params.text.format is not None:
        _put_format(options, params.text.format, downgrades, asks)
    return options


def _put_format(options: JsonObject, form: TextFormat, downgrades: Downgrades, asks: list[str]) -> None:
    if form.type == "json_object":
        asks.append("Answer with one JSON object only.")
        downgrades.add(
            "not_enforced",
            "JSON is asked for in the prompt: codex does not enforce it without a schema",
            "text.format",
        )
    elif form.type == "json_schema" and not isinstance(form.schema, UnsetType):
        options["outputSchema"] = form.schema
        if form.strict is not True:
            downgrades.add(
                "value_changed",
                "the JSON schema is treated as strict: codex supports no other",
                "text.format",
            )


def _list_not_sent(turn: TurnRequest, downgrades: Downgrades) -> None:
    params = turn.params
    left = [name for name, usual in _NOT_SENT.items() if getattr(params, name) not in (None, usual)]
    if _LOGPROBS in (params.include or ()):
        left.append(f"include '{_LOGPROBS}'")
    if params.text is not None and params.text.verbosity in ("low", "high"):
        left.append("text.verbosity")
    if params.service_tier not in (None, "auto", "default"):
        left.append("service_tier")
    if left:
        downgrades.add("not_sent", "not sent to codex: {param}", *left)
    if turn.tools and params.parallel_tool_calls is False:
        downgrades.add(
            "not_sent", "'{param}' is not sent: codex may call several tools at once", "parallel_tool_calls"
        )
