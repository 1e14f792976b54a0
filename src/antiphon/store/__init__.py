"""Stores of responses and their items. They take complete values; callers generate ids and times."""
