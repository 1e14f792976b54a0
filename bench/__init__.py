"""The benchmark: Antiphon beside its peers and the bare mock. Run it with `python -m bench`."""
