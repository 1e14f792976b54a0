"""Retrieval: files cut into chunks, an index of them, and the best ones for a question."""
