"""Design documents (DDRs, after AGN-001): Markdown files with a number, a header and a life cycle."""

from antiphon.orchestrator.documents.document import SECTIONS, DesignDocument, blank_body, parse
from antiphon.orchestrator.documents.entry import Change, Draft, Entry
from antiphon.orchestrator.documents.library import Hit, Library
from antiphon.orchestrator.documents.status import Status, read_status
from antiphon.orchestrator.documents.tools import current_ddr_block, ddr_tools

__all__ = [
    "SECTIONS",
    "Change",
    "DesignDocument",
    "Draft",
    "Entry",
    "Hit",
    "Library",
    "Status",
    "blank_body",
    "current_ddr_block",
    "ddr_tools",
    "parse",
    "read_status",
]
