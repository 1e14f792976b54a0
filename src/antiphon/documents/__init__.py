"""Documents: bytes become text with structure. Parsers run in child processes with limits."""
