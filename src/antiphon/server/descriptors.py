"""The file descriptors of this process. Every connection of a client, an upstream or a database is one; at
the limit no connection can be accepted or opened."""

import asyncio
import logging
import os
import sys
from pathlib import Path

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None

logger = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
WARNING_SHARE = 0.8
"""The share of the limit above which a warning is logged."""
MAX_LIMIT = 1_048_576
_DESCRIPTORS = Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")


def raise_limit() -> None:
    """Raise the limit of this process to the highest that it may have. The usual default is 1024, which 500
    streams exhaust: each has a client and an upstream."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_LIMIT if hard == resource.RLIM_INFINITY else min(hard, MAX_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            logger.warning("the limit of file descriptors stays at %d: %s", soft, error)


def used_share() -> float:
    """The share of the limit that is in use; 0.0 if it is unknown."""
    if resource is None:
        return 0.0
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        return 0.0 if soft == resource.RLIM_INFINITY else len(os.listdir(_DESCRIPTORS)) / soft
    except OSError:
        return 0.0


async def watch_descriptors() -> None:
    """Log a warning whenever the descriptors become scarce."""
    scarce = False
    while True:
        share = used_share()
        if share > WARNING_SHARE and not scarce:
            logger.warning(
                "%.0f %% of the file descriptors are in use; at 100 %% connections fail. Raise the limit "
                "(`ulimit -n`, LimitNOFILE of systemd), or use more processes.",
                100 * share,
            )
        scarce = share > WARNING_SHARE
        await asyncio.sleep(CHECK_SECONDS)
