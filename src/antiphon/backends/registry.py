"""The endpoints we know, as data: where they are, what they speak, in what they differ.

An OpenAI-compatible endpoint is one row of `ENDPOINTS`. Code reads the fields of a row, never its name.
A row describes the server, not its models: what only some models of a server take is sent, and that
server's own refusal reaches the caller.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from antiphon.errors import SettingsError
from antiphon.protocol.requests import Effort
from antiphon.settings import TextCalls

Dialect = Literal["chat_completions"]
Hint = Literal["user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier"]

ALL_EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


class Quirks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an endpoint takes and how it speaks. The defaults are what nearly every server takes."""

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The name of the field that bounds the answer."""
    developer_role: bool = False
    """Whether the role `developer` is kept; otherwise it becomes `system`."""
    late_system: bool = False
    """Whether a system message may stand after the conversation began; otherwise it is sent as the user's."""
    usage_on_request: bool = True
    """Whether a stream must be asked for its usage (`stream_options.include_usage`)."""
    tool_choice: Literal["named", "required", "asked"] = "named"
    """The strongest form that is obeyed: one named tool, any tool, or only what the prompt asks for."""
    parallel_tool_calls: bool = True
    strict_tools: bool = False
    """Whether `strict` is understood in a tool."""
    json_schema: bool = True
    json_object: bool = True
    logprobs: bool = True
    efforts: tuple[Effort, ...] = ("low", "medium", "high")
    """The reasoning efforts it takes; others become the nearest. Empty: none is sent."""
    effort_field: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    """`reasoning` is an object with the member `effort`."""
    thinking_switch: bool = False
    """Whether effort `none` is said as ``thinking: {"type": "disabled"}``."""
    replay_reasoning: Literal["reasoning_content", "reasoning"] | None = None
    """The field in which an assistant message takes its own reasoning back."""
    think_tags: tuple[str, str] | None = ("<think>", "</think>")
    """Tags around reasoning at the start of the answer's text, where the server does not part the two."""
    think_open: bool = False
    """Whether the answer begins inside the tags: DeepSeek-R1's templates open them in the prompt."""
    images: Literal["url", "data"] | None = "url"
    """`url`: https and data URLs; `data`: data URLs only."""
    files: Literal["url", "data"] | None = None
    audio: bool = False
    verbosity: bool = False
    hints: frozenset[Hint] = frozenset()
    """Parameters without an effect on the answer that are passed on."""


_PLAIN = Quirks()


class EndpointKind(Struct, frozen=True, kw_only=True):
    """One row: a kind of server."""

    base_url: str
    api_key_env: str = ""
    dialect: Dialect = "chat_completions"
    quirks: Quirks = _PLAIN
    text_calls: TextCalls = "off"
    """How its models write tool calls as text, where the server does not read them."""


_BASE_URL = re.compile(r"https?://[^\s/@?#]+(?:/[^\s?#]*)?")
_ON_PREMISES: tuple[Effort, ...] = ("none", "low", "medium", "high")

