"""Another server of the Responses API as a backend: the history goes out whole, the answer is repaired."""
