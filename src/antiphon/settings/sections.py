"""The sections of the settings. A struct is a table of `antiphon.toml`, a field is a key."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from antiphon.settings.agent import AgentSettings
from antiphon.settings.health import HealthSettings
from antiphon.settings.hosted_tools import InterpreterSettings, ToolSettings, WebSearchSettings
from antiphon.settings.mcp import McpSettings
from antiphon.settings.trace import TraceSettings

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

POSTGRES = ("postgresql://", "postgres://")
NO_API_KEY = "none"
"""As `api_key_env`: no key is sent, not even that of the kind's usual variable."""

Seconds = Annotated[float, Meta(gt=0)]
LogLevel = Literal["debug", "info", "warning", "error"]
ProfileName = Literal["openai", "maestro", "proxy"]
Listing = Literal["models", "pattern", "hidden"]
StrictSchemas = Literal["trusted", "checked"]
TextCalls = Literal["auto", "off", "hermes", "xml", "glm", "llama", "mistral", "deepseek", "fenced"]


class ServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The address of the server and its limits for clients."""

    host: str = "127.0.0.1"
    """Address to listen on. Addresses beyond loopback need keys: `api_keys`, or `antiphon keys create`."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    """Port to listen on; 0 picks a free one."""
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    """Server processes. More than one needs PostgreSQL as the store, or none."""
    profile: ProfileName = "openai"
    """The set of wire choices: `openai`, `maestro` or `proxy` (docs/reference/profiles.md)."""
    log_level: LogLevel = "info"
    """The level of the log on standard error."""
    api_keys: tuple[str, ...] = ()
    """Keys that clients may send as `Authorization: Bearer KEY`. Empty: no authentication, loopback only."""
    allowed_hosts: tuple[str, ...] = ()
    """Further `Host` names that a loopback server accepts (protects against DNS rebinding)."""
    heartbeat: Seconds = 10.0
    """Seconds without an event after which a stream sends a `keepalive` event."""
    drain: Annotated[float, Meta(ge=0)] = 10.0
    """Seconds that open streams may continue after SIGTERM."""
    max_body: Annotated[int, Meta(ge=1024)] = 32 * 1024 * 1024
    """Maximum size of a request body in bytes."""
    max_bodies: Annotated[int, Meta(ge=1024)] = 128 * 1024 * 1024
    """Maximum size of all request bodies that are being received, in bytes; a tenant may use half of it."""
    max_held_bytes: Annotated[int, Meta(ge=1024)] = 512 * 1024 * 1024
    """Bytes of large requests until they are answered, and as many again of the files and long histories that
    models are sent for requests; a tenant may use half of each."""
    max_memory: Annotated[int, Meta(ge=0)] = 0
    """Memory of a server process in bytes, of which requests are refused beyond 90 %; 0: no limit."""
    body_timeout: Seconds = 30.0
    """Seconds within which a request body must have arrived."""
    max_websocket_bytes: Annotated[int, Meta(ge=1024)] = 64 * 1024 * 1024
    """Bytes of large WebSocket messages that a process receives at the same time."""
    max_websocket_history_bytes: Annotated[int, Meta(ge=1024)] = 256 * 1024 * 1024
    """Bytes of responses with `store: false` that WebSocket connections remember; a tenant may use half."""
    websocket: bool = True
    """Whether `GET /v1/responses` accepts WebSockets; otherwise it answers 426."""
    page: bool = True
    """Whether the page is served at `/`."""

    @property
    def websocket_budget(self) -> int:
        """`max_websocket_bytes`, or the size of one message if that is more."""
        return max(self.max_websocket_bytes, self.max_body)

    def within_memory(self, size: int) -> int:
        """The size of a budget: at most an eighth of `max_memory`, because there are several, but one request
        body in any case."""
        return min(size, max(self.max_memory // 8, self.max_body)) if self.max_memory else size


class ProfileSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to a profile; unset: the value of the profile."""

    state: bool | None = None
    """Whether responses are stored and can be continued."""
    usage_policy: Literal["null", "absent", "zeros"] | None = None
    """The value of `usage` if the upstream reports none."""
    finish_reason: Literal["hidden", "header", "body"] | None = None
    """Where the finish reason is sent, for debugging: `x-proxy-finish-reason`, or `_proxy` in the body."""
    similar_models: bool | None = None
    """Whether an unknown model is served by the model with the most similar name."""


class StoreSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where responses are stored."""

    url: str = "sqlite:"
    """`sqlite:PATH` (without a path: a file in the data folder), `postgresql://…`, `memory:` or `none`."""
    memory_responses: Annotated[int, Meta(ge=1)] = 10_000
    """How many responses `memory:` holds; the oldest are dropped first."""
    lifetime_days: Annotated[int, Meta(ge=0)] = 30
    """Days until a response is deleted; 0: never. Conversations stay until they are deleted."""
    log_lifetime: Seconds = 3600.0
    """Seconds after its end for which the events of a background response can be streamed again."""
    patience: Annotated[float, Meta(ge=0)] = 30.0
    """Seconds that an ended response waits for an unavailable database before it fails."""
    inherit_tools: bool = True
    """Whether a continuation without `tools` inherits those of the previous response."""
    max_history_items: Annotated[int, Meta(ge=1)] = 50_000
    """Items of the longest history that a request may continue."""
    max_history_bytes: Annotated[int, Meta(ge=1024)] = 64 * 1024 * 1024
    """Bytes of the longest history that a request may continue."""


class FilesSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Files of clients (docs/reference/files.md)."""

    url: str = ""
    """Where their content is: a folder, `database`, `s3://bucket/prefix`, `gs://…` or `az://…`. Empty: a
    folder beside an SQLite file; otherwise the database."""
    options: dict[str, str] = {}
    """Options of an object store, such as `endpoint` and `region`. Credentials: its usual variables."""
    max_file_bytes: Annotated[int, Meta(ge=1)] = 512 * 1024 * 1024
    """Maximum size of a file that is sent in one request."""
    max_upload_bytes: Annotated[int, Meta(ge=1)] = 8 * 1024 * 1024 * 1024
    """Maximum size of a file that is sent in parts."""
    max_files: Annotated[int, Meta(ge=1)] = 100_000
    """Files that a tenant may have."""
    max_bytes: Annotated[int, Meta(ge=1)] = 100 * 1024 * 1024 * 1024
    """Bytes that a tenant may store; equal content counts once."""


class VectorStoreSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Vector stores (docs/reference/vector-stores.md)."""

    max_stores: Annotated[int, Meta(ge=1)] = 1000
    """Vector stores that a tenant may have."""
    max_files: Annotated[int, Meta(ge=1)] = 10_000
    """Files of one vector store."""
    max_bytes: Annotated[int, Meta(ge=1)] = 10 * 1024 * 1024 * 1024
    """Bytes of all chunks of a tenant, with their vectors."""
    concurrency: Annotated[int, Meta(ge=1, le=64)] = 2
    """Files that one process adds at a time."""
    per_tenant: Annotated[int, Meta(ge=1, le=64)] = 2
    """Files of one tenant that all processes together add at a time."""
    reranker: str = ""
    """The model of `rerank_models` that ranks results again; empty: none."""


class BackgroundSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Background responses."""

    lease: Seconds = 10.0
    """Seconds without a sign of life after which other replicas take over the work of a replica."""
    max_log_bytes: Annotated[int, Meta(ge=10_000)] = 64 * 1024 * 1024
    """Bytes of stored events after which a background response is cut off."""


class CompactionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Summaries of long conversations."""

    model: str = ""
    """The model that writes them; empty: the model of the request."""


class AnswerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Constraints on answers (forced tools, JSON schemas, grammars), and their limits."""

    repairs: Annotated[int, Meta(ge=0, le=10)] = 2
    """How often a model is asked again if its answer violates a constraint of the request."""
    max_bytes: Annotated[int, Meta(ge=1000)] = 8 * 1024 * 1024
    """Bytes after which an answer is cut off."""
    max_tokens: Annotated[int, Meta(ge=100)] = 1_000_000
    """Pieces of a stream after which an answer is cut off; each holds a token or more."""
    max_items: Annotated[int, Meta(ge=1)] = 1000
    """Output items after which an answer is cut off."""
    max_calls: Annotated[int, Meta(ge=1)] = 256
    """Tool calls after which an answer is cut off."""


class IsolatedSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Child processes in which schemas, grammars and answers are checked that may be expensive."""

    processes: Annotated[int, Meta(ge=1, le=64)] = 2
    """How many there may be; they start when they are needed. A tenant uses one at a time."""
    cpu_seconds: Annotated[int, Meta(ge=1)] = 1
    """CPU time of one check; one that needs more is rejected."""
    wall_seconds: Seconds = 10.0
    """Time of one check, however busy the machine is."""
    memory_mb: Annotated[int, Meta(ge=64)] = 128
    """Memory of one child process in MB."""


class DocumentSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Files of requests: the child processes that read them, and how much of their text a model is shown."""

    max_tokens: Annotated[int, Meta(ge=1)] = 32_000
    """Tokens of all files of a conversation together; at most half of the model's context window."""
    processes: Annotated[int, Meta(ge=1, le=64)] = 2
    """How many child processes there may be. A tenant uses one at a time."""
    cpu_seconds: Annotated[int, Meta(ge=1)] = 20
    """CPU time of one file."""
    wall_seconds: Seconds = 60.0
    """Time of one file, however busy the machine is."""
    memory_mb: Annotated[int, Meta(ge=128)] = 768
    """Memory of one child process in MB."""
    download_seconds: Seconds = 30.0
    """Time for the download of a file by its URL."""


class EgressSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Connections to addresses that requests name."""

    allow: tuple[str, ...] = ()
    """Hosts, addresses and networks that are permitted although they are not public."""
    deny: tuple[str, ...] = ()
    """Hosts with their subdomains, addresses and networks that are never permitted."""


class SealSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The encryption of reasoning (`encrypted_content`)."""

    key: str = ""
    """Secret from which the sealing key is derived. Empty: a generated key file in the data folder."""


class LocalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The embedded model."""

    enabled: bool | None = None
    """Whether to serve it; unset: only if no upstream is configured."""
    model: str = "smollm2-135m"
    """A model of the catalogue, or the path of a GGUF file."""
    context: Annotated[int, Meta(ge=256)] = 4096
    """The context window of one request in tokens."""
    max_output: Annotated[int, Meta(ge=1)] = 1024
    """Tokens of an answer, if the request sets no `max_output_tokens`."""
    parallel: Annotated[int, Meta(ge=1, le=64)] = 2
    """Requests that the model answers concurrently; more wait."""
    threads: Annotated[int, Meta(ge=0)] = 0
    """CPU threads; 0: all cores but one, which is left for the server."""


class EmbeddingsSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Embedding models (docs/reference/embeddings.md)."""

    model: str = ""
    """The model that `auto` means; empty: the first of an upstream, else the bundled one."""
    local: bool | None = None
    """Whether to serve the bundled model; unset: if its packages are installed (`antiphon[retrieval]`)."""
    threads: Annotated[int, Meta(ge=0, le=64)] = 0
    """CPU threads of the bundled model; 0: all cores but one, which is left for the server."""


class EmbeddingModelRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One embedding model that an upstream serves."""

    name: str
    """The name for clients."""
    upstream: str = ""
    """The upstream's name; empty: the same."""


class ModelRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One model name that an upstream serves."""

    name: str
    """The name for clients; `*` matches every name, `vendor/*` every name with that prefix."""
    upstream: str = ""
    """The upstream's name; empty: the same. A `*` at the end is replaced by what the name's `*` matches."""
    weight: Annotated[float, Meta(gt=0)] = 1.0
    """Share of the load among rows of the same name and priority."""
    priority: int = 0
    """Rows with a lower number are tried first."""
    listed: Listing = "models"
    """How `GET /v1/models` lists it: `models` (of a pattern: those that its upstream lists), `pattern` (as it
    is written here; the upstream is not asked) or `hidden`."""
    text_calls: TextCalls | None = None
    """How this model writes tool calls as text (text-calls.md); unset: the upstream's setting."""
    describe_tools: bool | None = None
    """Whether tools are described in the prompt, for a template without tools; unset: as its upstream."""
    context_window: Annotated[int, Meta(ge=1)] | None = None
    """The context window in tokens, input and output together; unset: the upstream is asked."""
    max_concurrent: Annotated[int, Meta(ge=1)] | None = None
    """Concurrent turns in each worker; unset: unlimited."""
    max_concurrent_per_tenant: Annotated[int, Meta(ge=1)] | None = None
    """Those of one tenant; unset: as many as there are."""
    queue_timeout: Annotated[float, Meta(ge=0)] = 30.0
    """Seconds that a turn waits for one of them to end."""
    requests_per_minute: Annotated[int, Meta(ge=1)] | None = None
    """Turns per minute in each worker; unset: unlimited."""
    first_byte_timeout: Seconds | None = None
    """Seconds until the first event, including retries; unset: as its upstream."""
    answer_timeout: Seconds | None = None
    """Seconds until the first byte without streaming; unset: as its upstream."""
    total_timeout: Seconds | None = None
    """Seconds for a complete answer; unset: as its upstream."""


class CodexSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`codex app-server` as a backend."""

    enabled: bool = False
    """Whether to serve it."""
    command: str = "codex"
    """The program: a name on the PATH, or a path."""
    models: tuple[str | ModelRow, ...] = ("codex",)
    """The models it serves. `codex` means the model that codex is configured with."""
    home: str = ""
    """Its CODEX_HOME, with its configuration and its login; empty: codex's default."""
    folder: str = ""
    """The folder it works in; empty: an empty one in the data folder."""
    own_tools: bool = False
    """Whether it may use its own tools: commands, patches, web search. Otherwise it is only a model."""
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "read-only"
    """The sandbox of codex's own commands."""
    turns: Annotated[int, Meta(ge=1, le=64)] = 4
    """Concurrent turns; more wait."""
    handshake_timeout: Seconds = 15.0
    """Seconds within which it must answer after its start."""
    silence_timeout: Seconds = 300.0
    """Seconds without output after which a turn fails."""
    tool_timeout: Seconds = 600.0
    """Seconds that a turn waits for the outputs of its tool calls."""


class UpstreamSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One upstream."""

    name: str = ""
    """Its name in logs and errors; empty: its kind."""
    kind: str = "plain"
    """The kind of server: `plain`, `vllm`, `ollama`, … (see docs/reference/upstreams.md)."""
    base_url: str = ""
    """Its API root, for example `http://localhost:8000/v1`; empty: the default address of the kind."""
    api_key: str = ""
    """The key to send; prefer `api_key_env`."""
    api_key_env: str = ""
    """The environment variable that holds the key; empty: the default of the kind; `none`: no key."""
    headers: dict[str, str] = {}
    """Further headers to send."""
    models: tuple[str | ModelRow, ...] = ("*",)
    """The models it serves; `*` matches every name."""
    embedding_models: tuple[str | EmbeddingModelRow, ...] = ()
    """The embedding models it serves, at `/embeddings` below its `base_url`."""
    image_models: tuple[str, ...] = ()
    """The models that make images: at `/images/generations` below its `base_url`, or those of Gemini."""
    rerank_models: tuple[str, ...] = ()
    """The models that rank texts, at `/rerank` below its `base_url`."""
    connect_timeout: Seconds = 5.0
    """Seconds to connect."""
    first_byte_timeout: Seconds = 300.0
    """Seconds until the first event."""
    answer_timeout: Seconds = 600.0
    """Seconds until the first byte without streaming."""
    between_timeout: Seconds = 120.0
    """Seconds between two events."""
    total_timeout: Seconds = 3600.0
    """Seconds for a complete answer."""
    retries: Annotated[int, Meta(ge=0, le=10)] = 2
    """How often a turn is retried before its first byte."""
    text_calls: TextCalls | None = None
    """How its models write tool calls as text (text-calls.md); unset: the default of the kind."""
    describe_tools: bool = False
    """Whether tools are described in the prompt, for models whose templates have no tools."""
    strict_schemas: StrictSchemas | None = None
    """`trusted`: answers by a strict schema are streamed; `checked`: they are held until they are checked;
    unset: the default of the kind."""


class DiscoverySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Models that `antiphon serve` finds by itself (docs/reference/discovery.md)."""

    enabled: bool | None = None
    """Whether to look for them; unset: only if no upstream is configured."""
    addresses: tuple[Annotated[str, Meta(pattern=r"^[^\s/@?#]+:[0-9]{1,5}$")], ...] = (
        "127.0.0.1:8000",  # vLLM
        "127.0.0.1:8080",  # llama.cpp
        "127.0.0.1:1234",  # LM Studio
        "127.0.0.1:11434",  # Ollama
    )
    """Where to look for model servers, the preferred first."""
    interval: Seconds = 15.0
    """Seconds between two looks, with a jitter of a quarter."""
    keys: bool = True
    """Whether providers are served whose key is in the environment: `OPENAI_API_KEY` and the like."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be configured."""

    server: ServerSettings = ServerSettings()
    profiles: dict[ProfileName, ProfileSettings] = {}
    """Changes to the wire choices of a profile."""
    store: StoreSettings = StoreSettings()
    files: FilesSettings = FilesSettings()
    vector_stores: VectorStoreSettings = VectorStoreSettings()
    background: BackgroundSettings = BackgroundSettings()
    compaction: CompactionSettings = CompactionSettings()
    tools: ToolSettings = ToolSettings()
    web_search: WebSearchSettings = WebSearchSettings()
    interpreter: InterpreterSettings = InterpreterSettings()
    mcp: McpSettings = McpSettings()
    answers: AnswerSettings = AnswerSettings()
    isolated: IsolatedSettings = IsolatedSettings()
    documents: DocumentSettings = DocumentSettings()
    egress: EgressSettings = EgressSettings()
    seal: SealSettings = SealSettings()
    agent: AgentSettings = AgentSettings()
    local: LocalSettings = LocalSettings()
    embeddings: EmbeddingsSettings = EmbeddingsSettings()
    codex: CodexSettings = CodexSettings()
    upstreams: tuple[UpstreamSettings, ...] = ()
    """Model servers and providers that requests are sent to."""
    discovery: DiscoverySettings = DiscoverySettings()
    aliases: dict[str, str] = {}
    """Further names for clients, and the model of each."""
    fallbacks: dict[str, tuple[str, ...]] = {}
    """Models that are tried, in this order, when the model of this name fails."""
    health: HealthSettings = HealthSettings()
    trace: TraceSettings = TraceSettings()

    @property
    def lasting(self) -> bool:
        """Whether the store outlives the process."""
        return self.store.url.startswith(("sqlite:", *POSTGRES))

    @property
    def model_names(self) -> list[str]:
        """The clients' names of all configured models and patterns, without the embedded model."""
        served = [upstream.models for upstream in self.upstreams]
        if self.codex.enabled:
            served.append(self.codex.models)
        return [name for models in served for name in names_of(models)]

    @property
    def names_models(self) -> bool:
        """Whether an upstream or codex is configured."""
        return bool(self.upstreams) or self.codex.enabled

    @property
    def serves_local_model(self) -> bool:
        """Whether the embedded model is served."""
        return not self.names_models if self.local.enabled is None else self.local.enabled

    @property
    def discovers(self) -> bool:
        """Whether a server looks for models."""
        return not self.names_models if self.discovery.enabled is None else self.discovery.enabled


def names_of(models: tuple[str | ModelRow, ...]) -> list[str]:
    """The clients' names of these models."""
    return [model if isinstance(model, str) else model.name for model in models]
