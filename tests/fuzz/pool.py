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
        self._stored: dict[str, deque[tuple[str, str]]] = {}
        """Vector stores with one of their files or batches, by the kind of object."""
        self._background: deque[str] = deque(maxlen=KEPT)

    def learn(self, value: object, conversation: str | None = None) -> None:
        """Remember the ids of an answer; `conversation` is the one that its items are in."""
        if isinstance(value, list):
            for member in cast("list[object]", value):
                self.learn(member, conversation)
        elif isinstance(value, dict):
            self._learn_object(cast("JsonObject", value), conversation)
            self._learn_part(cast("JsonObject", value))

    def _learn_part(self, value: JsonObject) -> None:
        if value.get("object") in (STORE_FILE, STORE_BATCH):
            pair = (str(value["vector_store_id"]), str(value["id"]))
            self._stored.setdefault(str(value["object"]), deque(maxlen=KEPT)).append(pair)
        if value.get("object") == CONTAINER_FILE:
            pair = (str(value["container_id"]), str(value["id"]))
            self._stored.setdefault(CONTAINER_FILE, deque(maxlen=KEPT)).append(pair)
        if value.get("object") == "upload.part":
            self._parts.append((str(value["upload_id"]), str(value["id"])))

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

    def in_store(self, kind: str) -> tuple[str, str]:
        """A vector store with one of its files or batches."""
        known = self._stored.get(kind)
        return self._rng.choice(known) if known else (self.one("vs"), self.one("file"))

    def in_container(self) -> tuple[str, str]:
        """A container with one of its files."""
        known = self._stored.get(CONTAINER_FILE)
        return self._rng.choice(known) if known else (self.one("cntr"), self.one("cfile"))

    def take_container_file(self) -> tuple[str, str]:
        """The same, not to be given again."""
        taken = self.in_container()
        known = self._stored.get(CONTAINER_FILE, ())
        self._stored[CONTAINER_FILE] = deque((pair for pair in known if pair != taken), KEPT)
        return taken

    def take_store_file(self) -> tuple[str, str]:
        """A vector store with one of its files, not to be given again."""
        taken = self.in_store(STORE_FILE)
        self._stored[STORE_FILE] = deque(
            (pair for pair in self._stored.get(STORE_FILE, ()) if pair != taken), KEPT
        )
        return taken

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
        for name, pairs in self._stored.items():
            self._stored[name] = deque((pair for pair in pairs if taken not in pair), KEPT)

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
