"""The large frames of one tenant leave room for those of others, and start in turns."""

from antiphon.backends.scripted import ScriptedBackend
from antiphon.protocol.frames import CREATE, Frame
from antiphon.server.admission import CHEAP_BODY_BYTES
from antiphon.server.start_queue import StartQueue
from antiphon.server.websocket.connection import WebSocketLimits
from antiphon.server.websocket.stream import UNCHARGED_BYTES, HeldFrames
from antiphon.tenant_budget import TenantBudget
from antiphon.turn.chunks import Finished, TextDelta
from tests.server.websocket_client import World, id_of

ANSWER = [TextDelta("a"), Finished("stop")]


def test_a_tenant_may_use_half_of_the_budget_of_large_frames() -> None:
    budget = TenantBudget(100)
    assert budget.charge("a", 80)  # one frame may be larger
    assert not budget.charge("a", 1)
    assert budget.charge("b", 20)
    assert not budget.charge("c", 1)
    budget.release("a", 80)
    assert budget.charge("a", 30)
    assert budget.charge("a", 20)
    assert not budget.charge("a", 1)
    assert budget.charge("c", 30)


def test_the_frames_of_a_connection_count_for_its_tenant() -> None:
    budget = TenantBudget(3 * UNCHARGED_BYTES)
    frame = Frame(CREATE, None, None, b"x" * (UNCHARGED_BYTES + 1))
    first, second, other = (HeldFrames(budget, tenant) for tenant in ("a", "a", "b"))
    assert first.charge(frame)
    assert not second.charge(frame)
    assert other.charge(frame)
    first.release(frame)
    assert second.charge(frame)
    second.release_all()
    assert first.charge(frame)


class FullStartQueue(StartQueue):
    """A queue in which every request has to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[str] = []

    def start_now(self, tenant: str) -> bool:
        return False

    async def wait(self, tenant: str) -> None:
        self.waited.append(tenant)
        await super().wait(tenant)


async def test_turns_with_large_frames_start_in_turns() -> None:
    backend = ScriptedBackend(*[[ANSWER]] * 2)
    starts = FullStartQueue()
    async with World(backend, starts=starts).connect() as socket:
        id_of(await socket.respond(input="small"))
        assert starts.waited == []
        id_of(await socket.respond(input="x" * CHEAP_BODY_BYTES))
    assert starts.waited == ["tenant"]
    assert backend.turns[1].input_bytes > CHEAP_BODY_BYTES


async def test_the_responses_that_a_connection_remembers_are_freed_with_it() -> None:
    backend = ScriptedBackend(*[[ANSWER]] * 2)
    world = World(backend, limits=WebSocketLimits(history_bytes=20_000))
    for _ in range(2):
        async with world.connect() as socket:
            first = id_of(await socket.respond(input="x" * 15_000))
            id_of(await socket.respond(input="more", generate=False, previous_response_id=first))
