"""The port between what is done in the background and the engine that has it done.

The engine sees to it that `Work` is done for everything that was submitted, at least once, whatever crashes:
a response, or the run of an agent (`dispatch.py`). How far it has come is in the store: a second start goes
on from there. To the engine, both are an id.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

Work = Callable[[str, str], Coroutine[Any, Any, None]]
"""Makes the response of a tenant, or does a run of an agent: `await work(tenant, response_id)`. Cancelling it
stops the model, or the tool.

When it returns, there is nothing more to do here: the response has ended, or somebody else makes it. When it
raises, it is called again, after ever longer pauses; a response that fails again and again is ended by it.
"""


class Engine(Protocol):
    """Runs work durably. It starts when it is first needed."""

    @property
    def owner(self) -> str:
        """The name of this process among all that share the store, different at every start."""
        ...

    async def submit(self, tenant: str, response_id: str) -> None:
        """Have a response made, here or elsewhere. Doing it again for the same response is harmless:
        if its run is under way here, nothing happens; if it was left behind, it is taken up again."""
        ...

    async def stop(self, tenant: str, response_id: str) -> None:
        """Stop work on a response, if it is done in this process; its upstream is let go at once."""
        ...

    async def aclose(self) -> None:
        """Stop everything that is under way here; it goes on at the next start, or elsewhere."""
        ...
