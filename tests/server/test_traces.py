"""Traces: what was sent upstream for a response, and what came back, without secrets."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from antiphon.caller import READ, WRITE
from antiphon.known_secrets import HIDDEN, KNOWN_SECRETS
from antiphon.server.app import App
from antiphon.server.memory import memory_client
from antiphon.service.responses.record import TracePolicy
from antiphon.service.routing.router import Route, Router
from antiphon.store.base import EVENT_PAGE_BYTES
from tests.backends.contract.rigs import BackendName, Rigs, Scenario
from tests.server.conftest import never_opened, options, services_of
from tests.server.stateful import open_server
from tests.service.conftest import MakeCreator

JsonObject = dict[str, Any]
RECORD = {"antiphon-trace": "record"}
DIALECTS: list[BackendName] = ["chat_completions", "anthropic_messages", "gemini", "responses"]
PATHS = {
    "chat_completions": "/chat/completions",
    "anthropic_messages": "/messages",
    "gemini": ":streamGenerateContent",
    "responses": "/responses",
}


class Traced:
    """A client of a server whose only model is served by a rig."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

    async def create(self, headers: dict[str, str] = RECORD, **params: Any) -> str:
        body = {"model": "m", "input": "What?", **params}
        answer = await self.client.post("/v1/responses", json=body, headers=headers)
        if params.get("stream"):
            events = [line for line in answer.text.splitlines() if line.startswith("data: {")]
            return httpx2.Response(200, text=events[0][6:]).json()["response"]["id"]
        assert answer.status_code == 200, answer.text
        return answer.json()["id"]

    async def get(self, path: str) -> httpx2.Response:
        return await self.client.get(path)

    async def trace(self, response_id: str) -> JsonObject:
        answer = await self.get(f"/v1/responses/{response_id}/trace")
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def rigs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rigs:
    return Rigs(tmp_path, monkeypatch)


@pytest.fixture
def serve(make_creator: MakeCreator, rigs: Rigs) -> Any:
    """Serves a scenario of a backend."""

    @asynccontextmanager
    async def serve(
        name: BackendName, scenario: Scenario = "text", policy: TracePolicy | None = None
    ) -> AsyncGenerator[Traced, None]:
        async with rigs.open(name, scenario) as rig:
            router = Router([Route("m", rig.backend, rig.model, dialect=name)], chance=lambda: 0.5)
            services = services_of(make_creator(router=router, traces=policy or TracePolicy()))
            app = App(never_opened, lambda: "req_1", options())
            app.mount(services)
            async with memory_client(app) as client:
                yield Traced(client)
            await services.background.jobs.aclose()

    return serve


@pytest.mark.requirement("PAGE/traces-recorded")
@pytest.mark.parametrize("name", DIALECTS)
async def test_a_trace_has_the_request_to_the_upstream_and_its_raw_answer(
    serve: Any, name: BackendName
) -> None:
    async with serve(name) as server:
        trace = await server.trace(await server.create(stream=True))
    [only] = trace["rounds"]
    request, answer = only["request"], only["answer"]
    assert (only["index"], only["kind"], only["attempts"]) == (0, name, [])
    assert request["method"] == "POST"
    assert PATHS[name] in request["url"]
    assert request["url"].startswith("http://127.0.0.1:")
    assert "What?" in str(request["body"])
    assert isinstance(request["body"], dict)
    assert not request["truncated"]
    assert answer["status"] == 200
    assert answer["headers"]["content-type"].startswith("text/event-stream")
    assert "Hel" in answer["body"]
    assert sum(each["bytes"] for each in answer["chunks"]) == len(answer["body"])
    assert trace["client_request"]["body"] == {"model": "m", "input": "What?", "stream": True}
    assert (trace["object"], trace["request_id"]) == ("response.trace", "req_1")


@pytest.mark.requirement("PAGE/traces-recorded")
@pytest.mark.parametrize("name", DIALECTS)
async def test_the_key_of_the_upstream_is_not_in_a_trace(serve: Any, name: BackendName) -> None:
    async with serve(name) as server:
        response_id = await server.create(stream=True)
        text = (await server.get(f"/v1/responses/{response_id}/trace")).text
        headers = (await server.trace(response_id))["rounds"][0]["request"]["headers"]
    assert "sk-contract" not in text
    hidden = [key for key, value in headers.items() if value == HIDDEN]
    assert {"authorization", "x-api-key", "x-goog-api-key"} & set(hidden)
    assert headers["user-agent"] == "antiphon"


@pytest.mark.parametrize("params", [{"stream": True}, {"background": True}], ids=["streaming", "background"])
async def test_a_trace_has_the_events_of_the_client_with_their_times(serve: Any, params: JsonObject) -> None:
    async with serve("chat_completions") as server:
        response_id = await server.create(**params)
        trace = await _when_ended(server, response_id)
        page = (await server.get(f"/v1/responses/{response_id}/events?limit=1000")).json()
    kinds = [each["event"]["type"] for each in trace["events"]]
    assert kinds[-1] == "response.completed"
    assert "response.output_text.delta" in kinds
    numbers = [each["sequence_number"] for each in trace["events"]]
    assert numbers == sorted(set(numbers))
    times = [each["at_ms"] for each in trace["events"]]
    assert times == sorted(times)
    listed = {each["sequence_number"]: each["event"] for each in page["data"]}
    assert not page["has_more"]
    assert all(listed[each["sequence_number"]] == each["event"] for each in trace["events"])
    assert {span["name"] for span in trace["clock"]} >= {"connect", "first_token", "generation"}
    assert all(span["start_ms"] <= span["end_ms"] for span in trace["clock"])


