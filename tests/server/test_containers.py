"""`/v1/containers` on the wire, with the openai SDK and a real sandbox where it matters."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

import httpx2
import openai
import pytest

from antiphon.caller import SCOPES, Caller
from antiphon.errors import Forbidden
from antiphon.sandbox.port import MIB
from antiphon.service.containers.api import ContainersApi
from antiphon.service.containers.containers import ContainerLimits, Containers
from tests.sandbox.memory_sandbox import MemorySandbox
from tests.sandbox.sandboxes import SMALL, bubblewrap
from tests.server.stateful import ServerUnderTest, open_server
from tests.service.conftest import MakeCreator

BINARY = bytes(range(256)) * 5000


class SettableClock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture(params=["memory", "bubblewrap"])
async def server(
    make_creator: MakeCreator, clock: SettableClock, request: pytest.FixtureRequest
) -> AsyncGenerator[ServerUnderTest, None]:
    async with open_server(make_creator) as running:
        services = running.services
        sandbox = MemorySandbox() if request.param == "memory" else bubblewrap()
        limits = ContainerLimits(sandbox=SMALL, per_tenant=3)
        containers = Containers(sandbox, services.files, services.creator.ids, clock, limits)
        services = replace(services, containers=ContainersApi(containers))
        running.app.mount(services)
        yield replace(running, services=services)
        await containers.aclose()


@pytest.fixture
def sdk(server: ServerUnderTest) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url="http://antiphon/v1", api_key="-", http_client=server.client, max_retries=0
    )


def error_of(answer: httpx2.Response) -> tuple[int, str | None, str]:
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return answer.status_code, error["param"], error["code"]


async def created(server: ServerUnderTest, **body: object) -> str:
    answer = await server.client.post("/v1/containers", json={"name": "mine", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


async def upload(
    server: ServerUnderTest, container: str, name: str = "a.txt", content: bytes = b"x"
) -> httpx2.Response:
    return await server.client.post(f"/v1/containers/{container}/files", files={"file": (name, content)})


async def run(server: ServerUnderTest, container: str, code: str) -> None:
    containers = server.services.containers.containers
    assert containers is not None
    await containers.run(containers.usable("default", container), code)


@pytest.mark.requirement("HOSTED/containers-api")
async def test_a_container_has_the_members_of_the_api(server: ServerUnderTest) -> None:
    answer = await server.client.post("/v1/containers", json={"name": "mine", "memory_limit": None})
    assert answer.json() == {
        "id": answer.json()["id"],
        "object": "container",
        "created_at": 1000,
        "status": "running",
        "expires_after": {"anchor": "last_active_at", "minutes": 20},
        "last_active_at": 1000,
        "memory_limit": "1g",
        "name": "mine",
        "network_policy": {"type": "disabled"},
    }


@pytest.mark.requirement("HOSTED/containers-api")
async def test_the_openai_sdk_uses_containers_and_their_files(
    sdk: openai.AsyncOpenAI, server: ServerUnderTest
) -> None:
    container = await sdk.containers.create(
        name="mine", expires_after={"anchor": "last_active_at", "minutes": 5}
    )
    assert container.id.startswith("cntr_")
    assert container.expires_after is not None
    assert container.expires_after.minutes == 5
    added = await sdk.containers.files.create(container.id, file=("data.bin", BINARY))
    assert added.id.startswith("cfile_")
    assert (added.bytes, added.path, added.source) == (len(BINARY), "/mnt/data/data.bin", "user")
    assert (
        await sdk.containers.files.content.retrieve(added.id, container_id=container.id)
    ).content == BINARY
    stored = await sdk.files.create(file=("b.txt", b"stored"), purpose="user_data")
    copied = await sdk.containers.files.create(container.id, file_id=stored.id)
    assert (copied.bytes, copied.path) == (6, "/mnt/data/b.txt")
    listed = [file.id async for file in sdk.containers.files.list(container.id, limit=1)]
    assert listed == sorted([added.id, copied.id], reverse=True)
    found = await sdk.containers.files.retrieve(added.id, container_id=container.id)
    assert found.model_dump() == added.model_dump()
    await sdk.containers.files.delete(added.id, container_id=container.id)
    with pytest.raises(openai.NotFoundError, match="has no file"):
        await sdk.containers.files.retrieve(added.id, container_id=container.id)
    other = await sdk.containers.create(name="other")
    assert {one.id async for one in sdk.containers.list(limit=1)} == {container.id, other.id}
    assert [one.id async for one in sdk.containers.list(name="other")] == [other.id]
    await sdk.containers.delete(container.id)
    with pytest.raises(openai.NotFoundError):
        await sdk.containers.retrieve(container.id)
    assert (await sdk.containers.retrieve(other.id)).status == "running"


async def test_files_of_a_run_are_listed_and_keep_their_ids(
    sdk: openai.AsyncOpenAI, server: ServerUnderTest, request: pytest.FixtureRequest
) -> None:
    container = await created(server)
    code = "made.txt" if "memory" in request.node.name else "open('made.txt', 'w').write('made')"
    await run(server, container, code)
    first = [file async for file in sdk.containers.files.list(container)]
    await run(server, container, code)
    second = [file async for file in sdk.containers.files.list(container)]
    assert [(file.path, file.source, file.bytes) for file in first] == [
        ("/mnt/data/made.txt", "assistant", 4)
    ]
    assert [file.id for file in first] == [file.id for file in second]


@pytest.mark.parametrize(
    ("name", "path"),
    [("../../etc/passwd", "passwd"), ("a\\b\\c.txt", "c.txt"), ("/x/y", "y"), ("naïve ☃.md", "naïve ☃.md")],
)
async def test_the_folders_of_a_filename_are_left_out(server: ServerUnderTest, name: str, path: str) -> None:
    answer = await upload(server, await created(server), name)
    assert answer.json()["path"] == f"/mnt/data/{path}"


@pytest.mark.parametrize("name", ["..", "a/..", "\x01", "n" * 256])
async def test_a_name_that_is_none_is_refused_and_leaves_nothing(server: ServerUnderTest, name: str) -> None:
    container = await created(server)
    assert error_of(await upload(server, container, name)) == (400, "file", "invalid_filename")
    assert (await server.client.get(f"/v1/containers/{container}/files")).json()["data"] == []


async def test_an_empty_file_is_a_file(server: ServerUnderTest) -> None:
    container = await created(server)
    file = (await upload(server, container, content=b"")).json()
    answer = await server.client.get(f"/v1/containers/{container}/files/{file['id']}/content")
    assert (file["bytes"], answer.content) == (0, b"")


async def test_content_is_an_attachment(server: ServerUnderTest) -> None:
    container = await created(server)
    file = (await upload(server, container, "a.html", b"<script>")).json()
    answer = await server.client.get(f"/v1/containers/{container}/files/{file['id']}/content")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_file_of_1_gb_is_refused_before_it_arrives(server: ServerUnderTest) -> None:
    container = await created(server)
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="big"\r\n\r\n'
        for _ in range(1024):
            sent += MIB
            yield bytes(MIB)

    headers = {"content-type": "multipart/form-data; boundary=b"}
    answer = await server.client.post(
        f"/v1/containers/{container}/files",
        content=endless(),
        headers={**headers, "content-length": str(2**30)},
    )
    assert answer.status_code == 413
    answer = await server.client.post(f"/v1/containers/{container}/files", content=endless(), headers=headers)
    assert answer.status_code in (400, 413)
    assert (await server.client.get(f"/v1/containers/{container}/files")).json()["data"] == []
    assert (await upload(server, container, "small", b"ok")).status_code == 200


async def test_a_full_container_refuses_a_file_and_keeps_the_others(server: ServerUnderTest) -> None:
    container = await created(server)
    assert (await upload(server, container, "first", bytes(5 * MIB))).status_code == 200
    answer = await upload(server, container, "second", bytes(5 * MIB))
    assert error_of(answer) == (400, "file", "container_file_error")
    listed = (await server.client.get(f"/v1/containers/{container}/files")).json()["data"]
    assert [file["path"] for file in listed] == ["/mnt/data/first"]
    assert (await upload(server, container, "second", bytes(2 * MIB))).status_code == 200


async def test_an_expired_container_cannot_be_used(server: ServerUnderTest, clock: SettableClock) -> None:
    container = await created(server, expires_after={"anchor": "last_active_at", "minutes": 5})
    clock.now += 4 * 60
    assert (await server.client.get(f"/v1/containers/{container}")).json()["last_active_at"] == 1240
    clock.now += 6 * 60
    assert (await server.client.get(f"/v1/containers/{container}")).json()["status"] == "expired"
    assert error_of(await upload(server, container)) == (400, "container_id", "container_expired")
    listed = await server.client.get(f"/v1/containers/{container}/files")
    assert error_of(listed) == (400, "container_id", "container_expired")
    assert (await server.client.delete(f"/v1/containers/{container}")).json()["object"] == "container.deleted"
    assert (await server.client.get(f"/v1/containers/{container}")).status_code == 404


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "n", "memory_limit": "2g"}, "memory_limit"),
        ({"name": "n", "memory_limit": "64g"}, "memory_limit"),
        ({"name": "n", "expires_after": {"anchor": "created_at", "minutes": 5}}, "expires_after.anchor"),
        ({"name": "n", "expires_after": {"minutes": 0}}, "expires_after.minutes"),
        ({"name": "n", "network_policy": {"type": "allowlist", "allowed_domains": ["a"]}}, "network_policy"),
        ({"name": "n", "skills": [{"type": "skill_reference", "skill_id": "s"}]}, "skills"),
        ({"name": "n", "file_ids": ["f"] * 51}, "file_ids"),
    ],
)
async def test_a_container_that_cannot_be_made_is_an_error(
    server: ServerUnderTest, body: dict[str, object], param: str
) -> None:
    answer = await server.client.post("/v1/containers", json=body)
    assert error_of(answer)[:2] == (400, param)


async def test_what_is_not_there_is_a_404(server: ServerUnderTest) -> None:
    container = await created(server)
    made = await server.client.post("/v1/containers", json={"name": "n", "file_ids": ["file-none"]})
    assert error_of(made)[:2] == (404, "file_ids")
    one = f"/v1/containers/{container}/files/cfile_none"
    for method, path in (("GET", one), ("GET", one + "/content"), ("DELETE", one)):
        assert error_of(await server.client.request(method, path)) == (
            404,
            "file_id",
            "container_file_not_found",
        )
    copied = await server.client.post(f"/v1/containers/{container}/files", json={"file_id": "file-none"})
    assert error_of(copied)[:2] == (404, "file_id")
    assert (await server.client.get("/v1/containers/resp_1")).status_code == 400


async def test_a_client_that_leaves_while_it_reads_does_not_end_the_container(
    server: ServerUnderTest,
) -> None:
    container = await created(server)
    file = (await upload(server, container, "big", bytes(4 * MIB))).json()
    path = f"/v1/containers/{container}/files/{file['id']}/content"
    for pause in (0, 0.001, 0.005):
        reading = asyncio.create_task(server.client.get(path))
        await asyncio.sleep(pause)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert len((await server.client.get(path)).content) == 4 * MIB


async def test_a_key_without_the_tool_has_no_containers(server: ServerUnderTest) -> None:
    with pytest.raises(Forbidden, match="code_interpreter"):
        server.services.containers.of(Caller("t", frozenset(SCOPES), tools=frozenset({"file_search"})))


async def test_a_server_without_a_sandbox_says_so(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as running:
        running.app.mount(replace(running.services, containers=ContainersApi(None)))
        answer = await running.client.post("/v1/containers", json={"name": "n"})
        assert error_of(answer) == (400, None, "containers_not_served")
