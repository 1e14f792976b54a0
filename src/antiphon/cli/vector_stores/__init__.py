"""`antiphon vector-stores`."""