ENDPOINTS: Mapping[str, EndpointKind] = {
    # Any server of which nothing is known. Many reject unknown fields, so no hint and no replay.
    "plain": EndpointKind(base_url="http://localhost:8000/v1", text_calls="auto"),
    "openai": EndpointKind(
        base_url="https://api.openai.com/v1",
        api_key_env="OPENAI_API_KEY",
        quirks=Quirks(
            max_tokens="max_completion_tokens",  # reasoning models refuse max_tokens
            developer_role=True,
            late_system=True,
            strict_tools=True,
            efforts=ALL_EFFORTS,
            think_tags=None,
            files="data",
            audio=True,
            verbosity=True,
            hints=frozenset(
                {"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier"}
            ),
        ),
    ),
    "vllm": EndpointKind(
        base_url="http://localhost:8000/v1",
        api_key_env="VLLM_API_KEY",
        text_calls="auto",
        quirks=Quirks(
            efforts=_ON_PREMISES,
            # vLLM renamed reasoning_content (vllm#27755) and does not read the old name back (vllm#38488).
            replay_reasoning="reasoning",
            audio=True,
            hints=frozenset({"user"}),
        ),
    ),
    "ollama": EndpointKind(
        base_url="http://localhost:11434/v1",
        api_key_env="OLLAMA_API_KEY",
        text_calls="auto",
        quirks=Quirks(
            tool_choice="asked",  # neither field is read: see ChatCompletionRequest in ollama's openai.go
            parallel_tool_calls=False,
            efforts=_ON_PREMISES,
            replay_reasoning="reasoning",
            images="data",
        ),
    ),
    "llama.cpp": EndpointKind(
        base_url="http://localhost:8080/v1",
        api_key_env="LLAMA_API_KEY",
        text_calls="auto",
        quirks=Quirks(
            tool_choice="required",  # an object silently means auto (llama.cpp#26535)
            efforts=_ON_PREMISES,
            replay_reasoning="reasoning_content",
            audio=True,
        ),
    ),
    "lm-studio": EndpointKind(
        base_url="http://localhost:1234/v1",
        api_key_env="LM_API_TOKEN",
        text_calls="auto",
        quirks=Quirks(
            tool_choice="required",  # an object is refused (lmstudio-bug-tracker#670)
            parallel_tool_calls=False,
            json_object=False,
            logprobs=False,
            images="data",
        ),
    ),
    "openrouter": EndpointKind(
        base_url="https://openrouter.ai/api/v1",
        api_key_env="OPENROUTER_API_KEY",
        quirks=Quirks(
            late_system=True,
            strict_tools=True,
            efforts=ALL_EFFORTS[:-1],
            effort_field="reasoning",
            replay_reasoning="reasoning",
            files="url",
            audio=True,
            verbosity=True,
            hints=frozenset({"user"}),
        ),
    ),
    "deepseek": EndpointKind(
        base_url="https://api.deepseek.com",
        api_key_env="DEEPSEEK_API_KEY",
        quirks=Quirks(
            late_system=True,
            parallel_tool_calls=False,
            json_schema=False,
            efforts=ALL_EFFORTS,  # it maps them to low, high and max by itself
            thinking_switch=True,
            replay_reasoning="reasoning_content",  # a tool loop without it is refused with 400
            think_tags=None,
            images=None,
        ),
    ),
    "groq": EndpointKind(
        base_url="https://api.groq.com/openai/v1",
        api_key_env="GROQ_API_KEY",
        quirks=Quirks(
            max_tokens="max_completion_tokens",
            late_system=True,
            logprobs=False,  # refused with 400
            efforts=_ON_PREMISES,
            replay_reasoning="reasoning",
            hints=frozenset({"user"}),
        ),
    ),
    "mistral": EndpointKind(
        base_url="https://api.mistral.ai/v1",
        api_key_env="MISTRAL_API_KEY",
        quirks=Quirks(
            late_system=True,
            usage_on_request=False,  # always sent; fields it does not know are refused with 422
            logprobs=False,
            efforts=("none", "high"),
        ),
    ),
    "together": EndpointKind(
        base_url="https://api.together.ai/v1",
        api_key_env="TOGETHER_API_KEY",
        quirks=Quirks(
            late_system=True,
            parallel_tool_calls=False,
            logprobs=False,  # an integer there, and answered in another shape
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds. A comment in a stream is no sign of life: only events are."""

    connect: float = 5.0
    first_byte: float = 300.0
    """Until the first event of a stream."""
    between: float = 120.0
    """Between two events, or two pieces of a JSON body."""
    answer: float = 600.0
    """Until the first byte of a JSON answer, which is generated whole before it is sent."""
    total: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A configured upstream."""

    name: str
    kind: str = "plain"
    base_url: str
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    quirks: Quirks = _PLAIN
    deadlines: Deadlines = Deadlines()
    retries: int = 2
    backoff: float = 0.25
    """Seconds before the first retry, doubled for each further one."""
    heartbeat: float = 10.0
    max_event_bytes: int = 8 * 1024 * 1024
    max_body_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        if not _BASE_URL.fullmatch(self.base_url):
            raise SettingsError(
                f"The upstream '{self.name}' needs a base_url such as 'http://localhost:8000/v1': http or "
                "https, without user, password, query or white space."
            )
        if not all(map(str.isprintable, (*self.secrets, *self.headers))):
            raise SettingsError(
                f"The api_key or a header of the upstream '{self.name}' has a line break in it."
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never appear in a message."""
        return tuple(filter(None, (self.api_key, *self.headers.values())))


def endpoint_kind(kind: str) -> EndpointKind:
    """The row of this name."""
    try:
        return ENDPOINTS[kind]
    except KeyError:
        known = ", ".join(ENDPOINTS)
        raise SettingsError(f"Unknown kind of upstream '{kind}'. Use one of: {known}.") from None


def default_endpoint(kind: str, base_url: str = "") -> Endpoint:
    """An endpoint as its row has it; `dataclasses.replace` gives it a name, a key and other limits."""
    row = endpoint_kind(kind)
    return Endpoint(name=kind, kind=kind, base_url=(base_url or row.base_url).rstrip("/"), quirks=row.quirks)
