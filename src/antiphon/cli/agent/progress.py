"""Prints the events of an agent as they happen: text on standard output, the rest on standard error."""

from contextlib import ExitStack

from antiphon.cli.model_text import text_writer
from antiphon.cli.terminal import errors, output, printable, shorten, spinner
from antiphon.orchestrator.events import (
    AgentCancelled,
    AgentCompleted,
    AgentEvent,
    AgentFailed,
    AgentStarted,
    AgentWaiting,
    AgentWarned,
    ApprovalAnswered,
    HostedCompleted,
    HostedStarted,
    TextDelta,
    ToolCompleted,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from antiphon.orchestrator.models import HostedCallRecord


class ProgressPrinter:
    """Prints the steps of the agent on standard error, and a spinner while the model or a tool works."""

    def __init__(self) -> None:
        self._errors = errors()
        self._model = "the model"
        self._waiting = ExitStack()

    async def emit(self, event: AgentEvent) -> None:
        """Print an event; the callback of `Agent.execute`."""
        self.print(event)

    def print(self, event: AgentEvent) -> None:
        match event:
            case AgentStarted():
                self._model = event.model
                for message in event.warnings:
                    self._print_line(f"Warning: {message}", "yellow")
            case TurnStarted():
                self._wait(f"waiting for {self._model}")
            case ToolStarted():
                self._wait(f"running {event.name}")
                self._print_line(f"→ {event.name} {shorten(event.arguments_json)}", "dim")
            case ToolCompleted():
                self._print_line(*_outcome(event))
            case TextDelta() | HostedStarted() | HostedCompleted() | AgentWaiting() | ApprovalAnswered():
                self._print_more(event)
            case AgentWarned():
                self._print_line(f"Warning: {event.message}", "yellow")
            case TurnCompleted():
                self.close()
            case AgentCompleted() | AgentFailed() | AgentCancelled():
                self.close()

    def _print_more(
        self, event: TextDelta | HostedStarted | HostedCompleted | AgentWaiting | ApprovalAnswered
    ) -> None:
        match event:
            case TextDelta():
                pass
            case HostedStarted():
                self._wait(f"running {event.call.name}")
                self._print_line(f"→ {hosted_line(event.call)}", "dim")
            case HostedCompleted():
                mark, style = ("✗", "yellow") if event.call.status == "failed" else ("✓", "dim")
                self._print_line(f"{mark} {event.call.name}", style)
            case AgentWaiting():
                self.close()
                for request in event.approvals:
                    self._print_line(f"? {request.name} waits for an approval ({request.id})", "yellow")
            case ApprovalAnswered():
                word = "approved" if event.answer.approve else "rejected"
                self._print_line(f"{word}: {event.answer.id}", "dim")

    def close(self) -> None:
        """Stop the spinner."""
        self._waiting.close()

    def _wait(self, what: str) -> None:
        self._waiting.close()
        self._waiting.enter_context(spinner(what))

    def _print_line(self, line: str, style: str) -> None:
        self._errors.print(printable(line), style=style, markup=False, soft_wrap=True)


class TextPrinter(ProgressPrinter):
    """Prints the text as well: as it arrives, or turn by turn if it is not streamed."""

    def __init__(self) -> None:
        super().__init__()
        self._text = text_writer(output())
        self._streamed_turn = 0

    def print(self, event: AgentEvent) -> None:
        if isinstance(event, TextDelta):
            self._streamed_turn = event.turn
            self._write(event.delta)
            return
        self._text.end()
        super().print(event)
        if isinstance(event, TurnCompleted) and event.turn != self._streamed_turn and event.response.text:
            self._write(event.response.text)
            self._text.end()

    def close(self) -> None:
        """Stop the spinner and end the current line."""
        super().close()
        self._text.end()

    def _write(self, text: str) -> None:
        self._waiting.close()
        self._text.write(text)


def hosted_line(call: HostedCallRecord) -> str:
    """The name and the arguments of a call of a hosted tool, on one line."""
    name = f"{call.server_label}.{call.name}" if call.server_label else call.name
    return f"{name} {shorten(call.arguments_json or '')}"


def _outcome(event: ToolCompleted) -> tuple[str, str]:
    if event.outcome == "handed":
        return f"↩ {event.name}", "dim"
    if event.outcome == "ok":
        return f"✓ {event.name} ({event.elapsed_ms} ms)", "dim"
    return f"✗ {event.name} ({event.outcome}): {shorten(event.output)}", "yellow"
