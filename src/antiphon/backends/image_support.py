"""Whether a model takes images, as its server says. Sans-IO."""

from collections.abc import Mapping
from typing import cast

from antiphon.backends.features import Support
from antiphon.backends.model_reports import ANY, Tree, by_name, decode_report, listed_rows
from antiphon.backends.registry import ImageSource

NO_IMAGES = Support("unsupported", "its server says that this model takes no images")
REFUSED_IMAGES = Support("unsupported", "its server refused images for this model")
UNKNOWN_IMAGES = Support(
    "unsupported", "its server does not say whether this model takes images; they are sent, and it decides"
)


def read_images(source: ImageSource, body: bytes) -> Mapping[str, bool]:
    """Which models of a report take images; those that it does not say it of are missing."""
    report = decode_report(body)
    if source.form == "list":
        rows = listed_rows(report)
        return by_name(rows, [_takes_images(row, source) for row in rows])
    takes = _takes_images(report, source)
    return {} if takes is None else {ANY: takes}


def _takes_images(report: object, source: ImageSource) -> bool | None:
    for member in source.member.split("."):
        report = _member(report, member)
    if isinstance(report, bool):
        return report
    if isinstance(report, list):
        return source.word in report
    return report == source.word if isinstance(report, str) else None


def _member(report: object, name: str) -> object:
    return cast("Tree", report).get(name) if isinstance(report, dict) else None
