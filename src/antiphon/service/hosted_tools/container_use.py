"""The container that a tool of one response uses: found or made, with citations of its files."""

import asyncio
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from antiphon.errors import InvalidRequest, NotFound
from antiphon.protocol.containers import AutoContainer
from antiphon.protocol.content import JsonObject
from antiphon.protocol.items import Item
from antiphon.protocol.tool_items import CodeInterpreterCall, ShellCall
from antiphon.service.containers.containers import Container, Containers
from antiphon.service.hosted_tools.base import ToolScope

REPLACED = "[The container is a new one: variables and files of earlier calls are gone.]"
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def is_image(name: str) -> bool:
    """Whether the name is that of a picture that clients show."""
    return mimetypes.guess_type(name)[0] in IMAGE_TYPES


@dataclass(slots=True)
class ContainerUse:
    """`auto` is the declaration of an automatic container."""

    containers: Containers
    scope: ToolScope
    auto: AutoContainer | None
    container: Container | None
    making: asyncio.Lock = field(default_factory=asyncio.Lock)
    pictures: dict[str, None] = field(default_factory=dict[str, None])
    """The names of images that were written, and that no message has cited yet."""
    note: str = ""
    """What the model is shown before the next output."""

    async def get(self) -> Container:
        """The container; an automatic one that has ended is replaced."""
        async with self.making:
            auto = self.auto
            if self.container is None or (auto is not None and self.container.ended):
                file_ids = tuple(auto.file_ids or ()) if auto is not None else ()
                scope = self.scope
                replaces = self.container is not None or any(map(_container_of, _newest_first(scope)))
                self.container = self.containers.made_for(scope.tenant, scope.response_id, file_ids)
                if self.container is None:
                    memory = self.containers.check_memory(
                        None if auto is None else auto.memory_limit, "tools"
                    )
                    self.note = REPLACED if replaces else ""
                    self.container = await self.containers.create(
                        scope.tenant,
                        "auto",
                        memory_limit=memory,
                        file_ids=file_ids,
                        response_id=scope.response_id,
                        automatic=True,
                    )
            return self.container

    def take_note(self) -> str:
        """The note, which is shown once."""
        note, self.note = self.note, ""
        return note

    def cite(self, name: str) -> JsonObject | None:
        """The citation of a file of the container; None if there is none of this name."""
        container = self.container
        known = None if container is None else container.known.by_name.get(name)
        if container is None or known is None:
            return None
        return {
            "type": "container_file_citation",
            "container_id": container.id,
            "file_id": known.id,
            "filename": name.rpartition("/")[2],
        }


async def open_container(
    containers: Containers, scope: ToolScope, wanted: str | AutoContainer, path: str, id_path: str
) -> ContainerUse:
    """Check a container by its id, or the files of one that may have to be made. `path` is the parameter that
    declares it, `id_path` that of its id."""
    where = f"{path}.file_ids" if isinstance(wanted, AutoContainer) else id_path
    try:
        if not isinstance(wanted, AutoContainer):
            return ContainerUse(containers, scope, None, containers.usable(scope.tenant, wanted))
        await containers.check_files(scope.tenant, wanted.file_ids or ())
        containers.check_memory(wanted.memory_limit, f"{path}.memory_limit")
        return ContainerUse(containers, scope, wanted, _earlier(containers, scope, wanted))
    except NotFound as error:
        raise NotFound(error.message, param=where, code=error.code) from None
    except InvalidRequest as error:
        raise InvalidRequest(error.message, param=_param(error, where), code=error.code) from None


def _earlier(containers: Containers, scope: ToolScope, wanted: AutoContainer) -> Container | None:
    """The container of the last run in the context, if it still lives and has the files."""
    for item in _newest_first(scope):
        container_id = _container_of(item)
        if container_id is not None:
            found = containers.find(scope.tenant, container_id)
            if found is not None and set(wanted.file_ids or ()) <= set(found.file_ids):
                return found
    return None


def _newest_first(scope: ToolScope) -> Iterator[Item]:
    return chain(reversed(scope.items), reversed(scope.history))


def _container_of(item: Item) -> str | None:
    """The container of a run of code, or of commands."""
    container_id: object = None
    if isinstance(item, CodeInterpreterCall):
        container_id = item.container_id
    elif isinstance(item, ShellCall) and isinstance(item.environment, dict):
        container_id = item.environment.get("container_id")
    return container_id if isinstance(container_id, str) else None


def _param(error: InvalidRequest, where: str) -> str:
    return error.param if error.param and error.param.startswith(("tools", "input")) else where
