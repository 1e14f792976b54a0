"""Metadata: pairs that callers attach to what they store. The length of keys and values is in their type."""

from antiphon.errors import InvalidRequest
from antiphon.protocol.requests import Metadata

MAX_METADATA = 16


def check_metadata(metadata: Metadata | None) -> None:
    """Refuse more pairs than are taken."""
    if metadata is not None and len(metadata) > MAX_METADATA:
        message = f"'metadata' holds {len(metadata)} pairs; at most {MAX_METADATA} are taken."
        raise InvalidRequest(message, param="metadata", code="object_above_max_properties")
