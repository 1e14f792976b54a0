"""The sandbox of containers: bubblewrap where it works, Monty where it does not."""

import logging

from antiphon.extras import install_command
from antiphon.sandbox.bubblewrap import find_bubblewrap
from antiphon.sandbox.port import MIB, Sandbox, SandboxEnded, SandboxLimits
from antiphon.settings.hosted_tools import InterpreterSettings

logger = logging.getLogger(__name__)


def sandbox_limits(options: InterpreterSettings) -> SandboxLimits:
    """The limits of each sandbox."""
    return SandboxLimits(
        memory_bytes=options.memory_mb * MIB,
        disk_bytes=options.disk_mb * MIB,
        processes=options.processes,
        cores=options.cores,
        run_seconds=options.run_seconds,
        output_bytes=options.output_kb * 1024,
    )


async def working_sandbox(options: InterpreterSettings, limits: SandboxLimits) -> Sandbox | str:
    """The first sandbox of which a session starts; otherwise the reason why there is none."""
    reasons: list[str] = []
    for kind in ("bubblewrap", "monty"):
        if options.sandbox not in ("auto", kind):
            continue
        found = find_bubblewrap(options.python or None) if kind == "bubblewrap" else _find_monty()
        if isinstance(found, str):
            reasons.append(found)
            continue
        try:
            await (await found.start(limits)).close()
        except SandboxEnded as error:
            logger.warning("%s does not work: %s", kind, error)
            reasons.append(str(error))
        else:
            return found
    return "; ".join(reasons)


def _find_monty() -> Sandbox | str:
    try:
        from antiphon.sandbox.monty import Monty  # noqa: PLC0415 -- it needs an optional package
    except ImportError:
        return f"Monty is not installed: {install_command('interpreter')}"
    return Monty()
