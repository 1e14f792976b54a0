"""Attacks of one tenant on a real server, beside a probe of another tenant: `python -m bench.hostile`."""
