"""The check of the hosted tools that a server would run."""

from antiphon.cli.startup.check import Check, passed
from antiphon.settings import Settings
from antiphon.wiring.sandbox import sandbox_limits, working_sandbox


async def check_hosted_tools(settings: Settings) -> Check:
    """Which tools are served, and by what; a sandbox is started for it."""
    search = settings.web_search.kind
    found = [
        await _code(settings),
        f"web_search: {search or 'no engine is configured'}",
        f"mcp: {', '.join(settings.mcp.servers) or 'no server is configured'}",
    ]
    return passed("tools", "\n".join(found))


async def _code(settings: Settings) -> str:
    options = settings.interpreter
    if options.sandbox == "off" or settings.store.url == "none":
        return "code_interpreter: off"
    sandbox = await working_sandbox(options, sandbox_limits(options))
    if isinstance(sandbox, str):
        return f"code_interpreter: not served, because {sandbox}"
    tools = "code_interpreter, shell" if sandbox.has_shell else "code_interpreter"
    return f"{tools}: {type(sandbox).__name__.lower()}"
