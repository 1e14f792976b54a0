"""Searches the web: the port of search engines, and one client for each kind of engine."""
