"""The codex backend: is the program there, and does it answer?"""

from antiphon.cli.checks.base import Check, failed, passed
from antiphon.errors import AntiphonError
from antiphon.settings import Settings
from antiphon.wiring.codex import make_codex_backend


async def check_codex(settings: Settings) -> Check:
    """Start it, and ask it for its models."""
    backend = make_codex_backend(settings)
    try:
        models = await backend.models()
    except AntiphonError as error:
        return failed("codex", error.message, "See docs/codex-backend.md, or set codex.enabled to false.")
    finally:
        await backend.aclose()
    return passed("codex", f"`{settings.codex.command} app-server` answers; it knows {len(models)} models")
