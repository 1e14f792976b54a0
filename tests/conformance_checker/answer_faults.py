"""Faults of servers outside of streams: objects, tools, state, errors, sockets."""

from collections.abc import Callable
from itertools import count
from typing import Any

from tests.conformance_checker.faulty import Fault, JsonObject, ProxiedAnswer, ProxiedRequest
from tests.conformance_checker.stream_faults import END, fault

Alter = Callable[[ProxiedRequest, ProxiedAnswer], None]


def answers(method: str, path: str, alter: Callable[[JsonObject], None]) -> Alter:
    """Alter the JSON answers to requests of this kind; `*` matches any path segment."""

    def reply(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
        if sent.method == method and matches(sent.path, path) and reply.status == 200 and not reply.streamed:
            body = reply.json
            alter(body)
            reply.put(body)

    return reply


def matches(path: str, pattern: str) -> bool:
    found, wanted = path.split("/"), pattern.split("/")
    return len(found) == len(wanted) and all(b in ("*", a) for a, b in zip(found, wanted, strict=True))


def responses(alter: Callable[[JsonObject], None]) -> Alter:
    """Alter every response object that is created, streamed or not."""
    unstreamed = answers("POST", "responses", alter)

    def reply(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
        unstreamed(sent, reply)
        if reply.streamed:
            events = reply.events
            for event in events:
                if "response" in event:
                    alter(event["response"])
            reply.set_events(events)

    return reply


def refused(status: int, method: str, path: str) -> Alter:
    def reply(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
        if sent.method == method and matches(sent.path, path):
            reply.status = status

    return reply


def errors(alter: Callable[[ProxiedAnswer], None]) -> Alter:
    """Alter every error answer."""

    def reply(_sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
        if reply.status >= 400:
            alter(reply)

    return reply


def member(name: str, value: Any) -> Callable[[JsonObject], None]:
    def alter(body: JsonObject) -> None:
        body[name] = value

    return alter


def dropped(*names: str) -> Callable[[ProxiedRequest], None]:
    return lambda sent: sent.drop(*names)


def without(name: str) -> Callable[[JsonObject], None]:
    return lambda body: body.pop(name, None)


def with_detail(reply: ProxiedAnswer) -> None:
    reply.put({"detail": "no"})


def without_param(reply: ProxiedAnswer) -> None:
    error = reply.json["error"]
    del error["param"]
    reply.put({"error": error})


def served_anyway(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    """Errors of POST are answered with success."""
    if sent.method in ("POST", "PUT") and reply.status >= 400:
        reply.status = 200
        reply.put({"id": "resp_1", "object": "response", "status": "completed", "output": []})


def one_continuation(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    if sent.has("previous_response_id") and reply.status == 200 and not reply.streamed:
        reply.put({**reply.json, "id": "resp_1"})


def no_request_id(_sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    reply.headers.pop("x-request-id", None)


def usage_wrong(response: JsonObject) -> None:
    if response.get("usage"):
        response["usage"]["total_tokens"] += 1


def same_ids(response: JsonObject) -> None:
    for item in response.get("output", []):
        item["id"] = "msg_1"


def unseen_members(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    if sent.has("client_metadata"):
        reply.status = 400


def store_anyway(sent: ProxiedRequest) -> None:
    if isinstance(sent.body, dict) and sent.body.get("store") is False:
        sent.body["store"] = True


def inherited(sent: ProxiedRequest) -> None:
    if sent.has("previous_response_id") and isinstance(sent.body, dict):
        sent.body.setdefault("instructions", "Answer in French.")


def no_references(sent: ProxiedRequest) -> None:
    if isinstance(sent.body, dict) and isinstance(sent.body.get("input"), list):
        sent.body["input"] = [item for item in sent.body["input"] if item.get("type") != "item_reference"]


def refuse_references(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    if "item_reference" in str(sent.body):
        reply.status = 500


def oldest_first(sent: ProxiedRequest) -> None:
    if sent.path.endswith("items"):
        sent.query["order"] = "asc"


def no_paging(sent: ProxiedRequest) -> None:
    sent.query.pop("limit", None)


def not_deleted(sent: ProxiedRequest) -> None:
    if sent.method == "DELETE":
        sent.method = "GET"


def no_outputs_without_calls(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    if sent.has("previous_response_id") and "function_call_output" in str(sent.body):
        reply.status = 400


def history_refused(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    if "function_call_output" in str(sent.body) and "'type': 'function_call'" in str(sent.body):
        reply.status = 400


def prose_arguments(response: JsonObject) -> None:
    for item in response.get("output", []):
        if item["type"] == "function_call":
            item["arguments"] = "Paris"


def streamed_prose(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    if reply.streamed:
        events = reply.events
        for event in events:
            if event["type"] in END:
                prose_arguments(event["response"])
        reply.set_events(events)


def constant_tokens(body: JsonObject) -> None:
    body["input_tokens"] = 7


def no_compaction(body: JsonObject) -> None:
    body["output"] = [item for item in body["output"] if item["type"] != "compaction"]


def compaction_refused(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    if sent.path == "responses" and "'type': 'compaction'" in str(sent.body):
        reply.status = 400


def all_models(sent: ProxiedRequest) -> None:
    if sent.path.startswith("models/"):
        sent.path = "models/obedient"


def other_model(body: JsonObject) -> None:
    body["id"] = "other"


def different_rest(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
    if "starting_after" in sent.query:
        reply.body = reply.body.replace(b"Hello", b"Goodbye")


def no_resume(sent: ProxiedRequest) -> None:
    sent.query.pop("starting_after", None)


def no_conversation_echo(response: JsonObject) -> None:
    response["conversation"] = None


def forgetful(response: JsonObject) -> None:
    """The text is missing, and so are the tokens."""
    for item in response["output"]:
        for part in item.get("content", []):
            part["text"] = part["text"].replace("heliotrope", "what?")
    response["usage"]["input_tokens"] = 7


def without_items(frame: JsonObject) -> JsonObject | None:
    return (
        {**frame, "type": "response.something"} if frame["type"] == "response.content_part.added" else frame
    )


def one_series() -> Callable[[JsonObject], JsonObject]:
    """Sequence numbers continue from turn to turn."""
    numbers = count()
    return lambda frame: {**frame, "sequence_number": next(numbers)}


def generous(frame: JsonObject) -> None:
    """Continues any response id."""
    frame.pop("previous_response_id", None)


def stream_refused(frame: JsonObject) -> None:
    if "stream" in frame:
        frame["input"] = 17


def generating(frame: JsonObject) -> None:
    frame.pop("generate", None)


def other_code(frame: JsonObject) -> JsonObject:
    if frame["type"] == "error":
        frame["error"]["code"] = "not_found"
    return frame


def ends_with_error(frame: JsonObject) -> JsonObject | None:
    return None if frame["type"] == "error" else frame


WEBSOCKET = ("turn", "stream_flag", "sequential", "not_stored", "warm_up", "unknown_previous", "bad_frame")
REFUSALS = (
    "errors.json", "errors.not_an_object", "errors.nested", "errors.model_missing", "errors.input_missing",
    "errors.model_unknown", "errors.type", "errors.range", "errors.item", "errors.role", "errors.stream",
    "errors.previous", "errors.response", "errors.route", "errors.method", "tools.unknown_call",
    "tools.unknown_choice", "structured.no_schema", "state.not_stored", "state.not_continued",
    "state.unknown_reference", "state.delete", "conversations.items", "conversations.exclusive",
    "conversations.delete", "conversations.unknown", "background.cancel_foreground", "models.unknown",
)  # fmt: skip
FOUND_BY_GET = (
    "errors.response", "errors.route", "state.not_stored", "conversations.items", "conversations.delete",
    "models.unknown",
)  # fmt: skip

ANSWER_FAULTS: tuple[Fault, ...] = (
    fault("ids of items are the same everywhere", "ids.unique", "fold.stream", "fold.retrieved", reply=responses(same_ids)),
    fault("what is retrieved is another one", "fold.retrieved", reply=answers("GET", "responses/*", member("model", "other"))),
    fault("JSON lacks what the stream has", "fold.json", reply=answers("POST", "responses", without("parallel_tool_calls"))),
    fault("no created_at", "object.essential", "object.members", "fold.retrieved", reply=responses(without("created_at"))),
    fault("no presence_penalty", "object.members", "fold.retrieved", reply=responses(without("presence_penalty"))),
    fault("no echo of metadata", "object.echo", reply=responses(member("metadata", {}))),
    fault("usage does not add up", "object.usage", "fold.retrieved", reply=responses(usage_wrong)),
    fault("client_metadata is refused", "object.unknown_members", reply=unseen_members),
    fault("tool_choice is ignored", "tools.none", "tools.required", "tools.named", "tools.allowed", "tools.unknown_choice", sent=dropped("tool_choice")),
    fault("parallel_tool_calls is ignored", "tools.one_at_a_time", sent=dropped("parallel_tool_calls")),
    fault("arguments are prose", "tools.arguments", "fold.stream", reply=streamed_prose),
    fault("calls cannot be sent back", "tools.round_trip", reply=history_refused),
    fault("outputs cannot continue", "tools.continued", reply=no_outputs_without_calls),
    fault("formats are ignored", "structured.stream", "structured.json", "structured.object", "structured.no_schema", sent=dropped("text")),
    fault("responses cannot be retrieved", "state.retrieve", "state.delete", "state.not_stored", "fold.retrieved", "background.completes", "background.resume", "errors.response", reply=refused(500, "GET", "responses/*")),
    fault("previous_response_id is ignored", "state.continue", "state.echo", "state.not_continued", "state.delete", "tools.continued", "conversations.exclusive", "errors.previous", sent=dropped("previous_response_id")),
    fault("no echo of previous_response_id", "state.echo", reply=answers("POST", "responses", member("previous_response_id", None))),
    fault("a continuation cannot branch", "state.branch", reply=one_continuation),
    fault("instructions are inherited", "state.instructions", sent=inherited),
    fault("store false is ignored", "state.not_stored", "state.not_continued", sent=store_anyway),
    fault("references break the server", "state.item_reference", "state.unknown_reference", reply=refuse_references),
    fault("references are left out", "state.item_reference", "state.unknown_reference", sent=no_references),
    fault("lists begin with the oldest", "state.input_items", "conversations.items", sent=oldest_first),
    fault("lists have one page", "state.input_items_pages", sent=no_paging),
    fault("nothing is deleted", "state.delete", "conversations.delete", "conversations.items", sent=not_deleted),
    fault("conversations lose their metadata", "conversations.create", reply=answers("POST", "conversations", member("metadata", {}))),
    fault("metadata cannot be replaced", "conversations.update", reply=answers("POST", "conversations/*", member("metadata", {}))),
    fault("the conversation is not named", "conversations.respond", reply=answers("POST", "responses", no_conversation_echo)),
    fault("conversations are ignored", "conversations.respond", "conversations.exclusive", "conversations.unknown", sent=dropped("conversation")),
    fault("the model forgets", "state.continue", "state.item_reference", "conversations.respond", reply=answers("POST", "responses", forgetful)),
    fault("background is ignored", "background.completes", "background.cancel", "background.resume", sent=dropped("background")),
    fault("cancelled ones go on", "background.cancel", reply=answers("POST", "responses/*/cancel", member("status", "in_progress"))),
    fault("a resumed stream says something else", "background.resume", reply=different_rest),
    fault("starting_after is ignored", "background.resume", sent=no_resume),
    fault("there are no models", "models.list", reply=answers("GET", "models", without("data"))),
    fault("models are no list", "models.list", reply=answers("GET", "models", member("object", "models"))),
    fault("another model is found", "models.retrieve", reply=answers("GET", "models/*", other_model)),
    fault("any model is found", "models.unknown", sent=all_models),
    fault("tokens are not counted", "input_tokens.count", reply=answers("POST", "responses/input_tokens", constant_tokens)),
    fault("no compaction item", "compact.output", reply=answers("POST", "responses/compact", no_compaction)),
    fault("compactions cannot be used", "compact.continue", reply=compaction_refused),
    fault("errors are details", *REFUSALS, "errors.members", reply=errors(with_detail)),
    fault("errors have no param", "errors.members", reply=errors(without_param)),
    fault("bad requests are served", *(check for check in REFUSALS if check not in FOUND_BY_GET), "errors.members", reply=served_anyway),
    fault("no request id", "errors.request_id", reply=no_request_id),
    fault("WebSockets get a 404", "websocket.refusal", socket=404),
    fault("a socket leaves out content_part.added", *(f"websocket.{name}" for name in WEBSOCKET), incoming=without_items),
    fault("a socket numbers all turns in one series", *(f"websocket.{name}" for name in ("stream_flag", "sequential", "not_stored", "warm_up", "unknown_previous", "bad_frame")), incoming=one_series()),
    fault("a socket refuses stream", "websocket.stream_flag", outgoing=stream_refused),
    fault("a socket continues anything", "websocket.sequential", "websocket.warm_up", "websocket.not_stored", "websocket.unknown_previous", outgoing=generous),
    fault("a socket generates anyway", "websocket.warm_up", outgoing=generating),
    fault("a socket has another code", "websocket.unknown_previous", incoming=other_code),
    fault("an error ends a socket", "websocket.unknown_previous", "websocket.bad_frame", "websocket.not_stored", incoming=ends_with_error),
)  # fmt: skip
