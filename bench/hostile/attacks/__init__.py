"""All attacks; importing this package registers them."""

from bench.hostile.attacks import (
    bodies,
    files,
    histories,
    http_edge,
    schemas,
    slow_readers,
    tenants,
    websockets,
)
from bench.hostile.registry import ATTACKS

__all__ = [
    "ATTACKS",
    "bodies",
    "files",
    "histories",
    "http_edge",
    "schemas",
    "slow_readers",
    "tenants",
    "websockets",
]
