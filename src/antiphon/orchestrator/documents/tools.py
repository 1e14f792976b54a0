"""The tools with which a model works on design documents, bound to the modes for that."""

from typing import Literal

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.documents.document import DesignDocument
from antiphon.orchestrator.documents.entry import Entry
from antiphon.orchestrator.documents.library import Library
from antiphon.orchestrator.documents.naming import check_letters
from antiphon.orchestrator.documents.schemas import (
    DOCUMENT,
    LIST,
    READ,
    REVIEW,
    SEARCH,
    DocumentArguments,
    ReadArguments,
    ReviewArguments,
    SearchArguments,
)
from antiphon.orchestrator.models import FileBundleItem
from antiphon.orchestrator.tool import ToolResult
from antiphon.protocol.content import JsonObject
from antiphon.tools.declaration import Run, ServerTool

CREATION = "ddr_creation"
REVIEWING = "ddr_review"
SEARCHING = "ddr_search"
DOCUMENT_TOOL = "ddr_document"

_ALL_MODES = frozenset({CREATION, REVIEWING, SEARCHING})


def current_ddr_block(document_text: str) -> str:
    """The document to refine, as a block for the model."""
    return f"[CURRENT_DDR]\n{document_text}"


def ddr_tools(library: Library) -> list[ServerTool]:
    tools = _DocumentTools(library)
    return [
        document_tool(tools.write),
        ServerTool(
            name="ddr_review",
            description="Gives the result of the review of a design document. Changes nothing.",
            parameters=REVIEW,
            run=tools.review,
            usage=(
                "Call ddr_review once, at the end of a review: one finding for each requirement of the "
                "document, in its order, each Satisfied, PartiallySatisfied or NotSatisfied. Judge only what "
                "you have read; do not judge the decision itself."
            ),
            side_effects=False,
            modes=frozenset({REVIEWING}),
        ),
        ServerTool(
            name="ddr_search_result",
            description="Gives the design documents that answer a search, best first.",
            parameters=SEARCH,
            run=tools.rank,
            usage=(
                "Call ddr_search_result with the documents that fit the query, best first, each once and "
                "with the reason in one sentence. Name only ids that you were given; if none fits, give an "
                "empty list."
            ),
            side_effects=False,
            modes=frozenset({SEARCHING}),
        ),
        ServerTool(
            name="ddr_list",
            description="Lists all design documents with title, status and tags.",
            parameters=LIST,
            run=tools.list_all,
            usage="Call ddr_list to learn which design documents exist before you name one.",
            side_effects=False,
            modes=_ALL_MODES,
        ),
        ServerTool(
            name="ddr_read",
            description="Reads one design document, with its header.",
            parameters=READ,
            run=tools.read,
            usage="Call ddr_read before you judge or change a design document that you were not shown.",
            side_effects=False,
            modes=_ALL_MODES,
        ),
    ]


def document_tool(run: Run, *, final: Literal["server", "client"] = "server") -> ServerTool:
    """`ddr_document`, with the function that receives the model's document."""
    return ServerTool(
        name=DOCUMENT_TOOL,
        description=(
            "Writes a design document: a new one when no id is given, else a new version of that one, "
            "which a person looks at before it replaces the old one."
        ),
        parameters=DOCUMENT,
        run=run,
        usage=(
            "Answer only through ddr_document. Write the complete body in Markdown, without a header, in "
            "these sections: Objective, Context, Design/Approach, Risks/Open Questions, Testing Strategy, "
            "Notes/Rationale. Leave out the id for a new document, whose status is Proposed. When you change "
            "a document, give its id, keep what you were not asked to change, and do not change its status "
            "or the decision that it records unless you were asked to."
        ),
        final=final,
        side_effects=final == "server",
        modes=frozenset({CREATION, REVIEWING}),
    )


class _DocumentTools:
    def __init__(self, library: Library) -> None:
        self._library = library

    def write(self, call: DocumentArguments) -> ToolResult:
        """Create a document, or propose a new version of one."""
        named = call.id.strip()
        if "-" not in named:
            return self._create(call, named.upper() or self._library.usual_series())
        change = self._library.refine(named, call.draft())
        answer = {"id": change.entry.id, "path": change.entry.path, "created": False, "diff": change.diff}
        proposed = FileBundleItem(action="replace", path=change.entry.path, contents=change.text)
        return ToolResult(output=_output(answer, call), files=(proposed,) if change.diff else ())

    def review(self, call: ReviewArguments) -> str:
        return render_review(self._library.find(call.id).parsed(), call)

    def rank(self, call: SearchArguments) -> JsonObject:
        """The search result, with a description of each document."""
        entries = [self._library.find(ranked.id) for ranked in call.ranked]
        ids = [entry.id for entry in entries]
        if len(set(ids)) < len(ids):
            raise InvalidRequest("A document is in the list twice: list each one once.", param="ranked")
        results = [
            {**describe(entry), "reason": ranked.reason}
            for entry, ranked in zip(entries, call.ranked, strict=True)
        ]
        return {"query": call.query, "results": results}

    def list_all(self) -> JsonObject:
        return {"documents": [describe(entry) for entry in self._library.list()]}

    def read(self, call: ReadArguments) -> str:
        """The text of a document, damaged or not."""
        return self._library.find(call.id).text

    def _create(self, call: DocumentArguments, tla: str) -> ToolResult:
        entry = self._library.create(check_letters(tla), call.draft())
        return ToolResult(output=_output({"id": entry.id, "path": entry.path, "created": True}, call))


def _output(members: JsonObject, call: DocumentArguments) -> str:
    notes = {"notes": call.notes} if call.notes else {}
    return msgspec.json.encode({**members, **notes}).decode()


def describe(entry: Entry) -> JsonObject:
    """The description of a document in a list."""
    known: JsonObject = {"id": entry.id, "path": entry.path}
    document = entry.document
    if document is not None:
        known |= {"title": document.title, "status": document.status.value, "domain": document.domain}
        known |= {"owner": document.owner, "tags": document.tags}
    return {**known, "note": entry.note} if entry.note else known


def render_review(document: DesignDocument, review: ReviewArguments) -> str:
    """A review as Markdown: the verdict, then a row for each requirement."""
    satisfied = sum(finding.state == "Satisfied" for finding in review.findings)
    lines = [
        f"## Review of {document.id}: {document.title}",
        "",
        f"**Verdict:** {_cell(review.verdict)}",
        "",
        f"{satisfied} of {len(review.findings)} requirements are satisfied.",
    ]
    if review.findings:
        lines += ["", "| Requirement | State | Note |", "|---|---|---|"]
    for finding in review.findings:
        lines.append(f"| {_cell(finding.requirement)} | {finding.state} | {_cell(finding.note)} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text as a cell of a Markdown table."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
