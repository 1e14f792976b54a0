"""The known kinds of endpoints, as data: address, dialect, and quirks.

An OpenAI-compatible endpoint is one row of `ENDPOINTS`. Code reads the fields of a row, never its name. A row
describes the server, not its models: a parameter that only some models support is sent, and the caller
receives the server's own error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from antiphon.backends.features import FUNCTIONS
from antiphon.errors import SettingsError
from antiphon.http.target import DEFAULT_DEADLINES, Deadlines, Target
from antiphon.protocol.requests import Effort
from antiphon.protocol.tools import CLIENT_TOOLS, HOSTED_TOOLS
from antiphon.settings import StrictSchemas, TextCalls

Dialect = Literal["chat_completions", "anthropic_messages", "gemini", "responses"]
Hint = Literal["user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier"]

ALL_EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


class Quirks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The capabilities and quirks of an endpoint. The defaults suit nearly every server."""

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The name of the field that bounds the answer."""
    developer_role: bool = False
    """Whether it takes the role `developer`; otherwise it is sent as `system`."""
    late_system: bool = False
    """Whether a system message may follow other messages; otherwise it is sent as a user message."""
    usage_on_request: bool = True
    """Whether a stream must be asked for its usage (`stream_options.include_usage`)."""
    tool_choice: Literal["named", "required", "asked"] = "named"
    """The strongest supported form: one named tool, any tool, or only a request in the prompt."""
    parallel_tool_calls: bool = True
    strict_tools: bool = False
    """Whether `strict` is understood in a tool."""
    tools: Literal["sent", "prompt"] = "sent"
    """`prompt`: the model's template shows no tools, so they are described in the system message."""
    grammars: bool = False
    """Whether the engine is built with llguidance and takes its grammars in the field `grammar`. A llama.cpp
    that is built without it aborts on such a value."""
    json_schema: bool = True
    json_object: bool = True
    logprobs: bool = True
    efforts: tuple[Effort, ...] = ("low", "medium", "high")
    """The reasoning efforts it takes; others become the nearest. Empty: none is sent."""
    effort_field: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    """`reasoning` is an object with the member `effort`."""
    thinking_switch: bool = False
    """Whether effort `none` is sent as ``thinking: {"type": "disabled"}``."""
    replay_reasoning: Literal["reasoning_content", "reasoning", "item"] | None = None
    """The field of an assistant message for its reasoning; or reasoning is a separate `item`."""
    sealed_reasoning: bool = False
    """Whether it seals its reasoning if asked to (`include`), and takes that back."""
    obfuscates: bool = False
    """Whether it pads the events of a stream unless asked not to."""
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
    prompt_cache: Literal["automatic", "marked"] | None = None
    """Which breakpoints of the prompt cache are sent: the caller's and two more, or the caller's only."""


_PLAIN = Quirks()


class WindowSource(Struct, frozen=True):
    """Where a server reports the context windows of its models (`context_window.py` reads it).

    `path` is below the API root. One that begins with `/` is below the server's, the same without `/v1`.
    """

    path: str = "models"
    members: tuple[str, ...] = (
        "max_model_len",  # vLLM, SGLang
        "context_window",  # Groq
        "top_provider.context_length",  # OpenRouter: of the provider that it would choose
        "context_length",  # OpenRouter, Together
        "max_context_length",  # Mistral
        "meta.n_ctx",  # llama.cpp
    )
    """Members of the model, dotted, best first."""
    form: Literal["list", "object", "show"] = "list"
    """A list of models, an object about the only one, or Ollama's object about a named one."""


_LISTED = WindowSource()


class ImageSource(Struct, frozen=True):
    """Where a server says whether a model takes images (`image_support.py` reads it). `path` as above."""

    path: str
    member: str
    """A member of the model, dotted: a boolean, or a list or text in which `word` means images."""
    word: str = ""
    form: Literal["list", "object", "show"] = "list"


