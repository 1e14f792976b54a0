"""A review as people read it."""

from antiphon.orchestrator.documents.document import DesignDocument
from antiphon.orchestrator.documents.schemas import ReviewArguments


def render_review(document: DesignDocument, review: ReviewArguments) -> str:
    """The review as Markdown: the verdict, then a row for each requirement."""
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
    """One line that a table takes."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
