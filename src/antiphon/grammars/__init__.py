"""Grammars of custom tools: compile a definition, check a text. No wire format, no I/O."""
