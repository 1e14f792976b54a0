"""Containers on the wire: the tool `code_interpreter`, and the objects of the Containers API."""

import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from antiphon.errors import InvalidRequest, Unsupported
from antiphon.protocol.content import JsonObject
from antiphon.protocol.files import MAX_FILENAME_CHARACTERS
from antiphon.protocol.parse import as_object, convert, decode, required

CODE_INTERPRETER = "code_interpreter"
SHELL = "shell"
AUTO_SHELL, NAMED_SHELL = "container_auto", "container_reference"
MemoryLimit = Literal["1g", "4g", "16g", "64g"]
DEFAULT_MEMORY: MemoryLimit = "1g"
MAX_FILE_IDS = 50
FileIds = Annotated[list[str], Meta(max_length=MAX_FILE_IDS)]
DEFAULT_IDLE_MINUTES = 20
MAX_IDLE_MINUTES = 60
MAX_NAME_CHARACTERS = 256

_OWN_ID = re.compile("cntr_[0-9a-f]{44}")


class AutoContainer(Struct, frozen=True, kw_only=True):
    """A container that the server makes, or finds in the context."""

    type: Literal["auto"]
    file_ids: FileIds | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: Any = None


class CodeInterpreterTool(Struct, frozen=True, kw_only=True):
    """A declared `code_interpreter`."""

    container: str | AutoContainer


class _AutoShell(Struct, frozen=True, kw_only=True):
    file_ids: FileIds | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: Any = None
    skills: list[Any] | None = None


class _NamedShell(Struct, frozen=True, kw_only=True):
    container_id: Annotated[str, Meta(min_length=1)]


class ContainerExpiry(Struct, frozen=True, kw_only=True):
    """When a container expires: so long after it was last used."""

    anchor: Literal["last_active_at"] = "last_active_at"
    minutes: Annotated[int, Meta(ge=1, le=MAX_IDLE_MINUTES)] = DEFAULT_IDLE_MINUTES


class NewContainer(Struct, frozen=True, kw_only=True):
    """The body that creates a container."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARACTERS)]
    expires_after: ContainerExpiry | None = None
    file_ids: FileIds | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: Any = None
    skills: list[Any] | None = None


class NoNetwork(Struct, frozen=True):
    """The network of all containers."""

    type: Literal["disabled"] = "disabled"


class ContainerObject(Struct, frozen=True, kw_only=True):
    """A container on the wire."""

    id: str
    object: Literal["container"] = "container"
    created_at: int
    status: Literal["running", "expired"]
    expires_after: ContainerExpiry
    last_active_at: int
    memory_limit: MemoryLimit
    name: str
    network_policy: NoNetwork = NoNetwork()


class ContainerFileObject(Struct, frozen=True, kw_only=True):
    """A file in a container on the wire."""

    id: str
    object: Literal["container.file"] = "container.file"
    bytes: int
    container_id: str
    created_at: int
    path: str
    source: Literal["user", "assistant"]


class _StoredFile(Struct, frozen=True):
    file_id: Annotated[str, Meta(min_length=1, max_length=MAX_FILENAME_CHARACTERS)]


def parse_new_container(body: bytes) -> NewContainer:
    """Parse the body that creates a container."""
    new = decode(body, NewContainer)
    check_network(new.network_policy, "network_policy")
    _refuse_skills(new.skills, "skills")
    return new


def parse_stored_file(body: bytes) -> str:
    """Parse the body that copies a stored file into a container: its `file_id`."""
    return decode(body, _StoredFile).file_id


def parse_code_interpreter(body: JsonObject, path: str) -> CodeInterpreterTool:
    """Parse a declaration. Raises `InvalidRequest` with the path of the member."""
    tool = convert(body, CodeInterpreterTool, path)
    if isinstance(tool.container, AutoContainer):
        check_network(tool.container.network_policy, f"{path}.container.network_policy")
    elif not tool.container:
        where = f"{path}.container"
        raise InvalidRequest(f"'{where}' is empty; name a container.", param=where, code="invalid_value")
    return tool


def parse_container_shell(body: JsonObject, path: str) -> str | AutoContainer:
    """Parse the environment of a shell in a container: the id of the container, or an automatic one."""
    where = f"{path}.environment"
    environment = as_object(required(body, "environment", path), where)
    if environment.get("type") == NAMED_SHELL:
        return convert(environment, _NamedShell, where).container_id
    auto = convert(environment, _AutoShell, where)
    check_network(auto.network_policy, f"{where}.network_policy")
    _refuse_skills(auto.skills, f"{where}.skills")
    return AutoContainer(type="auto", file_ids=auto.file_ids, memory_limit=auto.memory_limit)


def _refuse_skills(skills: list[Any] | None, path: str) -> None:
    if skills:
        message = f"Containers of this server have no skills. Remove '{path}', or add files by 'file_ids'."
        raise Unsupported(message, param=path, code="unsupported_value")


def check_network(policy: object, path: str) -> None:
    """Refuse a network: containers have none."""
    if policy is not None and policy != {"type": "disabled"}:
        message = f"Containers of this server have no network: '{path}' can only be {{'type': 'disabled'}}."
        raise Unsupported(message, param=path, code="unsupported_value")


def is_own_container(container_id: object) -> bool:
    """Whether this may be the id of a container of this server; ids of other servers look different."""
    return isinstance(container_id, str) and _OWN_ID.fullmatch(container_id) is not None


def memory_bytes(limit: MemoryLimit) -> int:
    """The bytes of a limit."""
    return int(limit.removesuffix("g")) * 1024**3
