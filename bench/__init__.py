"""The benchmark: Antiphon, other gateways, and the mock alone. Run it with `python -m bench`."""
