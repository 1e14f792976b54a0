"""Backends: things that can run a turn. Each dialect is a folder; an endpoint is a row of data."""
