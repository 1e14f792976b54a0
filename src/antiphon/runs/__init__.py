"""Runs: responses that are made in the background, by a durable engine."""
