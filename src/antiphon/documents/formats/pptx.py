"""PPTX files: a section for each slide, with its title, texts and tables, and the notes of the speaker."""

import io
from collections.abc import Iterable, Iterator
from typing import Any

from antiphon.documents.document import MAX_TEXT_CHARS, Document, SectionList
from antiphon.documents.tables import markdown_table

MAX_GROUP_DEPTH = 20


def read_pptx(data: bytes, name: str) -> Document:
    """All slides, hidden ones too."""
    import pptx  # noqa: PLC0415 -- optional: the [documents] extra

    found = SectionList("presentation")
    for number, slide in enumerate(pptx.Presentation(io.BytesIO(data)).slides, 1):
        if found.is_full:
            found.omit(f"the slides after {number - 1} are left out")
            break
        found.add("\n\n".join(_texts(slide)), f"slide {number}", "slide")
    return found.document("pptx")


def _texts(slide: Any) -> Iterator[str]:
    title = slide.shapes.title
    if title is not None and title.text_frame.text.strip():
        yield f"# {' '.join(title.text_frame.text.split())}"
    for shape in _flat(slide.shapes, 0):
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if getattr(shape, "has_table", False):
            rows = ([cell.text for cell in row.cells] for row in shape.table.rows)
            yield markdown_table(rows, MAX_TEXT_CHARS)
        elif shape.has_text_frame and (text := _text(shape.text_frame)):
            yield text
    if slide.has_notes_slide:
        frame = slide.notes_slide.notes_text_frame
        if frame is not None and (notes := frame.text.strip()):
            yield f"Notes: {notes}"


def _flat(shapes: Iterable[Any], depth: int) -> Iterator[Any]:
    """The shapes, and those of groups."""
    for shape in shapes:
        if hasattr(shape, "shapes") and depth < MAX_GROUP_DEPTH:
            yield from _flat(shape.shapes, depth + 1)
        else:
            yield shape


def _text(frame: Any) -> str:
    """The paragraphs; indented ones as lists."""
    lines = [(paragraph.level, paragraph.text.replace("\v", "\n").strip()) for paragraph in frame.paragraphs]
    return "\n".join(f"{'  ' * (level - 1)}- {text}" if level else text for level, text in lines if text)
