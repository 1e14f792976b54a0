"""Calls under way: one class for each way in which calls are told. The model writes JSON for all of them."""
