"""Every fault is found by its checks and by no other; every check finds a fault."""

from collections.abc import Iterable

import pytest

from antiphon.conformance.checks import CHECKS
from antiphon.conformance.probe import Check
from antiphon.conformance.results import Report
from antiphon.conformance.run import run
from antiphon.conformance.target import Target
from tests.conformance_checker.answer_faults import ANSWER_FAULTS
from tests.conformance_checker.faulty import Fault, FaultyProxy, ProxiedAnswer, ProxiedRequest
from tests.conformance_checker.obedient import MODEL
from tests.conformance_checker.stream_faults import STREAM_FAULTS, padded

GROUPS = ("order", "numbering", "framing", "ids")
STREAMS = [check for check in CHECKS if check.group in GROUPS or check.id == "fold.stream"]


async def check_server(url: str, checks: Iterable[Check], seconds: float = 10) -> Report:
    target = Target(url, model=MODEL, timeout=seconds)
    try:
        return await run(target, checks)
    finally:
        target.close()


def failed(report: Report) -> dict[str, str]:
    return {result.id: result.why for result in report.checks if result.verdict == "fail"}


@pytest.mark.parametrize("fault", STREAM_FAULTS, ids=lambda fault: fault.name)
async def test_a_fault_in_streams_is_found(fault: Fault, faulty: tuple[FaultyProxy, str]) -> None:
    proxy, url = faulty
    proxy.fault = fault
    assert set(failed(await check_server(url, STREAMS))) == fault.found_by


@pytest.mark.parametrize("fault", ANSWER_FAULTS, ids=lambda fault: fault.name)
async def test_any_other_fault_is_found(fault: Fault, faulty: tuple[FaultyProxy, str]) -> None:
    proxy, url = faulty
    proxy.fault = fault
    groups = {check.partition(".")[0] for check in fault.found_by}
    report = await check_server(url, [check for check in CHECKS if check.group in groups])
    assert set(failed(report)) == fault.found_by


async def test_changing_padding_is_no_fault(faulty: tuple[FaultyProxy, str]) -> None:
    proxy, url = faulty
    proxy.fault = Fault("padding", frozenset(), reply=padded())
    report = await check_server(url, [check for check in CHECKS if check.id == "background.resume"])
    assert [result.verdict for result in report.checks] == ["pass"]


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429])
async def test_only_a_rejection_of_the_request_means_unsupported(
    status: int, faulty: tuple[FaultyProxy, str]
) -> None:
    proxy, url = faulty

    def refuse(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
        reply.status = status if sent.path == "responses" else reply.status

    proxy.fault = Fault("refuses", frozenset(), reply=refuse)
    groups = ("order", "structured", "background")
    report = await check_server(url, [check for check in CHECKS if check.group in groups])
    assert {result.verdict for result in report.checks} == {"fail"}


async def test_unsupported_features_are_skipped(faulty: tuple[FaultyProxy, str]) -> None:
    proxy, url = faulty

    def refuse(sent: ProxiedRequest, reply: ProxiedAnswer) -> None:
        reply.status = 400 if sent.has("background") or sent.path == "responses/compact" else reply.status

    proxy.fault = Fault("refuses", frozenset(), reply=refuse)
    report = await check_server(url, [check for check in CHECKS if check.group in ("background", "compact")])
    assert {result.verdict for result in report.checks} == {"skip"}


def test_every_check_finds_a_fault() -> None:
    found = {check for fault in (*STREAM_FAULTS, *ANSWER_FAULTS) for check in fault.found_by}
    assert {check.id for check in CHECKS} - found == {"errors.key"}, "that one wants a server with keys"
