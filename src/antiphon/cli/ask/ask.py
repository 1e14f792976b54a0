"""`antiphon ask`: one question, one answer."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import jsonschema_rs
import msgspec

from antiphon.cli.answers import Answer, print_notes, print_stream
from antiphon.cli.ask.question import make_input, read_question, read_schema, schema_format
from antiphon.cli.clients import open_client
from antiphon.cli.failure import INCOMPLETE, Failure, WrongUsage
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
from antiphon.cli.terminal import on_terminal, printable, spinner
from antiphon.errors import AntiphonError
from antiphon.protocol.content import JsonObject
from antiphon.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOptions(AskingOptions):
    question: str | None = None
    stream: bool | None = None
    machine: bool = False
    schema: Path | None = None
    image: tuple[str, ...] = ()
    system: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None

    @property
    def streams(self) -> bool:
        """Whether to print the answer as it arrives."""
        if self.machine or self.schema is not None:
            return False
        return on_terminal() if self.stream is None else self.stream

    def check(self) -> None:
        """Raise `WrongUsage` for options that exclude each other."""
        if self.stream and (self.machine or self.schema is not None):
            raise WrongUsage(
                "--stream cannot be combined with --json or --schema: they need the complete answer."
            )


@click.command("ask")
@click.argument("question", required=False)
@click.option(
    "--stream/--no-stream", default=None, help="Print the answer as it arrives.  [default: on a terminal]"
)
@click.option("--json", "machine", is_flag=True, help="Print the complete response object.")
@click.option(
    "--schema",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A JSON Schema: the answer is JSON that matches it, validated before it is printed.",
)
@click.option("--image", multiple=True, metavar="FILE|URL", help="An image for the model; may be repeated.")
@click.option("--system", metavar="TEXT", help="Instructions for the model.")
@click.option(
    "--max-output-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum length of the answer in tokens.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(0, 2),
    metavar="T",
    help="Sampling temperature: 0 is the most predictable.",
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
    """Ask a model one question.

    Without QUESTION, or when it is "-", the question is read from standard input.

    \b
    Examples:
      antiphon ask "What is the capital of France?"
      git diff | antiphon ask - --system "Write a commit message for this diff."
      antiphon ask "Name three rivers" --schema rivers.json
      antiphon ask "What is on this picture?" --image photo.jpg --model gemma3
      antiphon ask "Hello" --base-url http://127.0.0.1:8080/v1

    \b
    Exit codes:
      0 answered   1 failed   2 wrong usage or configuration
      3 the answer is incomplete (it is printed)   130 interrupted
    """
    options = AskOptions(**values)
    configure_logging(options.log_level or "warning")
    options.check()
    options = use_running_server(options)
    settings = None if options.base_url else options.load_to_answer()
    schema = read_schema(options.schema) if options.schema else None
    params = _params(options, schema)
    model = options.model if settings is None else prepare_model(settings, options.model)
    try:
        answer = asyncio.run(_ask(options, {**params, "model": model}, settings))
    except AntiphonError as error:
        if options.machine:
            click.echo(msgspec.json.encode({"error": error.to_wire()}))
        raise
    _print(answer, options, schema)
    print_notes(answer)
    if answer.failure:
        raise Failure(answer.failure)
    if answer.incomplete:
        click.get_current_context().exit(INCOMPLETE)


def _params(options: AskOptions, schema: JsonObject | None) -> JsonObject:
    return given(
        input=make_input(read_question(options.question), options.image),
        instructions=options.system,
        max_output_tokens=options.max_output_tokens,
        temperature=options.temperature,
        text=None if schema is None or options.schema is None else schema_format(schema, options.schema),
    )


async def _ask(options: AskOptions, params: JsonObject, settings: Settings | None) -> Answer:
    async with open_client(options.base_url, settings) as client:
        params["model"] = params["model"] or await client.default_model()
        if options.streams:
            return await print_stream(client.stream(params), params["model"])
        with spinner(f"waiting for {params['model']}"):
            return await client.create(params)


def _print(answer: Answer, options: AskOptions, schema: JsonObject | None) -> None:
    """Print the answer unless it was streamed."""
    if options.machine:
        click.echo(msgspec.json.format(msgspec.json.encode(answer.body), indent=2))
    if schema is not None and not answer.failure and not answer.incomplete:
        value = _validated(answer.text, schema)
        if not options.machine:
            click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
    elif not options.machine and not options.streams and answer.text:
        click.echo(printable(answer.text) if on_terminal() else answer.text)


def _validated(text: str, schema: JsonObject) -> object:
    """The answer as JSON; raises `Failure` unless it matches the schema."""
    try:
        value: object = msgspec.json.decode(text)
        jsonschema_rs.validate(schema, value)
    except (msgspec.DecodeError, jsonschema_rs.ValidationError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise Failure(f"The answer does not match the schema ({reason}): {text}") from None
    return value
