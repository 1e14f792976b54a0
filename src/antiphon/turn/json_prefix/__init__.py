"""Checks JSON while it arrives: whether a text can still become a document that fits its schema."""
