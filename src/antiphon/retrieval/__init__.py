"""Retrieval: files are cut into chunks, the chunks are indexed, and the best ones are found for a query."""
