"""One module per format: a function of bytes that returns a `Document`."""
