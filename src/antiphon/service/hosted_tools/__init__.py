"""Hosted tools that this server runs, one file each. `base.py` has the port, `calls.py` runs calls."""
