"""Containers: sandboxes with an id, an owner and a time to live."""
