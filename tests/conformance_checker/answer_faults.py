"""What servers do wrong beside their streams: objects, tools, state, errors, sockets."""

from collections.abc import Callable
from itertools import count
from typing import Any

from tests.conformance_checker.faulty import Asked, Fault, Got, JsonObject
from tests.conformance_checker.stream_faults import END, fault

Alter = Callable[[Asked, Got], None]


def answers(method: str, path: str, alter: Callable[[JsonObject], None]) -> Alter:
    """Alter the JSON answers to requests of this kind; `*` in a path is anything."""

    def got(asked: Asked, got: Got) -> None:
        if asked.method == method and matches(asked.path, path) and got.status == 200 and not got.streamed:
            body = got.json
            alter(body)
            got.put(body)

    return got


def matches(path: str, pattern: str) -> bool:
    found, wanted = path.split("/"), pattern.split("/")
    return len(found) == len(wanted) and all(b in ("*", a) for a, b in zip(found, wanted, strict=True))


def responses(alter: Callable[[JsonObject], None]) -> Alter:
    """Alter every response object that is created, streamed or not."""
    whole = answers("POST", "responses", alter)

    def got(asked: Asked, got: Got) -> None:
        whole(asked, got)
        if got.streamed:
            events = got.events
            for event in events:
                if "response" in event:
                    alter(event["response"])
            got.tell(events)

    return got


def refused(status: int, method: str, path: str) -> Alter:
    def got(asked: Asked, got: Got) -> None:
        if asked.method == method and matches(asked.path, path):
            got.status = status

    return got


def errors(alter: Callable[[Got], None]) -> Alter:
    """Alter every refusal."""

    def got(_asked: Asked, got: Got) -> None:
        if got.status >= 400:
            alter(got)

    return got


def member(name: str, value: Any) -> Callable[[JsonObject], None]:
    def alter(body: JsonObject) -> None:
        body[name] = value

    return alter


def dropped(*names: str) -> Callable[[Asked], None]:
    return lambda asked: asked.drop(*names)


def without(name: str) -> Callable[[JsonObject], None]:
    return lambda body: body.pop(name, None)


def with_detail(got: Got) -> None:
    got.put({"detail": "no"})


def without_param(got: Got) -> None:
    error = got.json["error"]
    del error["param"]
    got.put({"error": error})


def served_anyway(asked: Asked, got: Got) -> None:
    """Errors of POST are answers."""
    if asked.method in ("POST", "PUT") and got.status >= 400:
        got.status = 200
        got.put({"id": "resp_1", "object": "response", "status": "completed", "output": []})


def one_continuation(asked: Asked, got: Got) -> None:
    if asked.has("previous_response_id") and got.status == 200 and not got.streamed:
        got.put({**got.json, "id": "resp_1"})


def no_request_id(_asked: Asked, got: Got) -> None:
    got.headers.pop("x-request-id", None)


def usage_wrong(response: JsonObject) -> None:
    if response.get("usage"):
        response["usage"]["total_tokens"] += 1


def same_ids(response: JsonObject) -> None:
    for item in response.get("output", []):
        item["id"] = "msg_1"


def unseen_members(asked: Asked, got: Got) -> None:
    if asked.has("client_metadata"):
        got.status = 400


def store_anyway(asked: Asked) -> None:
    if isinstance(asked.body, dict) and asked.body.get("store") is False:
        asked.body["store"] = True


def inherited(asked: Asked) -> None:
    if asked.has("previous_response_id") and isinstance(asked.body, dict):
        asked.body.setdefault("instructions", "Answer in French.")


def no_references(asked: Asked) -> None:
    if isinstance(asked.body, dict) and isinstance(asked.body.get("input"), list):
        asked.body["input"] = [item for item in asked.body["input"] if item.get("type") != "item_reference"]


def refuse_references(asked: Asked, got: Got) -> None:
    if "item_reference" in str(asked.body):
        got.status = 500


def oldest_first(asked: Asked) -> None:
    if asked.path.endswith("items"):
        asked.query["order"] = "asc"


