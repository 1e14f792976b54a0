"""The parameters of the document tools: JSON Schemas, and the structs that arguments are converted to."""

from typing import Literal, get_args

from msgspec import Struct

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.documents.entry import Draft
from antiphon.orchestrator.documents.status import Status, read_status
from antiphon.protocol.content import JsonObject

State = Literal["Satisfied", "PartiallySatisfied", "NotSatisfied"]
STATES: tuple[State, ...] = get_args(State)


class DocumentArguments(Struct, frozen=True, kw_only=True, rename="camel"):
    """Arguments of `ddr_document`."""

    title: str
    status: str
    markdown_body: str
    id: str = ""
    domain: str | None = None
    tags: tuple[str, ...] | None = None
    owner: str | None = None
    notes: str = ""

    def draft(self) -> Draft:
        """The draft of this call."""
        if not self.markdown_body.strip():
            raise InvalidRequest("The markdownBody is empty: write the complete text.", param="markdownBody")
        return Draft(
            title=self.title,
            status=read_status(self.status),
            domain=self.domain,
            owner=self.owner,
            tags=self.tags,
            body=self.markdown_body,
        )


class Finding(Struct, frozen=True):
    """The state of one requirement."""

    requirement: str
    state: State
    note: str = ""


class ReviewArguments(Struct, frozen=True):
    """Arguments of `ddr_review`."""

    id: str
    verdict: str
    findings: tuple[Finding, ...] = ()


class Ranked(Struct, frozen=True):
    """A document, and why it matches."""

    id: str
    reason: str = ""


class SearchArguments(Struct, frozen=True):
    """Arguments of `ddr_search_result`."""

    query: str
    ranked: tuple[Ranked, ...]


class ReadArguments(Struct, frozen=True):
    """Arguments of `ddr_read`."""

    id: str


def _text(description: str) -> JsonObject:
    return {"type": "string", "description": description}


def _list(items: JsonObject, description: str) -> JsonObject:
    return {"type": "array", "items": items, "description": description}


def _object(properties: JsonObject, required: tuple[str, ...]) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_ID = _text("The id of a document, for example AGN-004.")

DOCUMENT: JsonObject = _object(
    {
        "id": _text(
            "The id of the document to change. Left out for a new one: its number is allocated; three "
            "letters, for example AGN, choose its series."
        ),
        "title": _text("One line."),
        "status": {
            "type": "string",
            "enum": [status.value for status in Status],
            "description": "A new document is Proposed.",
        },
        "domain": _text("The part of the system that it is about."),
        "tags": _list({"type": "string"}, "Words to find it by."),
        "owner": _text("Who answers for it."),
        "markdownBody": _text("The complete text below the header, in Markdown, without the header."),
        "notes": _text("What the reader of the change should know. It does not stand in the document."),
    },
    ("title", "status", "markdownBody"),
)
REVIEW: JsonObject = _object(
    {
        "id": _ID,
        "verdict": _text("The result of the review in one line."),
        "findings": _list(
            _object(
                {
                    "requirement": _text("What was looked at."),
                    "state": {"type": "string", "enum": list(STATES)},
                    "note": _text("Why, and what to do."),
                },
                ("requirement", "state"),
            ),
            "One for each requirement.",
        ),
    },
    ("id", "verdict", "findings"),
)
SEARCH: JsonObject = _object(
    {
        "query": _text("What was looked for."),
        "ranked": _list(
            _object({"id": _ID, "reason": _text("Why it fits, in one sentence.")}, ("id", "reason")),
            "The documents that fit, best first; empty if none does.",
        ),
    },
    ("query", "ranked"),
)
READ: JsonObject = _object({"id": _ID}, ("id",))
LIST: JsonObject = _object({}, ())
