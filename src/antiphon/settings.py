"""One frozen settings object: `antiphon.toml`, then the environment, then what the caller overrides.

Every key can be set as ``ANTIPHON_SECTION__KEY``; lists and tables are given as JSON there.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, Struct

from antiphon.errors import SettingsError

PREFIX = "ANTIPHON_"
WHOLE = frozenset({f"{PREFIX}UPSTREAMS", f"{PREFIX}ALIASES", f"{PREFIX}FALLBACKS"})
"""Variables that hold a whole section, as JSON: the names in it are no names of variables."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

POSTGRES = ("postgresql://", "postgres://")
STORES = ("memory:", "sqlite:", *POSTGRES)

Seconds = Annotated[float, Meta(gt=0)]
LogLevel = Literal["debug", "info", "warning", "error"]
ProfileName = Literal["openai", "maestro", "proxy"]
TextCalls = Literal["auto", "off", "hermes", "xml", "glm", "llama", "mistral", "deepseek", "fenced"]


class ServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the server listens and how it treats its clients."""

    host: str = "127.0.0.1"
    """Address to listen on. Anything but loopback needs keys: `api_keys`, or `antiphon keys create`."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    """Port to listen on; 0 picks a free one."""
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    """Server processes. More than one needs PostgreSQL as the store, or none."""
    profile: ProfileName = "openai"
    """The set of wire choices: `openai`, `maestro` or `proxy` (docs/profiles.md)."""
    log_level: LogLevel = "info"
    """How much is logged, to standard error."""
    api_keys: tuple[str, ...] = ()
    """Keys that clients may send as `Authorization: Bearer KEY`. Empty: no authentication, loopback only."""
    allowed_hosts: tuple[str, ...] = ()
    """Further `Host` names that a loopback server answers to (a guard against DNS rebinding)."""
    heartbeat: Seconds = 10.0
    """Seconds of silence after which a stream carries a `keepalive` event."""
    drain: Annotated[float, Meta(ge=0)] = 10.0
    """Seconds that open streams get after SIGTERM."""
    max_body: Annotated[int, Meta(ge=1024)] = 32 * 1024 * 1024
    """Largest request body in bytes."""
    body_timeout: Seconds = 30.0
    """Seconds within which a request body must have arrived."""
    websocket: bool = True
    """Whether `GET /v1/responses` takes WebSockets; if not, it answers 426."""


class ProfileSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator may choose within a profile; unset: as the profile has it."""

    state: bool | None = None
    """Whether responses are kept and can be continued."""
    usage_policy: Literal["null", "absent", "zeros"] | None = None
    """What stands for usage that the upstream did not report."""
    finish_reason: Literal["hidden", "header", "body"] | None = None
    """Where the finish reason is told, for debugging: `x-proxy-finish-reason`, or `_proxy` in the body."""
    similar_models: bool | None = None
    """Whether a model that does not exist is served by the one with the most similar name."""


class StoreSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where responses are kept."""

    url: str = "sqlite:"
    """`sqlite:PATH` (without a path: a file in the data folder), `postgresql://…`, `memory:` or `none`."""
    memory_responses: Annotated[int, Meta(ge=1)] = 10_000
    """How many responses `memory:` keeps; the oldest are forgotten first."""
    lifetime_days: Annotated[int, Meta(ge=0)] = 30
    """Days for which a response is kept; 0: for ever. Conversations are kept until they are deleted."""
    log_lifetime: Seconds = 3600.0
    """Seconds for which the events of a background response can be streamed again after its end."""
    patience: Annotated[float, Meta(ge=0)] = 30.0
    """Seconds that an ended response waits for a database that is away, before it fails."""
    inherit_tools: bool = True
    """Whether a continuation that declares no tools has those of the response before it."""


class BackgroundSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Responses that are made in the background."""

    lease: Seconds = 10.0
    """Seconds of silence after which other replicas take over what a replica was working on."""


class CompactionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Summaries of long conversations."""

    model: str = ""
    """The model that writes them; empty: the one that the request names."""


class ToolSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Hosted tools."""

    ignore: tuple[str, ...] = (
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    )
    """Hosted tools that, when nothing serves them, are left out and reported instead of refused; `*`: all."""


class AnswerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Answers that must be right: a tool that must be called, JSON of a schema, input by a grammar."""

    repairs: Annotated[int, Meta(ge=0, le=10)] = 2
    """How often a model is asked again whose answer is not what the request wants for certain."""


class SealSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The envelope in which reasoning travels (`encrypted_content`)."""

    key: str = ""
    """Secret from which the sealing key is derived. Empty: a key file in the data folder, made once."""


class ModeSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One mode of the agent."""

    when_to_use: str
    """One line that tells the model when this mode is the right one."""
    display_name: str = ""
    """What people call it; empty: its key."""
    instructions: tuple[str, ...] = ()
    """Paragraphs that are said after the system prompt."""
    tools: tuple[str, ...] | None = None
    """The server tools it offers; unset: all that are not bound to other modes."""
    tool_choice: str = ""
    """A tool that must be called first."""
    retrieves: bool = True
    """Whether the instruction is looked up in the documents."""
    rag_scope: dict[str, Any] | None = None
    """Which documents it may see: a filter as in `ragScopeFilter`."""
    max_turns: Annotated[int, Meta(ge=1, le=100)] | None = None
    """Turns that a request in this mode may take; unset: `agent.max_turns`."""


class AgentSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent behind `/v1/agent/execute`."""

    model: str = ""
    """The model it asks; empty: the first one that is served."""
    system: str = (
        "You are a helpful assistant. Do what the text after [INSTRUCTION] asks for, in plain words. "
        "Use a tool when it helps."
    )
    """The system prompt that every conversation begins with."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """Sampling temperature; unset: the model's own."""
    max_turns: Annotated[int, Meta(ge=1, le=100)] = 8
    """Turns that one request may take."""
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Longest answer of one turn in tokens; unset: as long as the model likes."""
    tool_deadline: Seconds = 60.0
    """Seconds that a tool may take, unless it says otherwise."""
    max_tool_output: Annotated[int, Meta(ge=1000)] = 100_000
    """Characters of a tool's output that the model is told; the rest is cut off, with a warning."""
    max_context: Annotated[int, Meta(ge=1000)] = 60_000
    """Characters of retrieved context that the model is shown; chunks beyond are left out, with a warning."""
    chunks: Annotated[int, Meta(ge=1, le=50)] = 8
    """Most chunks that are retrieved for an instruction."""
    tools: tuple[str, ...] = ()
    """Server tools of your own: `module:name` of a `ServerTool`, a `Tool`, a list, or a typed function."""
    documents: tuple[str, ...] = ()
    """Folders whose files are the agent's documents. Empty: nothing is retrieved."""
    ddr_folder: str = "docs/ddr"
    """Where design documents are kept."""
    default_mode: str = "general"
    """The mode of a request that names none."""
    modes: dict[str, ModeSettings] = {}
    """Modes of your own, by key; a built-in one of the same key is replaced."""


class LocalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The embedded model."""

    enabled: bool | None = None
    """Whether to serve it; unset: only when no upstream is configured."""
    model: str = "smollm2-135m"
    """A model of the catalogue, or the path of a GGUF file."""
    context: Annotated[int, Meta(ge=256)] = 4096
    """Tokens of context that one request may use."""
    parallel: Annotated[int, Meta(ge=1, le=64)] = 2
    """Requests that the model answers at once; more wait."""
    threads: Annotated[int, Meta(ge=0)] = 0
    """CPU threads; 0 takes all cores but one, which the server keeps."""


class ModelRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One model name that an upstream serves."""

    name: str
    """What clients call it; `*` takes every name, `vendor/*` every name that begins so."""
    upstream: str = ""
    """What the upstream calls it; empty: the same. A `*` at the end stands for what the name's `*` took."""
    weight: Annotated[float, Meta(gt=0)] = 1.0
    """Share of the load among rows of the same name and priority."""
    priority: int = 0
    """Rows with a lower number are tried first; the next ones are the fallback."""
    text_calls: TextCalls | None = None
    """How this model writes tool calls as text (docs/text-calls.md); unset: as its upstream says."""
    describe_tools: bool | None = None
    """Whether tools are described in the prompt, because its template shows none; unset: as its upstream."""
    context_window: Annotated[int, Meta(ge=1)] | None = None
    """Tokens that this model takes, question and answer together; unset: its upstream is asked."""
    max_concurrent: Annotated[int, Meta(ge=1)] | None = None
    """Turns at once, in each worker; unset: as many as come."""
    queue_timeout: Annotated[float, Meta(ge=0)] = 30.0
    """Seconds that a turn waits in line for one of them to end."""
    requests_per_minute: Annotated[int, Meta(ge=1)] | None = None
    """Turns within any minute, in each worker; unset: as many as come."""
    first_byte_timeout: Seconds | None = None
    """Seconds until the first event, all tries together; unset: as its upstream."""
    answer_timeout: Seconds | None = None
    """Seconds until the first byte of an answer that is not streamed; unset: as its upstream."""
    total_timeout: Seconds | None = None
    """Seconds for a whole answer; unset: as its upstream."""


class CodexSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`codex app-server` as a backend."""

    enabled: bool = False
    """Whether to serve it."""
    command: str = "codex"
    """The program: a name on the PATH, or a path."""
    models: tuple[str | ModelRow, ...] = ("codex",)
    """The models it serves. `codex` means the one that codex itself is configured with."""
    home: str = ""
    """Its CODEX_HOME, with its configuration and its login; empty: codex's own."""
    folder: str = ""
    """The folder it works in; empty: an empty one in the data folder."""
    own_tools: bool = False
    """Whether it may use tools of its own: commands, patches, web search. If not, it is but a model."""
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "read-only"
    """What it may do to this machine when it runs commands of its own."""
    turns: Annotated[int, Meta(ge=1, le=64)] = 4
    """Turns that it works on at once; more wait."""
    handshake_timeout: Seconds = 15.0
    """Seconds within which it must answer after its start."""
    silence_timeout: Seconds = 300.0
    """Seconds without a word from it, after which a turn has failed."""
    tool_timeout: Seconds = 600.0
    """Seconds for which a turn waits for the outputs of its tool calls."""


class UpstreamSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One upstream: a row of data."""

    name: str = ""
    """How logs and errors call it; empty: its kind."""
    kind: str = "plain"
    """Which quirks it has: `plain`, `vllm`, `ollama`, … (see docs/backends.md)."""
    base_url: str = ""
    """Its API root, for example `http://localhost:8000/v1`; empty: the kind's usual address."""
    api_key: str = ""
    """The key to send; better given by `api_key_env`."""
    api_key_env: str = ""
    """The environment variable that holds the key; empty: the kind's usual one."""
    headers: dict[str, str] = {}
    """Further headers to send."""
    models: tuple[str | ModelRow, ...] = ("*",)
    """The models it serves; `*` passes every name through."""
    connect_timeout: Seconds = 5.0
    """Seconds to connect."""
    first_byte_timeout: Seconds = 300.0
    """Seconds until the first event."""
    answer_timeout: Seconds = 600.0
    """Seconds until the first byte of an answer that is not streamed."""
    between_timeout: Seconds = 120.0
    """Seconds between two events."""
    total_timeout: Seconds = 3600.0
    """Seconds for a whole answer."""
    retries: Annotated[int, Meta(ge=0, le=10)] = 2
    """How often a turn is tried again before its first byte."""
    text_calls: TextCalls | None = None
    """How its models write tool calls as text (docs/text-calls.md); unset: as its kind does."""
    describe_tools: bool = False
    """Whether tools are described in the prompt, because its models' templates show none."""


class HealthSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """When an upstream that fails is left alone."""

    failures: Annotated[int, Meta(ge=0)] = 5
    """Failures in a row of one model after which its upstream is left alone; 0: never."""
    pause: Seconds = 30.0
    """Seconds until it is tried again."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be configured."""

    server: ServerSettings = ServerSettings()
    profiles: dict[ProfileName, ProfileSettings] = {}
    store: StoreSettings = StoreSettings()
    background: BackgroundSettings = BackgroundSettings()
    compaction: CompactionSettings = CompactionSettings()
    tools: ToolSettings = ToolSettings()
    answers: AnswerSettings = AnswerSettings()
    seal: SealSettings = SealSettings()
    agent: AgentSettings = AgentSettings()
    local: LocalSettings = LocalSettings()
    codex: CodexSettings = CodexSettings()
    upstreams: tuple[UpstreamSettings, ...] = ()
    aliases: dict[str, str] = {}
    """Further names that clients may use, and the model that each one means."""
    fallbacks: dict[str, tuple[str, ...]] = {}
    """Models that answer, in this order, when the model of this name cannot."""
    health: HealthSettings = HealthSettings()

    @property
    def lasting(self) -> bool:
        """Whether the store outlives the process."""
        return self.store.url.startswith(("sqlite:", *POSTGRES))

    @property
    def model_names(self) -> list[str]:
        """The models that the settings name, as clients call them, `*` among them; not the embedded one."""
        served = [upstream.models for upstream in self.upstreams]
        if self.codex.enabled:
            served.append(self.codex.models)
        return [name for models in served for name in names_of(models)]

    @property
    def serves_local_model(self) -> bool:
        """Whether the embedded model is on."""
        if self.local.enabled is None:
            return not self.upstreams and not self.codex.enabled
        return self.local.enabled


