"""Stores: where responses and their items are kept. They take finished values and invent nothing."""
