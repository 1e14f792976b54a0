"""How much one request to the agent may take."""

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds of a request. Sizes are in characters, times in seconds."""

    max_turns: int = 8
    """Turns; a mode may say otherwise."""
    max_output_tokens: int | None = None
    """Tokens of one turn's answer; None: as many as the model likes."""
    tool_deadline: float = 60.0
    """For a tool that does not say otherwise."""
    max_tool_output: int = 100_000
    """What a tool says beyond is cut off."""
    max_context: int = 60_000
    """For the chunks of the `[CONTEXT]` block, and again for the `[ACTIVE FILES]` block."""
    chunks: int = 8
    """Most chunks that are retrieved."""
