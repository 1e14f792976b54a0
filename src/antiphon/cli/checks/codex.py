"""The codex backend: is the program there, does it answer, and is it logged in?"""

from antiphon.backends.codex_app_server.backend import CodexBackend
from antiphon.cli.checks.base import Check, failed, passed
from antiphon.errors import AntiphonError, BackendRefused
from antiphon.settings import Settings
from antiphon.wiring.codex import make_codex_backend


async def check_codex(settings: Settings) -> Check:
    """Start it, and ask it for its models and its login."""
    backend = make_codex_backend(settings)
    try:
        models = await backend.models()
        login = await _login(backend)
    except AntiphonError as error:
        return failed("codex", error.message, "See docs/codex-backend.md, or set codex.enabled to false.")
    finally:
        await backend.aclose()
    found = f"`{settings.codex.command} app-server` answers; it knows {len(models)} models"
    if login is None:
        advice = "Run `codex login` with the same CODEX_HOME, or give codex a model provider with a key."
        return failed("codex", f"{found}, but it is not logged in", advice)
    return passed("codex", f"{found}; {login}")


async def _login(backend: CodexBackend) -> str | None:
    """What is known of its login; None: there is none, and it needs one."""
    try:
        state = await backend.account()
    except BackendRefused:
        return "its login was not tested"
    if state.account is not None:
        return f"it is logged in ({state.account.type}), which was not tested with a turn"
    return None if state.requires_openai_auth else "the key of its model provider was not tested"
