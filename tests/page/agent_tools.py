"""Tools of the agent in the browser tests."""

from antiphon.orchestrator import ServerTool

lines: list[str] = []


def write_line(text: str) -> str:
    """Append a line to the notes."""
    lines.append(text)
    return f"The notes have {len(lines)} lines."


def read_lines() -> str:
    """All lines of the notes."""
    return "\n".join(lines) or "The notes are empty."


TOOLS = [
    ServerTool.from_function(write_line),
    ServerTool.from_function(read_lines, side_effects=False),
]
