"""A valid request for every route of the server."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from antiphon.server.page.bundle import load_bundle
from tests.fuzz.bodies import Bodies
from tests.fuzz.pool import CONTAINER_FILE, READ_FILE, RUN_APPROVAL, STORE_BATCH, STORE_FILE, Pool

JsonObject = dict[str, Any]
NO_BODY: Any = object()
SOCKET = "WebSocket /v1/responses"
"""The same path as that of a list of responses."""
OPERATOR_KEY = "key-of-the-operator-of-the-fuzzed-server"
RECORD = {"antiphon-trace": "record"}
STATUSES = ("queued", "in_progress", "completed", "incomplete", "failed", "cancelled")


@dataclass
class FuzzRequest:
    """One request; `ids` are the parameters of its path."""

    route: str
    ids: list[str] = field(default_factory=list[str])
    query: dict[str, str] = field(default_factory=dict[str, str])
    body: Any = NO_BODY
    headers: dict[str, str] = field(default_factory=dict[str, str])
    is_form: bool = False
    """Whether the body is sent as a form."""


Draw = Callable[[], FuzzRequest]


class Routes:
    """Draws a request by the name of its route, as `server/routes/table.py` spells it, and frames of a WebSocket."""

    def __init__(self, rng: random.Random, pool: Pool, model: str = "m") -> None:
        self._rng = rng
        self._pool = pool
        self._bodies = bodies = Bodies(rng, pool)
        self._posted = {
            SOCKET: bodies.socket_frame,
            "POST /v1/responses/input_tokens": bodies.count,
            "POST /v1/responses/compact": bodies.compact,
            "POST /v1/chat/completions": bodies.chat,
            "POST /v1/messages": bodies.messages,
            "POST /v1/messages/count_tokens": bodies.messages,
            "POST /v1/vector_stores": bodies.vector_store,
            "POST /v1/containers": bodies.container,
            "POST /v1/conversations": bodies.conversation,
            "POST /v1/embeddings": bodies.embeddings,
            "POST /v1/uploads": bodies.upload,
            "POST /v1/agent/execute": bodies.agent,
            "POST /v1/agent/runs": bodies.run,
            "POST /mcp": bodies.mcp,
        }
        self._drawn: dict[str, Draw] = {
            "POST /v1/responses": self._create,
            "GET /v1/responses": self._list_responses,
            "GET /v1/responses/{id}": self._retrieve,
            "DELETE /v1/responses/{id}": lambda: self._by_id("DELETE /v1/responses/{id}", pool.take("resp")),
            "POST /v1/responses/{id}/cancel": self._cancel,
            "GET /v1/responses/{id}/input_items": self._input_items,
            "GET /v1/conversations/{id}": lambda: self._by_id("GET /v1/conversations/{id}", pool.one("conv")),
            "POST /v1/conversations/{id}": self._update,
            "DELETE /v1/conversations/{id}": lambda: self._by_id(
                "DELETE /v1/conversations/{id}", pool.take("conv")
            ),
            "POST /v1/conversations/{id}/items": self._add_items,
            "GET /v1/conversations/{id}/items": self._list_items,
            "GET /v1/conversations/{id}/items/{item_id}": lambda: FuzzRequest(
                "GET /v1/conversations/{id}/items/{item_id}", [*pool.pair()]
            ),
            "DELETE /v1/conversations/{id}/items/{item_id}": lambda: FuzzRequest(
                "DELETE /v1/conversations/{id}/items/{item_id}", [*pool.take_pair()]
            ),
            "POST /v1/files": lambda: FuzzRequest("POST /v1/files", body=bodies.file(), is_form=True),
            "GET /v1/files": self._list_files,
            "GET /v1/files/{id}": lambda: self._by_id("GET /v1/files/{id}", pool.one("file")),
            "DELETE /v1/files/{id}": lambda: self._by_id("DELETE /v1/files/{id}", pool.take("file")),
            "GET /v1/files/{id}/content": self._content,
            "POST /v1/uploads/{id}/parts": self._add_part,
            "POST /v1/uploads/{id}/complete": self._complete,
            "POST /v1/uploads/{id}/cancel": lambda: self._by_id(
                "POST /v1/uploads/{id}/cancel", pool.take("upload")
            ),
            **self._vector_stores(),
            **self._containers(),
            "GET /v1/agent/modes": lambda: FuzzRequest("GET /v1/agent/modes"),
            "GET /v1/agent/runs": lambda: FuzzRequest("GET /v1/agent/runs", query=self._page("run")),
            "GET /v1/agent/runs/{id}": self._retrieve_run,
            "DELETE /v1/agent/runs/{id}": lambda: self._by_id("DELETE /v1/agent/runs/{id}", pool.take("run")),
            "POST /v1/agent/runs/{id}/approvals": self._answer_approval,
            "GET /v1/approvals": lambda: FuzzRequest("GET /v1/approvals", query=self._page("run")),
            "POST /v1/agent/runs/{id}/cancel": lambda: self._by_id(
                "POST /v1/agent/runs/{id}/cancel", pool.one("run")
            ),
            "GET /v1/models": self._models,
            "GET /v1/models/{model}": lambda: self._by_id("GET /v1/models/{model}", model),
            "GET /v1/models/{model}/capabilities": lambda: self._by_id(
                "GET /v1/models/{model}/capabilities", model
            ),
            **self._observed(),
            **self._administration(),
            "GET /healthz": lambda: FuzzRequest("GET /healthz"),
            "GET /readyz": lambda: FuzzRequest("GET /readyz"),
        }

    @property
    def names(self) -> list[str]:
        """Every route."""
        return [*self._posted, *self._drawn]

    def draw(self, name: str) -> FuzzRequest:
        """A valid request of a route, if what it names still exists."""
        if name in self._posted:
            return FuzzRequest(name, body=self._posted[name]())
        return self._drawn[name]()

    def _observed(self) -> dict[str, Draw]:
        """Lists, statistics and the page."""
        pool, rng = self._pool, self._rng
        assets = sorted(load_bundle().assets) or ["none.js"]

        def usage() -> FuzzRequest:
            query = {"bucket": rng.choice(("hour", "day")), **self._maybe("format", "csv")}
            return FuzzRequest("GET /v1/usage", query=query | self._maybe("group_by", "model,key_id"))

        def events() -> FuzzRequest:
            query = self._maybe("after", "2") | self._maybe("limit", "3")
            return FuzzRequest("GET /v1/responses/{id}/events", [pool.background()], query)

        return {
            "GET /v1/conversations": lambda: FuzzRequest("GET /v1/conversations", query=self._page("conv")),
            "GET /v1/responses/{id}/chain": lambda: FuzzRequest(
                "GET /v1/responses/{id}/chain", [pool.one("resp")]
            ),
            "GET /v1/responses/{id}/trace": lambda: FuzzRequest(
                "GET /v1/responses/{id}/trace", [pool.traced()]
            ),
            "GET /v1/responses/{id}/events": events,
            "GET /v1/lookup/{id}": lambda: self._by_id(
                "GET /v1/lookup/{id}", pool.one(rng.choice(("resp", "conv", "run")))
            ),
            "GET /v1/usage": usage,
            "GET /v1/upstreams": lambda: FuzzRequest("GET /v1/upstreams"),
            "GET /": lambda: FuzzRequest("GET /"),
            "GET /assets/{name}": lambda: FuzzRequest("GET /assets/{name}", [rng.choice(assets)]),
        }

    def _administration(self) -> dict[str, Draw]:
        """Keys, settings, checks and sessions."""
        pool, bodies = self._pool, self._bodies
        revoke, delete = "POST /v1/admin/keys/{id}/revoke", "DELETE /v1/admin/keys/{id}"

        def of_session(name: str, body: Any = NO_BODY) -> Draw:
            return lambda: FuzzRequest(
                name, body=body, headers={} if pool.csrf is None else {"antiphon-csrf": pool.csrf}
            )

        return {
            "GET /v1/admin/keys": lambda: FuzzRequest("GET /v1/admin/keys"),
            "POST /v1/admin/keys": lambda: FuzzRequest("POST /v1/admin/keys", body=bodies.key()),
            revoke: lambda: FuzzRequest(revoke, [pool.one("key")]),
            delete: lambda: FuzzRequest(delete, [pool.take("key")]),
            "GET /v1/admin/settings": lambda: FuzzRequest("GET /v1/admin/settings"),
            "POST /v1/conformance": lambda: FuzzRequest("POST /v1/conformance", body={"model": "m"}),
            "GET /v1/session": of_session("GET /v1/session"),
            "POST /v1/session": of_session("POST /v1/session", {"api_key": OPERATOR_KEY}),
            "DELETE /v1/session": of_session("DELETE /v1/session"),
        }

    def _vector_stores(self) -> dict[str, Draw]:
        one = "/v1/vector_stores/{id}"
        file, batch = f"{one}/files/{{file_id}}", f"{one}/file_batches/{{batch_id}}"
        pool, bodies = self._pool, self._bodies

        def of_store(name: str, body: Callable[[], Any] = lambda: NO_BODY) -> Draw:
            return lambda: FuzzRequest(name, [pool.one("vs")], body=body())

        def of_file(name: str, body: Callable[[], Any] = lambda: NO_BODY) -> Draw:
            return lambda: FuzzRequest(name, [*pool.related(STORE_FILE)], body=body())

        def listed(name: str, ids: Callable[[], list[str]]) -> Draw:
            return lambda: FuzzRequest(
                name, ids(), self._page("none", 0.0) | self._maybe("filter", "completed")
            )

        return {
            "GET /v1/vector_stores": listed("GET /v1/vector_stores", list),
            f"GET {one}": of_store(f"GET {one}"),
            f"POST {one}": of_store(f"POST {one}", bodies.vector_store),
            f"DELETE {one}": lambda: FuzzRequest(f"DELETE {one}", [pool.take("vs")]),
            f"POST {one}/search": of_store(f"POST {one}/search", bodies.search),
            f"POST {one}/reindex": of_store(f"POST {one}/reindex", lambda: {"model": "auto"}),
            f"POST {one}/files": of_store(f"POST {one}/files", bodies.store_file),
            f"GET {one}/files": listed(f"GET {one}/files", lambda: [pool.one("vs")]),
            f"GET {file}": of_file(f"GET {file}"),
            f"POST {file}": of_file(f"POST {file}", lambda: {"attributes": bodies.attributes()}),
            f"DELETE {file}": lambda: FuzzRequest(f"DELETE {file}", [*pool.take_related(STORE_FILE)]),
            f"GET {file}/content": lambda: FuzzRequest(f"GET {file}/content", [*pool.related(READ_FILE)]),
            f"POST {one}/file_batches": of_store(
                f"POST {one}/file_batches", lambda: {"files": [bodies.store_file()]}
            ),
            f"GET {batch}": lambda: FuzzRequest(f"GET {batch}", [*pool.related(STORE_BATCH)]),
            f"POST {batch}/cancel": lambda: FuzzRequest(f"POST {batch}/cancel", [*pool.related(STORE_BATCH)]),
            f"GET {batch}/files": listed(f"GET {batch}/files", lambda: [*pool.related(STORE_BATCH)]),
        }

    def _containers(self) -> dict[str, Draw]:
        one = "/v1/containers/{id}"
        file = f"{one}/files/{{file_id}}"
        pool = self._pool
        return {
            "GET /v1/containers": lambda: FuzzRequest("GET /v1/containers", query=self._page("cntr")),
            f"GET {one}": lambda: FuzzRequest(f"GET {one}", [pool.one("cntr")]),
            f"DELETE {one}": lambda: FuzzRequest(f"DELETE {one}", [pool.take("cntr")]),
            f"POST {one}/files": self._add_container_file,
            f"GET {one}/files": lambda: FuzzRequest(
                f"GET {one}/files", [pool.one("cntr")], self._page("cfile")
            ),
            f"GET {file}": lambda: FuzzRequest(f"GET {file}", [*pool.related(CONTAINER_FILE)]),
            f"GET {file}/content": lambda: FuzzRequest(
                f"GET {file}/content", [*pool.related(CONTAINER_FILE)]
            ),
            f"DELETE {file}": lambda: FuzzRequest(f"DELETE {file}", [*pool.take_related(CONTAINER_FILE)]),
        }

    def _add_container_file(self) -> FuzzRequest:
        name, ids = "POST /v1/containers/{id}/files", [self._pool.newest("cntr")]
        if self._rng.random() < 0.3:
            return FuzzRequest(name, ids, body={"file_id": self._pool.one("file")})
        return FuzzRequest(name, ids, body=self._bodies.container_file(), is_form=True)

    def _by_id(self, name: str, known: str) -> FuzzRequest:
        return FuzzRequest(name, [known])

    def _retrieve(self) -> FuzzRequest:
        if self._rng.random() < 0.3:
            query = {"stream": "true", **self._maybe("starting_after", "2")}
            return FuzzRequest("GET /v1/responses/{id}", [self._pool.background()], query)
        return FuzzRequest("GET /v1/responses/{id}", [self._pool.one("resp")])

    def _retrieve_run(self) -> FuzzRequest:
        query = self._maybe("stream", "true") | self._maybe("case", self._rng.choice(("snake", "pascal")))
        return FuzzRequest("GET /v1/agent/runs/{id}", [self._pool.one("run")], query)

    def _answer_approval(self) -> FuzzRequest:
        run, request = self._pool.take_related(RUN_APPROVAL)
        body = self._bodies.approval(request)
        return FuzzRequest("POST /v1/agent/runs/{id}/approvals", [run], body=body)

    def _create(self) -> FuzzRequest:
        headers = dict(RECORD) if self._rng.random() < 0.1 else {}
        return FuzzRequest("POST /v1/responses", body=self._bodies.create(), headers=headers)

    def _list_responses(self) -> FuzzRequest:
        rng, filters = self._rng, self._page("resp")
        filters |= self._maybe("status", rng.choice(STATUSES)) | self._maybe("model", "m")
        filters |= self._maybe("tool", "get_weather") | self._maybe("text", self._bodies.text()[:500])
        filters |= self._maybe("background", "true") | self._maybe("created_after", "1000000000")
        filters |= self._maybe("conversation", self._pool.one("conv")) | self._maybe("key_id", "none")
        return FuzzRequest("GET /v1/responses", query=filters)

    def _cancel(self) -> FuzzRequest:
        return FuzzRequest("POST /v1/responses/{id}/cancel", [self._pool.background()])

    def _input_items(self) -> FuzzRequest:
        return FuzzRequest(
            "GET /v1/responses/{id}/input_items", [self._pool.one("resp")], self._page("msg", 0.1)
        )

    def _list_items(self) -> FuzzRequest:
        return FuzzRequest(
            "GET /v1/conversations/{id}/items", [self._pool.one("conv")], self._page("msg", 0.1)
        )

    def _update(self) -> FuzzRequest:
        body = {"metadata": self._rng.choice((None, {}, {"a": "b"}))}
        return FuzzRequest("POST /v1/conversations/{id}", [self._pool.one("conv")], body=body)

    def _add_items(self) -> FuzzRequest:
        body = {"items": self._bodies.items()}
        return FuzzRequest("POST /v1/conversations/{id}/items", [self._pool.one("conv")], body=body)

    def _list_files(self) -> FuzzRequest:
        query = self._page("file") | self._maybe("purpose", "user_data")
        return FuzzRequest("GET /v1/files", query=query)

    def _content(self) -> FuzzRequest:
        headers = self._maybe(
            "range", self._rng.choice(("bytes=0-3", "bytes=-2", "bytes=1-", "bytes=9-1", "x"))
        )
        return FuzzRequest("GET /v1/files/{id}/content", [self._pool.one("file")], headers=headers)

    def _add_part(self) -> FuzzRequest:
        name, body = "POST /v1/uploads/{id}/parts", self._bodies.part()
        return FuzzRequest(name, [self._pool.newest("upload")], body=body, is_form=True)

    def _complete(self) -> FuzzRequest:
        upload, part = self._pool.take_part()
        return FuzzRequest("POST /v1/uploads/{id}/complete", [upload], body={"part_ids": [part]})

    def _models(self) -> FuzzRequest:
        headers = {"anthropic-version": "2023-06-01"} if self._rng.random() < 0.2 else {}
        return FuzzRequest("GET /v1/models", headers=headers)

    def _page(self, kind: str, after: float = 0.3) -> dict[str, str]:
        query = self._maybe("limit", str(self._rng.randrange(1, 100)))
        query |= self._maybe("order", self._rng.choice(("asc", "desc"))) if kind != "run" else {}
        return query | ({"after": self._pool.one(kind)} if self._rng.random() < after else {})

    def _maybe(self, name: str, value: str) -> dict[str, str]:
        return {name: value} if self._rng.random() < 0.3 else {}
