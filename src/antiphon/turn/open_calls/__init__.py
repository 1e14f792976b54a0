"""Calls that are being written: one class per order of events. The model writes JSON for all of them."""
