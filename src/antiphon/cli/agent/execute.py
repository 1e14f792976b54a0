"""`antiphon execute`: one request to the agent."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

import click
import msgspec

from antiphon.caller import DEFAULT_TENANT
from antiphon.cli.agent.approvals import ask
from antiphon.cli.agent.bundle import FileChange, changes_of, print_diff, write_changes
from antiphon.cli.agent.inputs import read_active_files, read_images, read_json, read_results, read_tools
from antiphon.cli.agent.output import exit_with, print_notes, print_response_json, print_text
from antiphon.cli.agent.progress import ProgressPrinter, TextPrinter
from antiphon.cli.ask.question import read_question
from antiphon.cli.clients import open_agent_client
from antiphon.cli.failure import WrongUsage
from antiphon.cli.log import configure_logging
from antiphon.cli.models import prepare_model
from antiphon.cli.options import (
    CONFIG_OPTION,
    DISCOVERY_OPTION,
    LOG_OPTION,
    MODEL_OPTION,
    SERVER_OPTIONS,
    STORE_OPTION,
    UPSTREAM_OPTIONS,
    AskingOptions,
    given,
    with_options,
)
from antiphon.cli.running_server import use_running_server
from antiphon.cli.terminal import errors, on_terminal
from antiphon.orchestrator.casing import Case
from antiphon.orchestrator.file_tools import active_path
from antiphon.orchestrator.models import AgentExecuteRequest, AgentExecuteResponse, FileBundle
from antiphon.orchestrator.modes import EDITING_KEY
from antiphon.orchestrator.request_parser import parse_execute_request
from antiphon.protocol.content import JsonObject
from antiphon.settings import Settings
from antiphon.wiring.agent import open_agent
from antiphon.wiring.embeddings import open_embedders


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteOptions(AskingOptions):
    instruction: str | None = None
    mode: str | None = None
    system_prompt: str | None = None
    tools: tuple[Path, ...] = ()
    tool_results: Path | None = None
    continue_from: str | None = None
    file: tuple[Path, ...] = ()
    image: tuple[str, ...] = ()
    request: Path | None = None
    machine: bool = False
    case: Case = "camel"
    stream: bool | None = None
    write_files: bool = False
    yes: bool = False

    @property
    def streams(self) -> bool:
        """Whether to print the answer as it arrives."""
        if self.machine:
            return False
        return on_terminal() if self.stream is None else self.stream

    def check(self) -> None:
        """Raise `WrongUsage` for options that exclude each other."""
        if self.stream and self.machine:
            raise WrongUsage("--stream cannot be combined with --json, which needs the complete answer.")
        if self.yes and not self.write_files:
            raise WrongUsage("--yes has no effect without --write-files.")

    def load(self) -> Settings:
        """The settings. With --base-url, the model is the server's and is not loaded here."""
        return replace(self, model=None).load_to_ask() if self.base_url else self.load_to_answer()


@click.command("execute")
@click.argument("instruction", required=False)
@click.option("--mode", metavar="M", help="The mode of the agent; `antiphon agent modes` lists them.")
@click.option("--system-prompt", metavar="TEXT", help="Added after the agent's own system prompt.")
@click.option(
    "--tools",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="JSON: a client tool, or a list of them. Their calls are returned to you. May be repeated.",
)
@click.option(
    "--tool-results",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON: a list of results for the calls that were returned to you.",
)
@click.option("--continue-from", metavar="ID", help="Continue after this response.")
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="PATH",
    help="A file below this folder that the agent works on; may be repeated.",
)
@click.option("--image", multiple=True, metavar="FILE", help="An image for the model; may be repeated.")
@click.option(
    "--request",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The request as JSON, in any naming case; options override its fields.",
)
@click.option("--json", "machine", is_flag=True, help="Print the complete response as JSON.")
@click.option(
    "--case",
    type=click.Choice(get_args(Case)),
    default="camel",
    show_default=True,
    help="The naming case of --json.",
)
@click.option(
    "--stream/--no-stream", default=None, help="Print the text as it arrives.  [default: on a terminal]"
)
@click.option(
    "--write-files",
    is_flag=True,
    help="Write the file changes that the agent proposes, after confirmation. Default mode: code_edit.",
)
@click.option(
    "--yes",
    is_flag=True,
    help="With --write-files: do not ask. Files that the agent was not shown are not overwritten.",
)
@with_options(
    MODEL_OPTION,
    *SERVER_OPTIONS,
    CONFIG_OPTION,
    *UPSTREAM_OPTIONS,
    DISCOVERY_OPTION,
    STORE_OPTION,
    LOG_OPTION,
)
def command(**values: Any) -> None:
    """Send one request to the agent.

    The agent has the modes, tools and documents of the settings. Without INSTRUCTION, or if it is "-", the
    instruction is read from standard input; with --request or --tool-results it is optional.

    \b
    Examples:
      antiphon execute "Explain what this does" --file main.py
      antiphon execute "Fix the bug" --file main.py --write-files
      antiphon execute "Design the cache" --mode DDR_CREATION
      antiphon execute --continue-from resp_0194f3a6 --tool-results results.json
      antiphon execute --request request.json --json --case pascal

    \b
    Exit codes:
      0 answered   1 failed   2 wrong usage or configuration
      3 the answer is incomplete (it is printed)   130 interrupted
    """
    options = ExecuteOptions(**values)
    configure_logging(options.log_level or "warning")
    options.check()
    options = use_running_server(options)
    settings = options.load()
    request = parse_execute_request(msgspec.json.encode(_body(options)))
    if options.base_url is None:
        model = prepare_model(settings, options.model or settings.agent.model or None)
    else:
        model = options.model or settings.agent.model
    response = asyncio.run(_execute(options, request, settings, model or ""))
    if options.machine:
        print_response_json(response, options.case)
    elif not options.streams:
        print_text(response)
    print_notes(response)
    if options.write_files and response.file_bundle is not None:
        _write_files(response.file_bundle, request, options)
    exit_with(response)


