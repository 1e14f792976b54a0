"""Stages between a backend and the machine, one file each; `base.py` has the protocol."""