def no_paging(asked: Asked) -> None:
    asked.query.pop("limit", None)


def not_deleted(asked: Asked) -> None:
    if asked.method == "DELETE":
        asked.method = "GET"


def no_outputs_alone(asked: Asked, got: Got) -> None:
    if asked.has("previous_response_id") and "function_call_output" in str(asked.body):
        got.status = 400


def history_refused(asked: Asked, got: Got) -> None:
    if "function_call_output" in str(asked.body) and "'type': 'function_call'" in str(asked.body):
        got.status = 400


def prose_arguments(response: JsonObject) -> None:
    for item in response.get("output", []):
        if item["type"] == "function_call":
            item["arguments"] = "Paris"


def streamed_prose(asked: Asked, got: Got) -> None:
    if got.streamed:
        events = got.events
        for event in events:
            if event["type"] in END:
                prose_arguments(event["response"])
        got.tell(events)


def constant_tokens(body: JsonObject) -> None:
    body["input_tokens"] = 7


def no_compaction(body: JsonObject) -> None:
    body["output"] = [item for item in body["output"] if item["type"] != "compaction"]


def compaction_refused(asked: Asked, got: Got) -> None:
    if asked.path == "responses" and "'type': 'compaction'" in str(asked.body):
        got.status = 400


def all_models(asked: Asked) -> None:
    if asked.path.startswith("models/"):
        asked.path = "models/obedient"


def other_model(body: JsonObject) -> None:
    body["id"] = "other"


def another_rest(asked: Asked, got: Got) -> None:
    if "starting_after" in asked.query:
        got.body = got.body.replace(b"Hello", b"Goodbye")


def no_resume(asked: Asked) -> None:
    asked.query.pop("starting_after", None)


def no_conversation_echo(response: JsonObject) -> None:
    response["conversation"] = None


def forgetful(response: JsonObject) -> None:
    """The words are gone, and so are the tokens."""
    for item in response["output"]:
        for part in item.get("content", []):
            part["text"] = part["text"].replace("heliotrope", "what?")
    response["usage"]["input_tokens"] = 7


def without_items(frame: JsonObject) -> JsonObject | None:
    return (
        {**frame, "type": "response.something"} if frame["type"] == "response.content_part.added" else frame
    )


def one_series() -> Callable[[JsonObject], JsonObject]:
    """Numbers that go on from turn to turn."""
    numbers = count()
    return lambda frame: {**frame, "sequence_number": next(numbers)}


