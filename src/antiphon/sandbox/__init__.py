"""Runs Python that a model wrote, in a sandbox: no network, no files of the host, limits on everything."""
