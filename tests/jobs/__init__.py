"""Durable jobs."""
