"""`RepeatedCalls`: finds a model that repeats a hosted call instead of answering. Sans-IO."""

from antiphon.service.hosted_tools.base import HostedFunction
from antiphon.tools.repeat_guard import RepeatGuard, signature
from antiphon.turn.hosted_calls import HostedCall


class RepeatedCalls:
    """Counts the calls of one attempt at a response.

    A search, or a call of a read-only MCP tool, counts until a call changes something: then its result may
    differ. Calls of other MCP tools count as long as no others are made in between: to press the same button
    after a look at the page is no repetition. Code, commands and images do not count: they may be repeated to
    get another result.
    """

    def __init__(self) -> None:
        self._guard = RepeatGuard()
        self._last = ""

    def admit(self, call: HostedCall, function: HostedFunction) -> bool:
        """Count a call that is about to run; False: it is not to be run."""
        made = signature(call.key, call.arguments)
        if not function.repeatable and made != self._last:
            self._guard = RepeatGuard()
        self._last = made
        if not function.repeatable and not function.form.server_label:
            return True
        if self._guard.judge(call.key, call.arguments) == "suppressed":
            return False
        self._guard.note(call.key, call.arguments)
        return True
