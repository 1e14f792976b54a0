"""`antiphon serve`: the server process."""