class EndpointKind(Struct, frozen=True, kw_only=True):
    """One row: a kind of server."""

    base_url: str
    api_key_env: str = ""
    dialect: Dialect = "chat_completions"
    quirks: Quirks = _PLAIN
    text_calls: TextCalls = "off"
    """How its models write tool calls as text, where the server does not read them."""
    strict_schemas: StrictSchemas = "checked"
    """`trusted`: it decodes by the schema, and refuses a schema that it cannot enforce. Others ignore parts
    of a schema, or leave it to the model."""
    natives: frozenset[str] = FUNCTIONS
    """The tool types that it takes as they are declared; all others are shown to it as functions."""
    windows: tuple[WindowSource, ...] = (_LISTED,)
    """Where its models' context windows are found; the first source that has one is used."""
    images: tuple[ImageSource, ...] = ()
    """Where it says which models take images."""
    images_assumed: bool = False
    """Whether its models take images unless it says otherwise: the vendor's own API."""


_ON_PREMISES: tuple[Effort, ...] = ("none", "low", "medium", "high")
_ALL_HINTS: frozenset[Hint] = frozenset(get_args(Hint))
_CLIENT_TOOLS = frozenset({"function", "custom", "namespace", *CLIENT_TOOLS})
_HOSTED_TOOLS = HOSTED_TOOLS - {"programmatic_tool_calling"}

