"""Prints what an agent does while it does it: text on standard output, everything else beside it."""

from contextlib import ExitStack

from antiphon.cli.terminal import at_work, errors, harmless, output
from antiphon.orchestrator.events import (
    AgentCancelled,
    AgentCompleted,
    AgentEvent,
    AgentFailed,
    AgentStarted,
    AgentWarned,
    TextDelta,
    ToolCompleted,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)

WIDTH = 100
"""Characters of arguments and outputs that a line shows."""


class ProgressPrinter:
    """Says on standard error what the agent does. While the model is silent, that it is at work."""

    def __init__(self) -> None:
        self._errors = errors()
        self._model = "the model"
        self._waiting = ExitStack()

    async def tell(self, event: AgentEvent) -> None:
        """What `execute` calls."""
        self.take(event)

    def take(self, event: AgentEvent) -> None:
        """Print an event."""
        match event:
            case AgentStarted():
                self._model = event.model
                for message in event.warnings:
                    self._say(f"Warning: {message}", "yellow")
            case TurnStarted():
                self._wait(f"waiting for {self._model}")
            case ToolStarted():
                self._wait(f"running {event.name}")
                self._say(f"→ {event.name} {shorten(event.arguments_json)}", "dim")
            case ToolCompleted():
                self._say(*_outcome(event))
            case AgentWarned():
                self._say(f"Warning: {event.message}", "yellow")
            case TurnCompleted():
                self.close()
            case TextDelta():
                pass
            case AgentCompleted() | AgentFailed() | AgentCancelled():
                self.close()

    def close(self) -> None:
        """Nothing is under way any more."""
        self._waiting.close()

    def _wait(self, what: str) -> None:
        self._waiting.close()
        self._waiting.enter_context(at_work(what))

    def _say(self, line: str, style: str) -> None:
        self._errors.print(harmless(line), style=style, markup=False, soft_wrap=True)


class SpeakingPrinter(ProgressPrinter):
    """Prints the text as well: as it comes, or turn by turn if it comes whole."""

    def __init__(self) -> None:
        super().__init__()
        self._out = output()
        self._at_line_start = True
        self._heard_turn = 0

    def take(self, event: AgentEvent) -> None:
        """Print an event."""
        if isinstance(event, TextDelta):
            self._heard_turn = event.turn
            self._write(event.delta)
            return
        self._end_line()
        super().take(event)
        if isinstance(event, TurnCompleted) and event.turn != self._heard_turn and event.response.text:
            self._write(event.response.text)
            self._end_line()

    def close(self) -> None:
        """Whatever was printed, the next line is a fresh one."""
        super().close()
        self._end_line()

    def _write(self, text: str) -> None:
        self._waiting.close()
        if self._out.is_terminal:
            text = harmless(text)
        if text:
            self._out.out(text, end="", highlight=False)
            self._at_line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._out.out("", highlight=False)
            self._at_line_start = True


def shorten(text: str, width: int = WIDTH) -> str:
    """The text in one line of this width."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _outcome(event: ToolCompleted) -> tuple[str, str]:
    if event.outcome == "handed":
        return f"↩ {event.name}", "dim"
    if event.outcome == "ok":
        return f"✓ {event.name} ({event.elapsed_ms} ms)", "dim"
    return f"✗ {event.name} ({event.outcome}): {shorten(event.output)}", "yellow"
