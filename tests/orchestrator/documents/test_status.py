"""The life cycle of a design document."""

import pytest

from antiphon.errors import InvalidRequest
from antiphon.orchestrator.documents.status import Status, check_change, check_first, read_status

STEPS = {
    (Status.PROPOSED, Status.ACCEPTED),
    (Status.PROPOSED, Status.REJECTED),
    (Status.ACCEPTED, Status.SUPERSEDED),
    (Status.REJECTED, Status.PROPOSED),
}


@pytest.mark.parametrize("new", Status)
@pytest.mark.parametrize("old", Status)
def test_only_the_steps_of_the_life_cycle_are_taken(old: Status, new: Status) -> None:
    if old is new or (old, new) in STEPS:
        check_change(old, new)
        return
    with pytest.raises(InvalidRequest) as caught:
        check_change(old, new)
    assert (caught.value.param, caught.value.code) == ("status", "invalid_status_change")
    assert all(step[1] in caught.value.message for step in STEPS if step[0] is old)


def test_a_superseded_document_remains_superseded() -> None:
    with pytest.raises(InvalidRequest, match="final: write a new document"):
        check_change(Status.SUPERSEDED, Status.PROPOSED)


@pytest.mark.parametrize("text", ["accepted", "ACCEPTED", " Accepted "])
def test_a_status_is_read_in_any_case(text: str) -> None:
    assert read_status(text) is Status.ACCEPTED


def test_an_unknown_status_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match="Proposed, Accepted, Rejected, Superseded") as caught:
        read_status("Draft")
    assert caught.value.param == "status"


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROPOSED])
def test_a_new_document_is_proposed(status: Status) -> None:
    check_first(Status.PROPOSED)
    with pytest.raises(InvalidRequest, match="starts as Proposed"):
        check_first(status)