ENDPOINTS: Mapping[str, EndpointKind] = {
    # Any server of which nothing is known. Many reject unknown fields, so no hint and no replay.
    "plain": EndpointKind(base_url="http://localhost:8000/v1", text_calls="auto"),
    "openai": EndpointKind(
        images_assumed=True,
        base_url="https://api.openai.com/v1",
        api_key_env="OPENAI_API_KEY",
        strict_schemas="trusted",
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
        strict_schemas="trusted",
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
        # The window of the loaded model; else that of its Modelfile. A variable of the server and the memory
        # of its GPU may change it, too, but cannot be queried.
        windows=(WindowSource("/api/ps", ("context_length",)), WindowSource("/api/show", form="show")),
        images=(ImageSource("/api/show", "capabilities", "vision", "show"),),
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
        windows=(WindowSource("/props", ("default_generation_settings.n_ctx",), form="object"), _LISTED),
        images=(ImageSource("/props", "modalities.vision", form="object"),),
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
        windows=(
            WindowSource("/api/v1/models", ("loaded_instances.*.config.context_length",)),
            WindowSource("/api/v0/models", ("loaded_context_length",)),
        ),
        images=(
            ImageSource("/api/v1/models", "capabilities.vision"),
            ImageSource("/api/v0/models", "type", "vlm"),
        ),
        quirks=Quirks(
            tool_choice="required",  # an object is refused (lmstudio-bug-tracker#670)
            parallel_tool_calls=False,
            json_object=False,
            logprobs=False,
            images="data",
        ),
    ),
    "openrouter": EndpointKind(
        images=(ImageSource("models", "architecture.input_modalities", "image"),),
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
        images=(ImageSource("models", "capabilities.vision"),),
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
    "anthropic": EndpointKind(
        images_assumed=True,
        base_url="https://api.anthropic.com",
        api_key_env="ANTHROPIC_API_KEY",
        dialect="anthropic_messages",
        windows=(WindowSource("/v1/models?limit=1000", ("max_input_tokens",)),),
        # What differs between its models is in anthropic_messages/models.py.
        strict_schemas="trusted",
        quirks=Quirks(
            strict_tools=True,
            logprobs=False,
            efforts=ALL_EFFORTS,
            think_tags=None,
            files="url",
            hints=frozenset({"user", "safety_identifier", "service_tier"}),
            prompt_cache="automatic",
        ),
    ),
    "gemini": EndpointKind(
        images_assumed=True,
        base_url="https://generativelanguage.googleapis.com/v1beta",
        api_key_env="GEMINI_API_KEY",
        dialect="gemini",
        windows=(WindowSource("models?pageSize=1000", ("inputTokenLimit",)),),
        # What differs between its models is in gemini/models.py.
        strict_schemas="trusted",
        quirks=Quirks(
            parallel_tool_calls=False,
            strict_tools=True,
            efforts=ALL_EFFORTS,
            think_tags=None,
            files="url",
            audio=True,
            hints=frozenset({"service_tier"}),
        ),
    ),
    "openai-responses": EndpointKind(
        images_assumed=True,
        base_url="https://api.openai.com/v1",
        api_key_env="OPENAI_API_KEY",
        dialect="responses",
        natives=_CLIENT_TOOLS | _HOSTED_TOOLS,
        strict_schemas="trusted",
        quirks=Quirks(
            strict_tools=True,
            efforts=ALL_EFFORTS,
            sealed_reasoning=True,  # bound to the item's id, and refused under another
            obfuscates=True,
            files="url",
            verbosity=True,
            hints=_ALL_HINTS,
            prompt_cache="marked",
        ),
    ),
    # Any server of which nothing is known, but that it has /responses: functions only.
    "responses": EndpointKind(
        base_url="http://localhost:8000/v1", dialect="responses", quirks=Quirks(replay_reasoning="item")
    ),
    "vllm-responses": EndpointKind(
        base_url="http://localhost:8000/v1",
        api_key_env="VLLM_API_KEY",
        dialect="responses",
        strict_schemas="trusted",
        quirks=Quirks(
            tool_choice="required",
            efforts=_ON_PREMISES,
            replay_reasoning="item",  # vllm#28248
            hints=frozenset({"user"}),
        ),
    ),
    "antiphon": EndpointKind(
        base_url="http://localhost:8080/v1",
        api_key_env="ANTIPHON_API_KEY",
        dialect="responses",
        natives=_CLIENT_TOOLS,
        windows=(WindowSource("models?client_version=0.0.0", ("context_window",)),),
        strict_schemas="trusted",
        quirks=Quirks(
            strict_tools=True,
            efforts=ALL_EFFORTS,
            replay_reasoning="item",
            sealed_reasoning=True,
            files="url",
            audio=True,
            verbosity=True,
            hints=_ALL_HINTS,
            prompt_cache="marked",
        ),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A configured upstream."""

    name: str
    kind: str = "plain"
    base_url: str
    api_key: str = field(default="", repr=False)
    key_source: str = ""
    """Where its key is configured, for the operator: a variable of the environment or a setting."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    quirks: Quirks = _PLAIN
    natives: frozenset[str] = FUNCTIONS
    deadlines: Deadlines = DEFAULT_DEADLINES
    retries: int = 2
    backoff: float = 0.25
    """Seconds before the first retry, doubled for each further one."""
    heartbeat: float = 10.0
    max_event_bytes: int = 8 * 1024 * 1024
    max_body_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        self.target({})  # checks the address and the headers

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not appear in an error or a log."""
        return tuple(filter(None, (self.api_key, *self.headers.values())))

    def target(self, headers: Mapping[str, str]) -> Target:
        """The same for the HTTP client. `headers` are those of the dialect; the operator's override them."""
        return Target(
            name=self.name,
            base_url=self.base_url,
            headers={**headers, **{name.lower(): value for name, value in self.headers.items()}},
            secrets=self.secrets,
            deadlines=self.deadlines,
            retries=self.retries,
            backoff=self.backoff,
            heartbeat=self.heartbeat,
            max_body_bytes=self.max_body_bytes,
        )


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
    return Endpoint(
        name=kind,
        kind=kind,
        base_url=(base_url or row.base_url).rstrip("/"),
        key_source=row.api_key_env,
        quirks=row.quirks,
        natives=row.natives,
    )


def describing(endpoint: Endpoint) -> Endpoint:
    """The same for models whose templates show no tools; only chat completions support it."""
    dialect = endpoint_kind(endpoint.kind).dialect
    if dialect != "chat_completions":
        raise SettingsError(
            f"The upstream '{endpoint.name}' shows tools to its models by itself: 'describe_tools' is for "
            f"chat completions, and it speaks {dialect}."
        )
    return replace(endpoint, quirks=msgspec.structs.replace(endpoint.quirks, tools="prompt"))
