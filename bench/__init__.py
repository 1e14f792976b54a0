"""The benchmark: Antiphon beside nginx, LiteLLM and the bare mock. Run it with `python -m bench`."""
