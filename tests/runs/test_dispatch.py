"""One engine, several kinds of work: the prefix of an id decides."""

from antiphon.runs.base import Work
from antiphon.runs.dispatch import Dispatch


async def test_each_kind_of_work_is_done_by_whoever_registered_for_it() -> None:
    done: list[tuple[str, str, str]] = []

    def worker(name: str) -> Work:
        async def work(tenant: str, work_id: str) -> None:
            done.append((name, tenant, work_id))

        return work

    dispatch = Dispatch()
    dispatch.register("resp", worker("responses"))
    dispatch.register("run", worker("agents"))
    await dispatch("t", "run_resp_1")
    await dispatch("u", "resp_2")
    assert done == [("agents", "t", "run_resp_1"), ("responses", "u", "resp_2")]


async def test_a_kind_that_nobody_here_does_is_left_to_other_processes() -> None:
    await Dispatch()("t", "other_1")
