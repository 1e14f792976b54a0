"""The messages of codex, with the used members only. Unknown methods and members are ignored."""

from msgspec import Raw, Struct

DECLINED: dict[str, dict[str, object]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline"},
}
"""The answers to requests that need a person: they are declined."""

TOOL_CALL = "item/tool/call"


class Wire(Struct, rename="camel", frozen=True):
    """The names of codex's protocol are in camel case."""


class Addressed(Wire, frozen=True):
    """Which thread a message is about; empty: none."""

    thread_id: str = ""


class Started(Struct, frozen=True):
    """The id of a thread or of a turn that was begun."""

    id: str


class ThreadStarted(Struct, frozen=True):
    """The answer to `thread/start`."""

    thread: Started


class TurnStarted(Struct, frozen=True):
    """The answer to `turn/start`."""

    turn: Started


class Delta(Wire, frozen=True):
    """A piece of an item's text."""

    item_id: str
    delta: str
    summary_index: int = 0


class ThreadItem(Struct, frozen=True):
    """An item as codex shows it to a person."""

    type: str
    id: str = ""
    text: str | None = None
    summary: list[str] = []


class ItemCompleted(Struct, frozen=True):
    """An item is complete."""

    item: ThreadItem


class ModelItem(Struct, frozen=True):
    """An item as the model and codex exchange it."""

    type: str
    call_id: str | None = None
    name: str = ""
    namespace: str | None = None
    arguments: str | None = None


class ModelItemCompleted(Wire, frozen=True):
    """The model has completed an item, or codex has answered a call."""

    turn_id: str
    item: ModelItem


class Tokens(Wire, frozen=True):
    """The token counts of one call of the model."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_input_tokens: int = 0
    reasoning_output_tokens: int = 0


class ModelCallCompleted(Wire, frozen=True):
    """One call of the model has ended; a turn has one, and one more after each round of tools."""

    turn_id: str
    usage: Tokens | None = None


class ToolCall(Wire, frozen=True):
    """Codex requests the output of a tool."""

    call_id: str


class TurnError(Wire, frozen=True):
    """Why a turn failed."""

    message: str
    codex_error_info: str | dict[str, object] | None = None
    additional_details: str | None = None


class TurnTrouble(Wire, frozen=True):
    """Something went wrong in a turn; `will_retry`: it continues nevertheless."""

    turn_id: str
    will_retry: bool = False


class Turn(Struct, frozen=True):
    """A turn at its end."""

    id: str
    status: str
    error: TurnError | None = None


class TurnCompleted(Struct, frozen=True):
    """The turn is over."""

    turn: Turn


class Model(Struct, frozen=True):
    """A model that codex offers."""

    id: str


class ModelList(Wire, frozen=True):
    """A page of models."""

    data: list[Model]
    next_cursor: str | None = None


class Account(Struct, frozen=True):
    """The login of codex: `chatgpt`, `apiKey`, …"""

    type: str


class AccountState(Wire, frozen=True):
    """The answer to `account/read`."""

    account: Account | None = None
    requires_openai_auth: bool = False


class RpcError(Struct, frozen=True):
    """Codex rejects a request."""

    code: int
    message: str


class Message(Struct, frozen=True):
    """A line: a request or a notification of codex, or its answer to a request."""

    id: int | str | None = None
    method: str | None = None
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"null")
    error: RpcError | None = None
