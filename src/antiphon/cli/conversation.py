"""A conversation as its client knows it: what to send next, and from where it goes on."""

from dataclasses import dataclass

from antiphon.cli.options import given
from antiphon.protocol.content import JsonObject


@dataclass(slots=True)
class Conversation:
    """Only answers that came to their end are part of it."""

    model: str
    system: str | None = None
    question: str | None = None
    """The last one that was asked."""
    _head: str | None = None
    _before: str | None = None

    def ask(self, question: str) -> JsonObject:
        """The parameters of the next turn."""
        self.question, self._before = question, self._head
        return given(
            model=self.model,
            input=question,
            instructions=self.system,  # not inherited from turn to turn, so it is sent with each
            previous_response_id=self._head,
        )

    def answered(self, response_id: str) -> None:
        """The turn came to its end; the next one follows it."""
        self._head = response_id

    def step_back(self) -> str | None:
        """Forget the last turn; returns its question, if there was one."""
        self._head = self._before
        return self.question

    def reset(self) -> None:
        """Begin anew, with the same model and instructions."""
        self.question = self._head = self._before = None