def names_of(models: tuple[str | ModelRow, ...]) -> list[str]:
    """What clients call these models."""
    return [model if isinstance(model, str) else model.name for model in models]


Tree = dict[str, Any]


def load_settings(
    path: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Mapping[str, object]] | None = None,
    upstreams: tuple[UpstreamSettings, ...] = (),
) -> Settings:
    """Read the file (or `antiphon.toml` here, if there is one), the environment and the overrides."""
    path = path or _named_by(environment)
    tree = _read_file(path) if path else {}
    _apply_environment(tree, environment)
    _merge(tree, {section: dict(keys) for section, keys in (overrides or {}).items()})
    settings = _convert(tree, "antiphon settings")
    if upstreams:
        settings = msgspec.structs.replace(settings, upstreams=upstreams)
    return check_settings(settings)


def check_settings(settings: Settings) -> Settings:
    """Refuse what would be unsafe or would lose state."""
    server, store = settings.server, settings.store
    if not store.url.startswith(STORES) and store.url != "none":
        raise SettingsError(
            f"Unknown store '{store.url}'. Use 'sqlite:PATH', 'postgresql://…', 'memory:' or 'none'."
        )
    if server.host not in LOOPBACK and not server.api_keys and not settings.lasting:
        raise SettingsError(no_keys(server.host))
    if server.workers > 1 and not store.url.startswith((*POSTGRES, "none")):
        raise SettingsError(
            "Several workers need a store that they can share: use --store postgresql://…, or --store none; "
            "or one worker."
        )
    return settings


def no_keys(host: str) -> str:
    """Why a server that everybody can reach does not start without keys."""
    return (
        f"Refusing to listen on {host} without keys: anybody could use your models. Make one with "
        "`antiphon keys create`, set server.api_keys (ANTIPHON_SERVER__API_KEYS='[\"…\"]'), "
        "or listen on 127.0.0.1."
    )


def _named_by(environment: Mapping[str, str]) -> Path | None:
    named = environment.get(f"{PREFIX}CONFIG")
    if named:
        return Path(named)
    here = Path("antiphon.toml")
    return here if here.is_file() else None


def _read_file(path: Path) -> Tree:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"Cannot read the configuration {path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"The configuration {path} is not valid TOML: {error}.") from None


def _apply_environment(tree: Tree, environment: Mapping[str, str]) -> None:
    """``ANTIPHON_SERVER__PORT=9000`` sets the key `port` of the table `server`, and so on inwards. The value
    of a variable takes the place of what was there, whole."""
    for name, value in sorted(environment.items()):
        if name in WHOLE or (name.startswith(PREFIX) and "__" in name):
            *path, key = name.removeprefix(PREFIX).lower().split("__")
            table = tree
            for part in path:
                inner: object = table.setdefault(part, {})
                if not isinstance(inner, dict):
                    raise SettingsError(f"{name} is about a key of '{part}', which is no table.")
                table = cast("Tree", inner)
            table[key] = _read_value(name, value)


def _read_value(name: str, value: str) -> object:
    if value[:1] not in ("[", "{"):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise SettingsError(f"{name} is not valid JSON: {error}.") from None


def _merge(tree: Tree, more: Tree) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(tree.get(key), dict):
            tree[key].update(cast("Tree", value))
        else:
            tree[key] = value


def _convert(tree: Tree, what: str) -> Settings:
    try:
        return msgspec.convert(tree, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"The {what} are wrong: {error}.") from None
