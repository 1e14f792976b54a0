"""Recovery of tool calls that a model wrote as text."""
