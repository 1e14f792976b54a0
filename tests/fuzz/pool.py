"""Ids and items that earlier answers contained, so that later requests can name what exists."""

import random
import re
from collections import deque
from typing import Any, cast

JsonObject = dict[str, Any]
KEPT = 200
"""The newest of each kind are kept."""
PREFIXES = (
    "resp_",
    "conv_",
    "run_",
    "msg_",
    "fc_",
    "rs_",
    "call_",
    "ctc_",
    "cmp_",
    "file-",
    "upload_",
    "vs_",
    "cntr_",
    "cfile_",
)
CONTAINER_FILE = "container.file"
STORE_FILE, STORE_BATCH = "vector_store.file", "vector_store.files_batch"
READ_FILE = "vector_store.file, completed"
MCP_APPROVAL, RUN_APPROVAL = "mcp_approval", "agent_approval"
RELATED = {
    CONTAINER_FILE: ("cntr", "cfile"),
    STORE_FILE: ("vs", "file"),
    STORE_BATCH: ("vs", "file"),
    READ_FILE: ("vs", "file"),
    MCP_APPROVAL: ("resp", "call"),
    RUN_APPROVAL: ("run", "call"),
}
"""Pairs of ids, and what each of them is the id of."""
SEPARATORS = {"file": "-"}
"""Between the kind and the rest of an id; otherwise `_`."""