def _body(options: ExecuteOptions) -> JsonObject:
    """The request as JSON."""
    body = _read_request(options.request) if options.request else {}
    optional = options.instruction is None and (options.request or options.tool_results)
    return {
        **body,
        **given(
            instruction=None if optional else read_question(options.instruction),
            mode=options.mode or (EDITING_KEY if options.write_files and not body else None),
            system_prompt=options.system_prompt,
            response_continuation_id=options.continue_from,
            tools_json=read_tools(options.tools, "--tools") or None,
            tool_results_json=read_results(options.tool_results, "--tool-results")
            if options.tool_results
            else None,
            active_files=read_active_files(options.file, Path.cwd(), "--file") or None,
            image_attachments=read_images(options.image) or None,
            streaming=options.streams or None,
        ),
    }


def _read_request(path: Path) -> JsonObject:
    found = read_json(path, "--request")
    if not isinstance(found, dict):
        raise WrongUsage(f"--request: '{path}' must contain a JSON object.")
    return cast("JsonObject", found)


async def _execute(
    options: ExecuteOptions, request: AgentExecuteRequest, settings: Settings, model: str
) -> AgentExecuteResponse:
    chosen = msgspec.structs.replace(settings.agent, model=model)
    printer = TextPrinter() if options.streams else ProgressPrinter()
    try:
        async with (
            open_embedders(settings) as embedders,
            open_agent(chosen, embedders) as agent,
            open_agent_client(options.base_url, settings) as client,
        ):
            agent.check(request, DEFAULT_TENANT)
            response = await agent.execute(request, client, tell=printer.emit, tenant=DEFAULT_TENANT)
            while response.approvals and not options.machine and _all_ours(response):
                printer.close()
                request = await asyncio.to_thread(ask, response, request)
                response = await agent.execute(request, client, tell=printer.emit, tenant=DEFAULT_TENANT)
            return response
    finally:
        printer.close()


def _all_ours(response: AgentExecuteResponse) -> bool:
    """Whether approvals are all that the response waits for."""
    return all(call.is_server_tool for call in response.tool_calls)


def _write_files(bundle: FileBundle, request: AgentExecuteRequest, options: ExecuteOptions) -> None:
    shown = {active_path(file): file.contents for file in request.active_files}
    changes = changes_of(bundle, Path.cwd(), shown)
    print_diff(changes)
    if not changes:
        return
    if options.yes:
        _check_seen(changes)
    else:
        click.confirm("Write these changes?", abort=True, err=True)
    write_changes(changes)
    what = "1 file" if len(changes) == 1 else f"{len(changes)} files"
    errors().print(f"Changed {what}.", style="dim", soft_wrap=True)


def _check_seen(changes: Sequence[FileChange]) -> None:
    """Raise `WrongUsage` for a file that neither the agent nor a person has seen."""
    if unseen := [change.name for change in changes if change.unseen]:
        raise WrongUsage(
            f"The agent would overwrite files that it was not shown: {', '.join(unseen)}. "
            "Nothing was written. Add them with --file, or omit --yes to confirm the changes yourself."
        )
