"""Answers to approval requests: the commands for runs, and the question on the terminal."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from antiphon.cli.agent.running import ID_ARGUMENT, RUN_OPTIONS, AgentOptions, note
from antiphon.cli.agent.runs import RunApproval
from antiphon.cli.failure import Failure, WrongUsage
from antiphon.cli.options import JSON_OPTION
from antiphon.cli.terminal import errors, output, print_json, printable
from antiphon.orchestrator.models import (
    AgentExecuteRequest,
    AgentExecuteResponse,
    ApprovalAnswer,
    ApprovalRequest,
)
from antiphon.store.agent_runs import AgentRun


@click.command("approvals", short_help="List the calls that wait for an approval.")
@JSON_OPTION
@RUN_OPTIONS
def list_approvals(machine: bool, **options: Any) -> None:
    """List the calls of runs that wait for an approval, with their exact arguments.

    \b
    Examples:
      antiphon agent approvals
      antiphon agent approvals --base-url http://127.0.0.1:8080 --json
    """
    found = asyncio.run(_approvals(AgentOptions(**options)))
    if machine:
        print_json([{"run_id": each.run_id, **msgspec.to_builtins(each.request)} for each in found])
        return
    for each in found:
        click.echo(f"{each.run_id}  {printable(describe(each.request))}")
    if not found:
        output().print("Nothing waits for an approval.", style="dim")


@click.command("approve", short_help="Approve or reject the calls that a run waits for.")
@ID_ARGUMENT
@click.option("--reject", is_flag=True, help="Reject instead of approving.")
@click.option("--reason", metavar="TEXT", help="With --reject: the reason for the model.")
@click.option("--call", "call_id", metavar="CALL", help="Answer this request only.  [default: all]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@RUN_OPTIONS
def approve_run(
    run_id: str, reject: bool, reason: str | None, call_id: str | None, yes: bool, **options: Any
) -> None:
    """Approve the calls that the run ID waits for. They are shown, and confirmed on the terminal.

    A server on the same store continues the run; without one, `antiphon agent resume ID` does.

    \b
    Examples:
      antiphon agent approve run_0194f3a6c1b8
      antiphon agent approve run_0194f3a6c1b8 --reject --reason "Not on Fridays."

    \b
    Exit codes:
      0 answered   1 the run waits for nothing
      2 wrong usage or configuration, an unknown or answered request, or nobody could confirm
    """
    if reason is not None and not reject:
        raise WrongUsage("--reason needs --reject.")
    chosen = AgentOptions(**options)
    waiting = [
        each.request
        for each in asyncio.run(_approvals(chosen))
        if each.run_id == run_id and call_id in (None, each.request.id)
    ]
    for request in waiting:
        note(describe(request))
    if not reject and not yes and waiting:
        _check_terminal("--yes confirms without a question.")
        click.confirm("Approve?", abort=True, err=True)
    ids = [request.id for request in waiting] or [call_id]
    answers = [ApprovalAnswer(id=each, approve=not reject, reason=reason) for each in ids if each]
    run = asyncio.run(_answer(chosen, run_id, answers))
    click.echo(f"{run.id} is {run.status.replace('_', ' ')}.")


def describe(request: ApprovalRequest) -> str:
    """A request with the exact arguments of its call."""
    name = f"{request.server_label}.{request.name}" if request.server_label else request.name
    return f"{request.id}  {name} {request.arguments}"


def ask(response: AgentExecuteResponse, request: AgentExecuteRequest) -> AgentExecuteRequest:
    """Ask on the terminal about the calls that a response waits for; the request that continues it."""
    _check_terminal(
        f"The response waits for the approval of: {'; '.join(map(describe, response.approvals))}. "
        "Continue it with a request that has 'approvals'."
    )
    answers: list[ApprovalAnswer] = []
    for each in response.approvals:
        errors().print(printable(describe(each)), markup=False, soft_wrap=True)
        answers.append(ApprovalAnswer(id=each.id, approve=click.confirm("Run this call?", err=True)))
    return AgentExecuteRequest(
        response_continuation_id=response.response_continuation_id,
        approvals=tuple(answers),
        mode=response.mode,
        streaming=request.streaming,
    )


def _check_terminal(remedy: str) -> None:
    """Raise `WrongUsage` if there is nobody to ask."""
    if not sys.stdin.isatty():
        raise WrongUsage(f"A call needs an approval, but standard input is not a terminal. {remedy}")


async def _approvals(options: AgentOptions) -> Sequence[RunApproval]:
    async with options.open_runs() as runs:
        return await runs.approvals()


async def _answer(options: AgentOptions, run_id: str, answers: Sequence[ApprovalAnswer]) -> AgentRun:
    async with options.open_runs() as runs:
        run = (await runs.show(run_id)).run
        if not answers:
            raise Failure(f"The run '{run_id}' is {run.status.replace('_', ' ')} and waits for no approval.")
        for answer in answers:
            run = await runs.answer(run_id, answer)
        return run