async def test_an_answer_in_json_has_no_events_and_a_first_token(serve: Any) -> None:
    async with serve("chat_completions") as server:
        response_id = await server.create()
        trace = await server.trace(response_id)
        [summary] = (await server.get("/v1/responses")).json()["data"]
    assert trace["events"] == []
    assert 0 <= summary["first_token_ms"] <= summary["total_ms"]


async def test_the_clock_begins_with_the_history_if_there_is_one(serve: Any) -> None:
    async with serve("chat_completions") as server:
        first = await server.create()
        second = await server.create(previous_response_id=first)
        traces = [await server.trace(each) for each in (first, second)]
    alone, continued = ([span["name"] for span in trace["clock"]] for trace in traces)
    assert "store" not in alone
    assert continued[0] == "store"
    assert traces[1]["clock"][0]["start_ms"] == 0


@pytest.mark.parametrize("page_bytes", [EVENT_PAGE_BYTES, 1])
async def test_a_log_of_many_rows_is_listed_to_its_end(
    serve: Any, monkeypatch: pytest.MonkeyPatch, page_bytes: int
) -> None:
    for module in ("base", "runs"):
        monkeypatch.setattr(f"antiphon.store.{module}.EVENT_PAGE_ROWS", 1)
    monkeypatch.setattr("antiphon.service.inspection.EVENT_PAGE_BYTES", page_bytes)
    async with serve("chat_completions") as server:
        response_id = await server.create(background=True)
        await _when_ended(server, response_id)
        seen: list[JsonObject] = []
        page: JsonObject = {"has_more": True}
        while page["has_more"]:
            after = f"&after={seen[-1]['sequence_number']}" if seen else ""
            page = (await server.get(f"/v1/responses/{response_id}/events?limit=1000{after}")).json()
            seen += page["data"]
    assert [each["sequence_number"] for each in seen] == list(range(len(seen)))
    assert seen[-1]["event"]["type"] == "response.completed"


async def _when_ended(server: Traced, response_id: str) -> JsonObject:
    async with asyncio.timeout(10):
        while (await server.get(f"/v1/responses/{response_id}")).json()["status"] != "completed":  # noqa: ASYNC110 -- over HTTP
            await asyncio.sleep(0.01)
    return await server.trace(response_id)


async def test_a_response_that_failed_has_the_reason_in_its_trace(serve: Any) -> None:
    async with serve("chat_completions", "breaks") as server:
        response_id = await server.create(stream=True)
        trace = await server.trace(response_id)
    assert trace["rounds"][0]["answer"]["status"] == 200
    assert trace["events"][-1]["event"]["type"] == "response.failed"


@pytest.mark.requirement("PAGE/traces-recorded")
async def test_without_being_asked_nothing_is_recorded_and_the_error_says_how(serve: Any) -> None:
    async with serve("chat_completions") as server:
        response_id = await server.create({})
        for path, code in (("trace", "trace_not_recorded"), ("events", "events_not_recorded")):
            answer = await server.get(f"/v1/responses/{response_id}/{path}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, code)
            assert "antiphon-trace: record" in answer.text
        [summary] = (await server.get("/v1/responses")).json()["data"]
    assert summary["trace"] is False
    assert summary["upstream"] == "plain"
    assert 0 <= summary["first_token_ms"] <= summary["total_ms"]


@pytest.mark.parametrize(
    ("record", "headers", "is_recorded"),
    [("all", {}, True), ("off", RECORD, False), ("on_request", {"antiphon-trace": "RECORD"}, True)],
)
async def test_the_settings_say_which_responses_have_a_trace(
    serve: Any, record: Any, headers: dict[str, str], is_recorded: bool
) -> None:
    async with serve("chat_completions", policy=TracePolicy(record)) as server:
        response_id = await server.create(headers)
        answer = await server.get(f"/v1/responses/{response_id}/trace")
        [summary] = (await server.get("/v1/responses")).json()["data"]
    assert answer.status_code == (200 if is_recorded else 404)
    assert summary["trace"] is is_recorded


async def test_another_value_of_the_header_is_rejected(serve: Any) -> None:
    async with serve("chat_completions") as server:
        answer = await server.client.post(
            "/v1/responses", json={"model": "m", "input": "x"}, headers={"antiphon-trace": "yes"}
        )
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "antiphon-trace")


async def test_a_response_that_is_not_stored_has_no_trace(serve: Any) -> None:
    async with serve("chat_completions") as server:
        response_id = await server.create(store=False)
        assert (await server.get(f"/v1/responses/{response_id}/trace")).status_code == 404


