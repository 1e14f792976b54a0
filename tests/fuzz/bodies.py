"""Valid bodies of every kind, drawn at random."""

import random
from typing import Any

from tests.fuzz.hosted import Hosted
from tests.fuzz.pool import Pool

JsonObject = dict[str, Any]
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
FUNCTION: JsonObject = {"type": "function", "name": "get_weather", "parameters": SCHEMA}
TOOLS: tuple[JsonObject, ...] = (
    FUNCTION,
    {**FUNCTION, "name": "strict_one", "strict": True, "description": "Strict."},
    {"type": "custom", "name": "code", "description": "Runs code."},
    {"type": "custom", "name": "digits", "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]{1,4}"}},
    {"type": "custom", "name": "lark", "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "a" | "b"'}},
    {"type": "namespace", "name": "ns", "description": "Files.", "tools": [FUNCTION]},
    {"type": "local_shell"},
    {"type": "shell"},
    {"type": "apply_patch"},
    {"type": "tool_search"},
    {"type": "web_search"},
    {"type": "computer_use_preview", "display_width": 10, "display_height": 10, "environment": "browser"},
)  # fmt: skip
EVERY_CHAT_ROLE = ("system", "developer", "user")


class Bodies:
    """Draws bodies. Everything here is accepted by the server."""

    def __init__(self, rng: random.Random, pool: Pool) -> None:
        self._rng = rng
        self._pool = pool
        self._hosted = Hosted(rng, pool)

    def maybe(self, chance: float, **members: Any) -> JsonObject:
        """These members, or none."""
        return members if self._rng.random() < chance else {}

    def model(self) -> str:
        """A model; one in fifty fails."""
        return "fails" if self._rng.random() < 0.02 else "m"

    def text(self) -> str:
        """A text."""
        return self._rng.choice(
            ("Hello", "Grüße, 世界", "a\u2028b\x0bc", "🤖" * 5, "word " * 200, "{", "<think>")
        )

    def parts(self) -> list[JsonObject]:
        """Content parts of a user."""
        parts: list[JsonObject] = [{"type": "input_text", "text": self.text()}]
        parts += [self._hosted.part()] if self._rng.random() < 0.1 else []
        return parts + ([{"type": "input_image", "image_url": PIXEL}] if self._rng.random() < 0.2 else [])

    def items(self) -> list[JsonObject]:
        """Input items: messages, calls with outputs, reasoning."""
        rng = self._rng
        items: list[JsonObject] = [{"role": "user", "content": self.text()}]
        kinds = (self._message, self._called, self._custom_called, self._reasoned, self._referred)
        for _ in range(rng.randrange(3)):
            items += rng.choice(kinds)()
        return items

    def _message(self) -> list[JsonObject]:
        role = self._rng.choice(("user", "system", "developer", "assistant"))
        content = [{"type": "output_text", "text": self.text()}] if role == "assistant" else self.parts()
        return [{"type": "message", "role": role, "content": content}]

    def _called(self) -> list[JsonObject]:
        call_id = f"call_{self._rng.randrange(10**6)}"
        call = {
            "type": "function_call",
            "call_id": call_id,
            "name": "get_weather",
            "arguments": '{"city": "Rome"}',
        }
        return [call, {"type": "function_call_output", "call_id": call_id, "output": self.text()}]

    def _custom_called(self) -> list[JsonObject]:
        call_id = f"call_{self._rng.randrange(10**6)}"
        call = {"type": "custom_tool_call", "call_id": call_id, "name": "code", "input": self.text()}
        return [call, {"type": "custom_tool_call_output", "call_id": call_id, "output": self.text()}]

    def _reasoned(self) -> list[JsonObject]:
        return [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": self.text()}]}
        ]

    def _referred(self) -> list[JsonObject]:
        return [{"type": "item_reference", "id": self._pool.one("msg")}]

    def input(self) -> Any:
        """The parameter `input`."""
        return self.text() if self._rng.random() < 0.4 else self.items()

    def tools(self) -> JsonObject:
        """Tools, and sometimes a choice."""
        rng = self._rng
        tools = rng.sample(TOOLS, rng.randrange(1, 4))
        choices: list[Any] = ["auto", "none"]
        if FUNCTION in tools:
            name = {"type": "function", "name": "get_weather"}
            choices += ["required", name, {"type": "allowed_tools", "mode": "auto", "tools": [name]}]
        return {"tools": tools, **self.maybe(0.4, tool_choice=rng.choice(choices))}

    def formats(self) -> JsonObject:
        """The parameter `text`."""
        format = self._rng.choice(
            (
                {"type": "text"},
                {"type": "json_object"},
                {"type": "json_schema", "name": "s", "schema": SCHEMA, "strict": True},
            )
        )
        return {"text": {"format": format, **self.maybe(0.3, verbosity="low")}}

    def params(self) -> JsonObject:
        """Parameters that are passed on."""
        rng = self._rng
        return {
            **self.maybe(0.2, temperature=rng.choice((0, 0.7, 2))),
            **self.maybe(0.1, top_p=0.5, top_logprobs=2),
            **self.maybe(0.1, max_output_tokens=rng.choice((16, 1000))),
            **self.maybe(0.1, metadata={"topic": self.text()[:512]}),
            **self.maybe(0.1, reasoning={"effort": "low", "summary": "auto"}),
            **self.maybe(0.1, include=["reasoning.encrypted_content"]),
            **self.maybe(0.1, parallel_tool_calls=False, user="u", prompt_cache_key="k"),
            **self.maybe(0.1, service_tier="auto", truncation="auto"),
        }

    def create(self) -> JsonObject:
        """A body of `POST /v1/responses`."""
        rng = self._rng
        body = {"model": self.model(), "input": self.input(), **self.params()}
        body |= self.maybe(0.3, instructions=self.text())
        drawn = rng.random()
        body |= self.tools() if drawn < 0.2 else self._hosted.tools() if drawn < 0.35 else {}
        body |= self.formats() if rng.random() < 0.15 else {}
        body |= self.maybe(0.4, stream=True)
        state = rng.random()
        if state < 0.2:
            body |= {"previous_response_id": self._pool.newest("resp")}
            body |= self._hosted.approval() if rng.random() < 0.3 else {}
        elif state < 0.3:
            body |= {"conversation": self._pool.one("conv")}
        elif state < 0.5:
            body |= {"background": True}
        elif state < 0.7:
            body |= {"store": False}
        return body

    def socket_frame(self) -> JsonObject:
        """A frame of a WebSocket."""
        body = {**self.create(), **self.maybe(0.2, stream_id="a"), **self.maybe(0.1, generate=False)}
        return {
            "type": "response.create",
            **{k: v for k, v in body.items() if k not in ("stream", "background")},
        }

    def compact(self) -> JsonObject:
        """A body of `POST /v1/responses/compact`."""
        return {"model": "m", "input": self.items(), **self.maybe(0.3, instructions=self.text())}

    def count(self) -> JsonObject:
        """A body of `POST /v1/responses/input_tokens`."""
        return {"model": "m", "input": self.input(), **(self.tools() if self._rng.random() < 0.3 else {})}

    def chat(self) -> JsonObject:
        """A body of `POST /v1/chat/completions`."""
        rng = self._rng
        messages: list[JsonObject] = [{"role": rng.choice(EVERY_CHAT_ROLE), "content": self.text()}]
        if rng.random() < 0.3:
            function = {"name": "get_weather", "arguments": "{}"}
            calls = [{"id": "call_1", "type": "function", "function": function}]
            messages += [{"role": "assistant", "content": None, "tool_calls": calls}]
            messages += [{"role": "tool", "tool_call_id": "call_1", "content": self.text()}]
        messages.append({"role": "user", "content": [{"type": "text", "text": self.text()}]})
        function = {key: value for key, value in FUNCTION.items() if key != "type"}
        return {
            "model": self.model(),
            "messages": messages,
            **self.maybe(0.4, stream=True, stream_options={"include_usage": True}),
            **self.maybe(0.3, tools=[{"type": "function", "function": function}], tool_choice="auto"),
            **self.maybe(0.2, temperature=0.5, max_completion_tokens=100, stop=["END"]),
            **self.maybe(0.1, response_format={"type": "json_object"}),
            **self.maybe(0.2, web_search_options=self._search_options()),
        }

    def _search_options(self) -> JsonObject:
        place = {"type": "approximate", "approximate": {"city": self.text(), "country": "FR"}}
        size = self._rng.choice(("low", "medium", "high"))
        return self.maybe(0.5, search_context_size=size) | self.maybe(0.5, user_location=place)

    def messages(self) -> JsonObject:
        """A body of `POST /v1/messages`."""
        messages: list[JsonObject] = [{"role": "user", "content": self.text()}]
        if self._rng.random() < 0.3:
            use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Rome"}}
            messages.append({"role": "assistant", "content": [{"type": "text", "text": "Wait."}, use]})
            result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": self.text()}
            messages.append({"role": "user", "content": [result]})
        if self._rng.random() < 0.2:
            messages += [{"role": "assistant", "content": self._server_blocks()}, messages[0]]
        return {
            "model": self.model(),
            "max_tokens": 100,
            "messages": messages,
            **self.maybe(0.4, stream=True),
            **self.maybe(0.3, system=[{"type": "text", "text": self.text()}]),
            **self.maybe(0.3, tools=[{"name": "get_weather", "input_schema": SCHEMA}], tool_choice={"type": "auto"}),
            **self.maybe(0.2, temperature=0.5, stop_sequences=["END"], metadata={"user_id": "u"}),
            **self.maybe(0.2, tools=self._server_tools()),
            **self.maybe(0.1, mcp_servers=[{"type": "url", "name": "s", "url": "http://127.0.0.1:9/mcp"}]),
            **self.maybe(0.1, container=self._rng.choice((self.text(), {"id": self.text()}))),
        }  # fmt: skip

    def _server_tools(self) -> list[JsonObject]:
        search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
        filters = {"allowed_domains": [self.text()], "user_location": {"city": self.text()}}
        toolset = {"type": "mcp_toolset", "mcp_server_name": "s", "configs": {"a": {"enabled": True}}}
        code = {"type": "code_execution_20250825", "name": "code_execution"}
        return [{**search, **self.maybe(0.5, **filters)}, *self._rng.sample([toolset, code], 1)]

    def _server_blocks(self) -> list[JsonObject]:
        """A call of a server tool, and its result."""
        kind, content = self._rng.choice(
            (
                ("web_search_tool_result", [{"type": "web_search_result", "encrypted_content": self.text()}]),
                (
                    "web_search_tool_result",
                    {"type": "web_search_tool_result_error", "error_code": "unavailable"},
                ),
                ("code_execution_tool_result", {"type": "code_execution_result", "stdout": self.text()}),
                ("mcp_tool_result", [{"type": "text", "text": self.text()}]),
            )
        )
        begun = "mcp_tool_use" if kind == "mcp_tool_result" else "server_tool_use"
        use = {"type": begun, "id": "u", "name": "web_search", "input": {"query": self.text()}}
        return [use, {"type": kind, "tool_use_id": "u", "content": content}]

    def conversation(self) -> JsonObject:
        """A body of `POST /v1/conversations`."""
        return {**self.maybe(0.7, items=self.items()), **self.maybe(0.5, metadata={"topic": "tides"})}

    def embeddings(self) -> JsonObject:
        """A body of `POST /v1/embeddings`."""
        rng = self._rng
        inputs = self.text() if rng.random() < 0.5 else [self.text() for _ in range(rng.randrange(1, 4))]
        formats = self.maybe(0.5, encoding_format=rng.choice(("float", "base64")))
        return {"model": "auto", "input": inputs, **formats, **self.maybe(0.1, dimensions=384)}

    def agent(self) -> JsonObject:
        """A body of `POST /v1/agent/execute`."""
        rng = self._rng
        return {
            "instruction": self.text(),
            **self.maybe(0.3, mode="general"),
            **self.maybe(0.2, systemPrompt=self.text()),
            **self.maybe(0.2, streaming=True),
            **self.maybe(0.2, toolsJson=[{**FUNCTION, "name": "client_tool"}]),
            **self.maybe(0.2, activeFiles=[{"path": "a.py", "content": "x = 1\n"}]),
            **self.maybe(0.1, imageAttachments=[{"mimeType": "image/png", "dataBase64": PIXEL.partition(",")[2]}]),
            **self.maybe(0.1, responseContinuationId=self._pool.newest("resp")),
            **self.maybe(0.1, workspaceId="w", repo="r", language=rng.choice(("en", "de"))),
        }  # fmt: skip

    def run(self) -> JsonObject:
        """A body of `POST /v1/agent/runs`."""
        return {**self.agent(), **self.maybe(0.5, title="Tides")}

    def approval(self, request_id: str) -> JsonObject:
        """A body of `POST /v1/agent/runs/{id}/approvals`."""
        return {
            "approval_request_id": request_id,
            "approve": self._rng.choice((True, False)),
            **self.maybe(0.3, reason=self.text()),
        }

    def key(self) -> JsonObject:
        """A body of `POST /v1/admin/keys`."""
        return {
            "name": self.text(),
            **self.maybe(0.5, tenant="b", scopes=["responses:read"]),
            **self.maybe(0.3, tools=["web_search", "mcp:sums"]),
            **self.maybe(0.3, expires_at=4_000_000_000),
        }

    def mcp(self) -> JsonObject:
        """A message to `POST /mcp`; mostly a call of a tool."""
        rng, pool = self._rng, self._pool
        arguments: dict[str, JsonObject] = {
            "ask_model": {
                "model": "m",
                "input": self.text(),
                **self.maybe(0.3, instructions=self.text()),
                **self.maybe(0.3, previous_response_id=pool.newest("resp")),
            },
            "run_agent": {"instruction": self.text(), **self.maybe(0.3, mode="general")},
            "get_response": {"response_id": pool.one("resp")},
            "search_vector_store": {"vector_store_id": pool.one("vs"), "query": self.text()},
            "list_models": {},
        }
        name = rng.choice(list(arguments))
        call: JsonObject = {
            "name": name,
            "arguments": arguments[name],
            **self.maybe(0.3, _meta={"progressToken": 1}),
        }
        handshake: JsonObject = {"protocolVersion": "2025-11-25", "capabilities": {}}
        method, params = rng.choice(
            (("initialize", handshake), ("ping", {}), ("tools/list", {}), *[("tools/call", call)] * 5)
        )
        return {"jsonrpc": "2.0", "id": rng.choice((1, "a")), "method": method, "params": params}

    def file(self) -> JsonObject:
        """The form of a file."""
        named = {"filename": self._rng.choice(("a.txt", "naïve.md", "../x")), "content": self.text()}
        lifetime = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
        return {"purpose": "user_data", "file": named, **self.maybe(0.3, **lifetime)}

    def container(self) -> JsonObject:
        """A new container."""
        more = {"memory_limit": "1g", "expires_after": {"anchor": "last_active_at", "minutes": 5}}
        return {"name": "n", **self.maybe(0.3, file_ids=[self._pool.one("file")], **more)}

    def container_file(self) -> JsonObject:
        """The form of a file in a container."""
        name = self._rng.choice(("a.txt", "naïve.md", "../x", ".x", "a/../b"))
        return {"file": {"filename": name, "content": self.text()}}

    def upload(self) -> JsonObject:
        """An upload of one part of `part`."""
        return {"purpose": "user_data", "filename": "a.bin", "bytes": 5, "mime_type": "text/plain"}

    def vector_store(self) -> JsonObject:
        """A new vector store."""
        expiry = {"anchor": "last_active_at", "days": 3}
        return self.maybe(0.3, name="handbook", expires_after=expiry, metadata={"a": "b"})

    def attributes(self) -> JsonObject:
        return {"kind": "x", **self.maybe(0.3, year=2020, draft=False)}

    def chunking(self) -> JsonObject:
        static = {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 50}
        return self._rng.choice(({"type": "auto"}, {"type": "static", "static": static}))

    def store_file(self) -> JsonObject:
        """A file to add to a vector store."""
        more = {"attributes": self.attributes(), "chunking_strategy": self.chunking()}
        return {"file_id": self._pool.one("file"), **self.maybe(0.3, **more)}

    def search(self) -> JsonObject:
        """A search of a vector store."""
        condition = {"type": "eq", "key": "kind", "value": "x"}
        nested = {"type": "and", "filters": [condition, {"type": "in", "key": "year", "value": [2020]}]}
        more = {"max_num_results": 3, "rewrite_query": True, "ranking_options": {"score_threshold": 0.1}}
        filters = self._rng.choice((condition, nested))
        return {"query": self.text() or "x", **self.maybe(0.3, filters=filters), **self.maybe(0.3, **more)}

    def part(self) -> JsonObject:
        """The form of a part."""
        return {"data": {"filename": "part", "content": "01234"}}
