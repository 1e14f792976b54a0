"""Notices clients that do not read what is sent to them."""

SEND_TIMEOUT_SECONDS = 60.0
"""A client that reads nothing of what is buffered for it within this time is disconnected."""
CLOSE_TIMEOUT_SECONDS = 5.0
"""The same on a connection that is being closed."""
CHECK_SECONDS = 5.0
"""Between two checks of the times of a connection, by one timer each."""


class SendWatch:
    """How long a client has read nothing, as of the last check."""

    __slots__ = ("_progress", "_since")

    def __init__(self, now: float) -> None:
        self._progress = 0
        self._since = now

    def stalled_seconds(self, unsent: int, progress: int, now: float) -> float:
        """For how long `progress` is the same while there are unsent bytes."""
        if not unsent or progress != self._progress:
            self._progress, self._since = progress, now
        return now - self._since