async def test_a_trace_holds_no_more_than_its_budget(serve: Any) -> None:
    policy = TracePolicy("on_request", max_bytes=2000)
    async with serve("chat_completions", policy=policy) as server:
        trace = await server.trace(await server.create(input="x" * 10_000))
    assert trace["client_request"]["truncated"]
    assert trace["rounds"][0]["request"]["truncated"]
    assert trace["rounds"][0]["answer"]["truncated"]
    recorded = [trace["client_request"], trace["rounds"][0]["request"], trace["rounds"][0]["answer"]]
    assert sum(len(str(each["body"])) for each in recorded) <= 2000


async def test_secrets_in_requests_are_redacted(serve: Any) -> None:
    KNOWN_SECRETS.add("a-secret-of-this-process")
    tool: JsonObject = {
        "type": "function",
        "name": "look",
        "parameters": {"type": "object", "properties": {}},
    }
    async with serve("chat_completions") as server:
        response_id = await server.create(
            input="say a-secret-of-this-process to https://user:pass@example.com/?api_key=abcdef",
            metadata={"authorization": "Bearer of-a-tool", "password": 'with "quotes" inside'},
            tools=[tool],
        )
        text = (await server.get(f"/v1/responses/{response_id}/trace")).text
    for secret in ("a-secret-of-this-process", "user:pass", "api_key=abcdef", "of-a-tool", "quotes"):
        assert secret not in text, secret
    assert HIDDEN in text


@pytest.mark.parametrize(
    "member",
    [
        *("authorization", "Authorization", "api_key", "apikey", "access_token", "refresh_token"),
        *("client_secret", "secret", "password"),
    ],
)
async def test_each_member_with_a_credential_is_redacted(serve: Any, member: str) -> None:
    async with serve("chat_completions") as server:
        response_id = await server.create(input="Hi", metadata={member: "of-a-tool"})
        text = (await server.get(f"/v1/responses/{response_id}/trace")).text
    assert "of-a-tool" not in text
    assert HIDDEN in text


async def test_a_trace_is_private_to_its_tenant_and_goes_with_its_response(
    make_creator: MakeCreator,
) -> None:
    async with open_server(make_creator) as server:
        owner, other = await server.new_key("owner"), await server.new_key("other", READ, WRITE)
        sent = httpx2.Headers({**owner, **RECORD})
        created = await server.client.post("/v1/responses", json={"model": "m", "input": "x"}, headers=sent)
        path = f"/v1/responses/{created.json()['id']}/trace"
        assert (await server.client.get(path, headers=owner)).status_code == 200
        assert (await server.client.get(path, headers=other)).status_code == 404
        await server.client.delete(path.removesuffix("/trace"), headers=owner)
        assert (await server.client.get(path, headers=owner)).status_code == 404


async def test_a_request_id_leads_to_its_response(make_creator: MakeCreator) -> None:
    async with open_server(make_creator) as server:
        created = await server.created()
        found = (await server.client.get("/v1/lookup/req_1")).json()
        item = (await server.client.get(f"/v1/lookup/{created['output'][0]['id']}")).json()
    assert found == {
        "object": "lookup",
        "kind": "request",
        "id": "req_1",
        "response_id": created["id"],
    }
    assert (item["kind"], item["response_id"]) == ("item", created["id"])


@pytest.mark.parametrize(
    "wanted", ["none", "resp_none", "run_none", "vs_none", "req_none", "x" * 5000, "%00"]
)
async def test_what_is_not_there_is_not_found(make_creator: MakeCreator, wanted: str) -> None:
    async with open_server(make_creator) as server:
        answer = await server.client.get(f"/v1/lookup/{wanted}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


async def test_events_are_read_page_by_page(serve: Any) -> None:
    async with serve("chat_completions") as server:
        response_id = await server.create(background=True)
        await _when_ended(server, response_id)
        seen, after = list[int](), -1
        while True:
            query = f"limit=3&after={after}" if after >= 0 else "limit=3"
            page = (await server.get(f"/v1/responses/{response_id}/events?{query}")).json()
            seen += [each["sequence_number"] for each in page["data"]]
            if not page["has_more"]:
                break
            after = page["last_id"]
    assert seen == list(range(len(seen)))
    assert len(seen) > 6


async def test_a_trace_that_cannot_be_read_is_not_found(
    make_creator: MakeCreator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_another_version(*_: object) -> bytes:
        return b"of another version"

    monkeypatch.setattr("antiphon.service.responses.record.seal_trace", of_another_version)
    async with open_server(make_creator) as server:
        sent = httpx2.Headers({**await server.new_key("owner"), **RECORD})
        created = await server.client.post("/v1/responses", json={"model": "m", "input": "x"}, headers=sent)
        path = f"/v1/responses/{created.json()['id']}"
        for part, code in (("trace", "trace_not_recorded"), ("events", "events_not_recorded")):
            answer = await server.client.get(f"{path}/{part}", headers=sent)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, code)
        assert "cannot be read" in (await server.client.get(f"{path}/trace", headers=sent)).text
