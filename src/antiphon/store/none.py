"""The store `none`: it saves nothing, finds nothing, and rejects requests that need state.

One class implements every call of every port but one: a call is rejected with a message, or has an empty
result, or raises `NotFound`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from antiphon.errors import AntiphonError, NotFound, Unsupported
from antiphon.store.agent_scripts import run_not_found
from antiphon.store.approvals import MAX_TAKEN_APPROVALS, already_answered
from antiphon.store.base import Fenced, conversation_not_found, response_not_found
from antiphon.store.files import file_not_found
from antiphon.store.ports import Stores
from antiphon.store.signals import LocalSignals
from antiphon.store.vector_stores import store_not_found

SEND_HISTORY = "This server stores no state. Send the full conversation history in 'input' instead."
NO_BACKGROUND = (
    "This server stores no state, so it cannot run responses in the background. Omit the parameter."
)
NO_AGENT_RUNS = (
    "This server stores no state, so it runs no agents in the background. "
    "Serve with a store (`--store sqlite:`), or use `/v1/agent/execute`."
)
NO_FILES = "This server stores no state, so it stores no files. Serve with a store (`--store sqlite:`)."
NO_VECTOR_STORES = (
    "This server stores no state, so it has no vector stores. Serve with a store (`--store sqlite:`)."
)
NO_LISTS = (
    "This server stores no state, so it has no responses to list. Serve with a store (`--store sqlite:`)."
)
NO_KEYS = "This server stores no state, so it has no stored keys. Use a store, or server.api_keys."

_EMPTY_RESULTS: Mapping[str, Any] = {
    "check": None,
    "save": None,
    "leave": None,
    "claim": None,
    "claim_one": None,
    "claim_file": None,
    "add": None,
    "beat": None,
    "release": None,
    "settle": None,
    "aclose": None,
    "look": (False, None),
    "free_lapsed": 0,
    "held": (),
    "sweep": 0,
    "sweep_stores": 0,
    "shrink": False,
    "list_responses": (),
    "list_runs": (),
    "list_keys": (),
    "of_request": None,
    "of_item": None,
    "record_seal_key": "",
}
_FILE_CALLS = ("reserve_object", "list_files", "file", "delete_file", "add_upload", "upload")
"""The first calls of every operation on files."""
_VECTOR_STORE_CALLS = (
    *("add_store", "store", "list_stores", "change_store", "use_store", "delete_store", "add_files"),
    *(
        "store_file",
        "list_files",
        "set_attributes",
        "delete_file",
        "batch",
        "cancel_batch",
        "chunks",
        "content",
    ),
    *("candidates", "begin_reindex"),
)
"""All but those of ingestion and upkeep."""
_NEED_A_CLAIM = frozenset({"append", "finish", "add_chunks", "end_file"})


class EmptyStore:
    """Every port of the store `none`. `refused` maps a call to its message and parameter."""

    def __init__(
        self,
        missing: Callable[[str], AntiphonError],
        refused: Mapping[str, tuple[str, str | None]] | None = None,
    ) -> None:
        self._missing = missing
        self._refused = refused or {}

    def __getattr__(self, call: str) -> Callable[..., Awaitable[Any]]:
        """The method `call` of a port."""

        async def answer(*args: Any, **_options: Any) -> Any:
            if call in self._refused:
                message, param = self._refused[call]
                raise Unsupported(message, param=param, code="unsupported_parameter")
            if call in _EMPTY_RESULTS:
                return _EMPTY_RESULTS[call]
            if call in _NEED_A_CLAIM:
                raise Fenced
            raise self._missing(args[1])

        return answer


class _EmptyResponses(EmptyStore):
    """Remembers, for as long as the process runs, which approval requests were answered: a client that
    repeats its request must not run the call again."""

    def __init__(
        self,
        missing: Callable[[str], AntiphonError],
        refused: Mapping[str, tuple[str, str | None]],
    ) -> None:
        super().__init__(missing, refused)
        self._taken: dict[str, dict[str, None]] = {}

    async def take_approvals(self, tenant: str, request_ids: Sequence[str]) -> None:
        """Record answers before their calls run."""
        taken = self._taken.setdefault(tenant, {})
        for request_id in request_ids:
            if request_id in taken:
                raise already_answered(request_id)
        taken |= dict.fromkeys(request_ids)
        while len(taken) > MAX_TAKEN_APPROVALS:
            del taken[next(iter(taken))]


def no_stores() -> Stores:
    """The ports of the store `none`."""
    responses = _EmptyResponses(
        response_not_found,
        {"continuation": (SEND_HISTORY, "previous_response_id"), "item": (SEND_HISTORY, "input")},
    )
    conversations = EmptyStore(
        conversation_not_found,
        dict.fromkeys(("history", "enter", "add_conversation"), (SEND_HISTORY, "conversation")),
    )
    keys = EmptyStore(_key_not_found, {"add_key": (NO_KEYS, None)})
    files = EmptyStore(file_not_found, dict.fromkeys(_FILE_CALLS, (NO_FILES, None)))
    ports: dict[str, Any] = {
        "responses": responses,
        "conversations": conversations,
        "background": EmptyStore(response_not_found, {"submit": (NO_BACKGROUND, "background")}),
        "agent_runs": EmptyStore(run_not_found, {"submit": (NO_AGENT_RUNS, None)}),
        "files": files,
        "blobs": files,
        "vector_stores": EmptyStore(
            store_not_found, dict.fromkeys(_VECTOR_STORE_CALLS, (NO_VECTOR_STORES, None))
        ),
        "jobs": responses,
        "summaries": EmptyStore(
            response_not_found,
            dict.fromkeys(("responses", "conversations", "usage"), (NO_LISTS, None)),
        ),
        "keys": keys,
        "upkeep": responses,
        "aclose": responses.aclose,
    }
    return Stores(signals=LocalSignals(), stateless=True, **ports)


def _key_not_found(_now: str) -> NotFound:
    return NotFound("Key not found: this server stores no state.")
