"""`antiphon responses`: the responses in the store."""