class Pool:
    """What exists, by the prefix of its id, and the items of answers."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._ids: dict[str, deque[str]] = {}
        self._items: deque[JsonObject] = deque(maxlen=KEPT)
        self._pairs: deque[tuple[str, str]] = deque(maxlen=KEPT)
        self._parts: deque[tuple[str, str]] = deque(maxlen=KEPT)
        self._related: dict[str, deque[tuple[str, str]]] = {}
        self._background: deque[str] = deque(maxlen=KEPT)
        self._traced: deque[str] = deque(maxlen=KEPT)
        self.csrf: str | None = None
        """The token of the session of the page, if there is one."""

    def learn(self, value: object, conversation: str | None = None) -> None:
        """Remember the ids of an answer; `conversation` is the one that its items are in."""
        if isinstance(value, list):
            for member in cast("list[object]", value):
                self.learn(member, conversation)
        elif isinstance(value, dict):
            self._learn_object(cast("JsonObject", value), conversation)
            self._learn_part(cast("JsonObject", value))

    def _learn_part(self, value: JsonObject) -> None:
        match value.get("object"):
            case "vector_store.file" | "vector_store.files_batch" as kind:
                self._relate(kind, value["vector_store_id"], value["id"])
                if kind == STORE_FILE and value.get("status") == "completed":
                    self._relate(READ_FILE, value["vector_store_id"], value["id"])
            case "container.file":
                self._relate(CONTAINER_FILE, value["container_id"], value["id"])
            case "upload.part":
                self._parts.append((str(value["upload_id"]), str(value["id"])))
            case "api_key" if value["state"] == "valid":
                self._learn_id("key", str(value["id"]))
            case "session":
                self.csrf = value["csrf"]
            case "approval" if value["kind"] == "mcp":
                self._relate(MCP_APPROVAL, value["response_id"], value["id"])
            case "approval":
                self._relate(RUN_APPROVAL, value["run_id"], value["id"])
            case _:
                pass

    def _relate(self, kind: str, owner: object, member: object) -> None:
        pairs, pair = self._related.setdefault(kind, deque(maxlen=KEPT)), (str(owner), str(member))
        if pair not in pairs:
            pairs.append(pair)

    def learn_trace(self, answer: object) -> None:
        """Remember a response that was recorded: one that is stored."""
        if isinstance(answer, dict):
            response = cast("JsonObject", answer)
            if response.get("object") == "response" and response["store"]:
                self._traced.append(str(response["id"]))

    def _learn_object(self, value: JsonObject, conversation: str | None) -> None:
        if value.get("deleted") is True or value.get("object") == "response.compaction":
            return
        if value.get("object") == "response" and value.get("store") is False:
            return
        if value.get("background") is True and value.get("object") == "response":
            self._background.append(str(value["id"]))
        for name in ("id", "call_id"):
            known = value.get(name)
            if isinstance(known, str) and known.startswith(PREFIXES):
                kind = re.split("[_-]", known)[0]
                self._learn_id(kind, known)
                if conversation is not None and name == "id" and "type" in value:
                    self._pairs.append((conversation, known))
        if "type" in value and "id" in value:
            self._items.append(value)
        for member in value.values():
            if isinstance(member, list | dict):
                self.learn(cast("object", member), conversation)

    def related(self, kind: str) -> tuple[str, str]:
        """A pair of ids."""
        known, (owner, member) = self._related.get(kind), RELATED[kind]
        return self._rng.choice(known) if known else (self.one(owner), self.one(member))

    def take_related(self, kind: str) -> tuple[str, str]:
        """The same, not to be given again."""
        taken = self.related(kind)
        for pairs in self._related.values():
            if taken in pairs:
                pairs.remove(taken)
        return taken

    def traced(self) -> str:
        """A response that was recorded."""
        return self._rng.choice(self._traced) if self._traced else self.one("resp")

    def take_part(self) -> tuple[str, str]:
        """An upload with one of its parts, not to be given again."""
        upload, part = self._parts.popleft() if self._parts else (self.one("upload"), "part_0194f3a6")
        self._forget("upload", upload)
        return upload, part

    def _learn_id(self, kind: str, known: str) -> None:
        ids = self._ids.setdefault(kind, deque(maxlen=KEPT))
        if known not in ids:
            ids.append(known)

    def one(self, kind: str) -> str:
        """An id of a kind; one that does not exist if none is known."""
        known = self._ids.get(kind)
        return self._rng.choice(known) if known else _unknown(kind)

    def newest(self, kind: str) -> str:
        """The newest id of a kind."""
        known = self._ids.get(kind)
        return known[-1] if known else _unknown(kind)

    def take(self, kind: str) -> str:
        """An id of a kind that is not given again: it will be deleted."""
        taken = self.one(kind)
        self._forget(kind, taken)
        self._background = deque((known for known in self._background if known != taken), KEPT)
        self._pairs = deque((pair for pair in self._pairs if pair[0] != taken), KEPT)
        return taken

    def _forget(self, kind: str, taken: str) -> None:
        self._ids[kind] = deque((known for known in self._ids.get(kind, ()) if known != taken), KEPT)
        self._parts = deque((pair for pair in self._parts if pair[0] != taken), KEPT)
        self._traced = deque((known for known in self._traced if known != taken), KEPT)
        for name, pairs in self._related.items():
            self._related[name] = deque((pair for pair in pairs if taken not in pair), KEPT)

    def background(self) -> str:
        """A background response."""
        return self._rng.choice(self._background) if self._background else self.one("resp")

    def item(self) -> JsonObject:
        """An item of an answer."""
        return self._rng.choice(self._items) if self._items else {"role": "user", "content": "Hello"}

    def pair(self) -> tuple[str, str]:
        """A conversation with one of its items."""
        return self._rng.choice(self._pairs) if self._pairs else (self.one("conv"), self.one("msg"))

    def take_pair(self) -> tuple[str, str]:
        """The same, not to be given again."""
        return self._pairs.popleft() if self._pairs else (self.one("conv"), self.one("msg"))

    def any_id(self) -> str:
        """An id of any kind."""
        kind = self._rng.choice(list(self._ids) or ["resp"])
        return self.one(kind)


def _unknown(kind: str) -> str:
    """An id that does not exist."""
    return f"{kind}{SEPARATORS.get(kind, '_')}0194f3a60194f3a60194f3a6"