def generous(frame: JsonObject) -> None:
    """Continues whatever it is asked to continue."""
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
    fault("ids of items are the same everywhere", "ids.unique", "fold.stream", "fold.retrieved", got=responses(same_ids)),
    fault("what is retrieved is another one", "fold.retrieved", got=answers("GET", "responses/*", member("model", "other"))),
    fault("JSON lacks what the stream has", "fold.json", got=answers("POST", "responses", without("parallel_tool_calls"))),
    fault("no created_at", "object.essential", "object.members", "fold.retrieved", got=responses(without("created_at"))),
    fault("no presence_penalty", "object.members", "fold.retrieved", got=responses(without("presence_penalty"))),
    fault("no echo of metadata", "object.echo", got=responses(member("metadata", {}))),
    fault("usage does not add up", "object.usage", "fold.retrieved", got=responses(usage_wrong)),
    fault("client_metadata is refused", "object.unknown_members", got=unseen_members),
    fault("tool_choice is ignored", "tools.none", "tools.required", "tools.named", "tools.allowed", "tools.unknown_choice", asked=dropped("tool_choice")),
    fault("parallel_tool_calls is ignored", "tools.one_at_a_time", asked=dropped("parallel_tool_calls")),
    fault("arguments are prose", "tools.arguments", "fold.stream", got=streamed_prose),
    fault("calls cannot be sent back", "tools.round_trip", got=history_refused),
    fault("outputs cannot continue", "tools.continued", got=no_outputs_alone),
    fault("formats are ignored", "structured.stream", "structured.json", "structured.object", "structured.no_schema", asked=dropped("text")),
    fault("responses cannot be retrieved", "state.retrieve", "state.delete", "state.not_stored", "fold.retrieved", "background.completes", "background.resume", "errors.response", got=refused(500, "GET", "responses/*")),
    fault("previous_response_id is ignored", "state.continue", "state.echo", "state.not_continued", "state.delete", "tools.continued", "conversations.exclusive", "errors.previous", asked=dropped("previous_response_id")),
    fault("no echo of previous_response_id", "state.echo", got=answers("POST", "responses", member("previous_response_id", None))),
    fault("a continuation cannot branch", "state.branch", got=one_continuation),
    fault("instructions are inherited", "state.instructions", asked=inherited),
    fault("store false is ignored", "state.not_stored", "state.not_continued", asked=store_anyway),
    fault("references break the server", "state.item_reference", "state.unknown_reference", got=refuse_references),
    fault("references are left out", "state.item_reference", "state.unknown_reference", asked=no_references),
    fault("lists begin with the oldest", "state.input_items", "conversations.items", asked=oldest_first),
    fault("lists have one page", "state.input_items_pages", asked=no_paging),
    fault("nothing is deleted", "state.delete", "conversations.delete", "conversations.items", asked=not_deleted),
    fault("conversations lose their metadata", "conversations.create", got=answers("POST", "conversations", member("metadata", {}))),
    fault("metadata cannot be replaced", "conversations.update", got=answers("POST", "conversations/*", member("metadata", {}))),
    fault("the conversation is not named", "conversations.respond", got=answers("POST", "responses", no_conversation_echo)),
    fault("conversations are ignored", "conversations.respond", "conversations.exclusive", "conversations.unknown", asked=dropped("conversation")),
    fault("the model forgets", "state.continue", "state.item_reference", "conversations.respond", got=answers("POST", "responses", forgetful)),
    fault("background is ignored", "background.completes", "background.cancel", "background.resume", asked=dropped("background")),
    fault("cancelled ones go on", "background.cancel", got=answers("POST", "responses/*/cancel", member("status", "in_progress"))),
    fault("a resumed stream says something else", "background.resume", got=another_rest),
    fault("starting_after is ignored", "background.resume", asked=no_resume),
    fault("there are no models", "models.list", got=answers("GET", "models", without("data"))),
    fault("models are no list", "models.list", got=answers("GET", "models", member("object", "models"))),
    fault("another model is found", "models.retrieve", got=answers("GET", "models/*", other_model)),
    fault("any model is found", "models.unknown", asked=all_models),
    fault("tokens are not counted", "input_tokens.count", got=answers("POST", "responses/input_tokens", constant_tokens)),
    fault("no compaction item", "compact.output", got=answers("POST", "responses/compact", no_compaction)),
    fault("compactions cannot be used", "compact.continue", got=compaction_refused),
    fault("errors are details", *REFUSALS, "errors.members", got=errors(with_detail)),
    fault("errors have no param", "errors.members", got=errors(without_param)),
    fault("bad requests are served", *(check for check in REFUSALS if check not in FOUND_BY_GET), "errors.members", got=served_anyway),
    fault("no request id", "errors.request_id", got=no_request_id),
    fault("WebSockets get a 404", "websocket.refusal", socket=404),
    fault("a socket leaves out content_part.added", *(f"websocket.{name}" for name in WEBSOCKET), hear=without_items),
    fault("a socket numbers all turns in one series", *(f"websocket.{name}" for name in ("stream_flag", "sequential", "not_stored", "warm_up", "unknown_previous", "bad_frame")), hear=one_series()),
    fault("a socket refuses stream", "websocket.stream_flag", say=stream_refused),
    fault("a socket continues anything", "websocket.sequential", "websocket.warm_up", "websocket.not_stored", "websocket.unknown_previous", say=generous),
    fault("a socket generates anyway", "websocket.warm_up", say=generating),
    fault("a socket has another code", "websocket.unknown_previous", hear=other_code),
    fault("an error ends a socket", "websocket.unknown_previous", "websocket.bad_frame", "websocket.not_stored", hear=ends_with_error),
)  # fmt: skip
