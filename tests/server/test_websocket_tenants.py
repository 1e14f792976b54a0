"""The large frames of one tenant leave room for those of others."""

from antiphon.protocol.frames import CREATE, Frame
from antiphon.server.websocket.stream import UNCHARGED_BYTES, FrameBudget, HeldFrames


def test_a_tenant_may_use_half_of_the_budget_of_large_frames() -> None:
    budget = FrameBudget(100)
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
    budget = FrameBudget(3 * UNCHARGED_BYTES)
    frame = Frame(CREATE, None, None, b"x" * (UNCHARGED_BYTES + 1))
    first, second, other = (HeldFrames(budget, tenant) for tenant in ("a", "a", "b"))
    assert first.charge(frame)
    assert not second.charge(frame)
    assert other.charge(frame)
    first.release(frame)
    assert second.charge(frame)
    second.release_all()
    assert first.charge(frame)
