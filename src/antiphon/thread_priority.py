"""The priority of threads that work beside an event loop."""

import os
import sys

NICENESS = 5
"""Of such a thread, beyond that of the process: if both want to run, the event loop gets three quarters."""


def let_event_loop_go_first() -> None:
    """Lower the priority of the calling thread, on Linux: elsewhere it is that of the process."""
    if sys.platform == "linux":
        os.nice(NICENESS)
