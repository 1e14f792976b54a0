"""The containers of this process: made, found, run, expired. Decision 0050 says why they are not stored."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import InvalidRequest, NotFound, Overloaded, TooManyRequests, Unavailable
from antiphon.protocol.containers import DEFAULT_IDLE_MINUTES, DEFAULT_MEMORY, MemoryLimit, memory_bytes
from antiphon.protocol.ids import Clock, IdSource
from antiphon.sandbox.port import (
    SLICE_BYTES,
    CommandResult,
    RunResult,
    Sandbox,
    SandboxEnded,
    SandboxFile,
    SandboxFileError,
    SandboxLimits,
    SandboxSession,
)
from antiphon.service.containers.known_files import KnownFiles
from antiphon.service.files.files import Files

logger = logging.getLogger(__name__)

UPKEEP_SECONDS = 15.0
MAX_ENDED_PER_TENANT = 100
"""Ended containers that are still shown, as expired."""


class ContainerLimits(Struct, frozen=True, kw_only=True):
    """Limits of the containers of one process."""

    sandbox: SandboxLimits = SandboxLimits()
    """`memory_bytes` is the most that a container can have."""
    per_tenant: int = 8
    total: int = 64


@dataclass(eq=False, slots=True)
class Container:
    """A container. Its sandbox is started when it is used for the first time."""

    id: str
    tenant: str
    name: str
    created_at: float
    last_active_at: float
    idle_minutes: int
    memory_limit: MemoryLimit
    automatic: bool
    response_id: str
    """The response that an automatic one was made for: its tools share it."""
    file_ids: tuple[str, ...]
    """Files that are copied into it when it starts."""
    known: KnownFiles
    """The files that have an id."""
    session: SandboxSession | None = None
    ended: bool = False
    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Containers:
    """The containers of this process."""

    def __init__(
        self, sandbox: Sandbox, files: Files, ids: IdSource, clock: Clock, limits: ContainerLimits
    ) -> None:
        self.sandbox = sandbox
        self._files = files
        self.ids = ids
        self._clock = clock
        self._limits = limits
        self._containers: dict[str, Container] = {}

    async def check_files(self, tenant: str, file_ids: Sequence[str]) -> None:
        """Raise `NotFound` for a file that the tenant does not have."""
        for file_id in file_ids:
            await self._files.store.file(tenant, file_id)

    def check_memory(self, limit: MemoryLimit | None, param: str) -> MemoryLimit:
        """The limit, or the default. Raises `InvalidRequest` if containers cannot have this much."""
        most = self._limits.sandbox.memory_bytes
        if limit is not None and memory_bytes(limit) > most:
            message = (
                f"A container of this server has at most {most >> 20} MiB of memory, less than '{limit}'."
            )
            raise InvalidRequest(message, param=param, code="invalid_value")
        return limit or DEFAULT_MEMORY

    async def create(
        self,
        tenant: str,
        name: str,
        *,
        memory_limit: MemoryLimit = DEFAULT_MEMORY,
        idle_minutes: int = DEFAULT_IDLE_MINUTES,
        file_ids: tuple[str, ...] = (),
        response_id: str = "",
        automatic: bool = False,
    ) -> Container:
        """A new container. If the tenant has too many, its longest unused automatic one ends."""
        await self.expire()
        replaced = self._check_room(tenant)
        now = self._clock()
        container = Container(
            id=self.ids.new("cntr"),
            tenant=tenant,
            name=name,
            created_at=now,
            last_active_at=now,
            idle_minutes=idle_minutes,
            memory_limit=memory_limit,
            automatic=automatic,
            response_id=response_id,
            file_ids=file_ids,
            known=KnownFiles(self.ids, self._clock),
        )
        self._containers[container.id] = container
        if replaced is not None:
            # It counts as ended at once: others that are created meanwhile need room of their own.
            try:
                await self._end_logged(replaced)
            except asyncio.CancelledError:
                await self._end_logged(container)
                raise
        return container

    def find(self, tenant: str, container_id: str) -> Container | None:
        """A container of the tenant that can be used; None if it ended or is not known."""
        container = self._containers.get(container_id)
        if container is None or container.tenant != tenant:
            return None
        return container if self.is_usable(container) else None

    def made_for(self, tenant: str, response_id: str, file_ids: Sequence[str]) -> Container | None:
        """An automatic container that another tool of this response has made, if it has the files."""
        for container in self._containers.values():
            same = container.tenant == tenant and container.response_id == response_id != ""
            if same and self.is_usable(container) and set(file_ids) <= set(container.file_ids):
                return container
        return None

    def is_usable(self, container: Container) -> bool:
        """Whether it has not expired."""
        return not container.ended and not self._is_idle(container)

    def retrieve(self, tenant: str, container_id: str) -> Container:
        """A container of the tenant, which may have ended. Raises `NotFound`."""
        container = self._containers.get(container_id)
        if container is None or container.tenant != tenant:
            raise NotFound(
                f"Container '{container_id[:100]}' was not found. It expired, or belongs to another process "
                "of this server: containers end with the process that made them.",
                param="container_id",
                code="container_not_found",
            )
        return container

    def usable(self, tenant: str, container_id: str) -> Container:
        """A container that can be used. Raises `NotFound`, or `InvalidRequest` if it has expired."""
        container = self.retrieve(tenant, container_id)
        if not self.is_usable(container):
            raise _expired(container)
        container.last_active_at = self._clock()
        return container

    def list(self, tenant: str) -> list[Container]:
        """The containers of the tenant, newest first."""
        owned = [container for container in self._containers.values() if container.tenant == tenant]
        return sorted(owned, key=lambda container: container.id, reverse=True)

    async def run(self, container: Container, code: str) -> RunResult:
        """Run code in a container."""
        async with self.session(container) as session:
            result = await session.run(code)
            container.known.add(result.changed, "assistant")
            return result

    async def run_command(self, container: Container, command: str, seconds: float) -> CommandResult:
        """Run a command of a shell in a container."""
        async with self.session(container) as session:
            result = await session.run_command(command, seconds)
            container.known.add(result.changed, "assistant")
            return result

    async def delete(self, tenant: str, container_id: str) -> None:
        """End a container, and forget it. Raises `NotFound`."""
        container = self.retrieve(tenant, container_id)
        self._containers.pop(container.id)
        await self._end(container)

    @property
    def disk_bytes(self) -> int:
        """The most that the files of a container can have."""
        return self._limits.sandbox.disk_bytes

    async def copy(self, container: Container, file_id: str) -> str:
        """Copy a stored file of the tenant into a container; its name there. Raises `NotFound`."""
        async with self.session(container) as session:
            return await self._copy(container, session, file_id)

    @asynccontextmanager
    async def session(self, container: Container) -> AsyncGenerator[SandboxSession, None]:
        """The sandbox of a container. It does not expire while it is used. A sandbox that ends here, ends its
        container."""
        container.users += 1
        container.last_active_at = self._clock()
        try:
            yield await self._started(container)
        except SandboxEnded as error:
            await self._end(container)
            reason = f"The container '{container.id}' has ended, and its files are lost: {error}."
            raise Unavailable(reason, code="container_ended") from None
        finally:
            container.users -= 1
            container.last_active_at = self._clock()
            if container.session is not None and not container.session.running:
                await self._end(container)

    async def expire(self) -> None:
        """End the containers that were not used for long."""
        for container in list(self._containers.values()):
            if not container.ended and self._is_idle(container):
                await self._end_logged(container)

    async def watch(self) -> None:
        """Expire containers, as long as this runs."""
        while True:
            await asyncio.sleep(UPKEEP_SECONDS)
            await self.expire()

    async def aclose(self) -> None:
        """End all containers."""
        for container in list(self._containers.values()):
            await self._end_logged(container)

    def _is_idle(self, container: Container) -> bool:
        return not container.users and self._clock() - container.last_active_at > container.idle_minutes * 60

    async def _started(self, container: Container) -> SandboxSession:
        async with container.lock:
            if container.ended:
                raise _expired(container)
            if container.session is None:
                limits = self._limits.sandbox
                memory = min(limits.memory_bytes, memory_bytes(container.memory_limit))
                session = await self.sandbox.start(replace(limits, memory_bytes=memory))
                try:
                    for file_id in container.file_ids:
                        await self._copy(container, session, file_id)
                    if container.ended:
                        raise _expired(container)
                except BaseException:
                    await session.close()
                    raise
                container.session = session
            return container.session

    async def _copy(self, container: Container, session: SandboxSession, file_id: str) -> str:
        file = await self._files.store.file(container.tenant, file_id)
        offset = 0
        try:
            async for piece in self._files.read(file):
                for start in range(0, len(piece), SLICE_BYTES):
                    await session.write(file.filename, piece[start : start + SLICE_BYTES], offset + start)
                offset += len(piece)
        except SandboxFileError as error:
            message = f"The file '{file_id}' cannot be copied into the container: {error}."
            raise InvalidRequest(message, param="file_ids", code="invalid_value") from None
        container.known.add([SandboxFile(file.filename, offset)], "user")
        return file.filename

    def _check_room(self, tenant: str) -> Container | None:
        """The container that has to end before another one is made. Raises if none can."""
        living = [container for container in self._containers.values() if not container.ended]
        owned = [container for container in living if container.tenant == tenant]
        if len(owned) >= self._limits.per_tenant:
            unused = [container for container in owned if container.automatic and not container.users]
            if not unused:
                message = f"There are {len(owned)} containers; delete one, or wait until one has expired."
                raise TooManyRequests(message, code="too_many_containers")
            return min(unused, key=lambda container: container.last_active_at)
        if len(living) >= self._limits.total:
            raise Overloaded("The server has no room for another container now.")
        return None

    async def _end_logged(self, container: Container) -> None:
        """End a container; that it fails is no reason to leave others as they are."""
        try:
            await self._end(container)
        except Exception:
            logger.exception("container %s did not end properly", container.id)

    async def _end(self, container: Container) -> None:
        if not container.ended:
            container.ended = True
            try:
                if container.session is not None:
                    await container.session.close()
            finally:
                container.session = None
                owned = [other for other in self.list(container.tenant) if other.ended]
                for other in owned[MAX_ENDED_PER_TENANT:]:
                    self._containers.pop(other.id, None)


def _expired(container: Container) -> InvalidRequest:
    message = f"Container '{container.id}' has expired. Create a new one, or use the container 'auto'."
    return InvalidRequest(message, param="container_id", code="container_expired")
