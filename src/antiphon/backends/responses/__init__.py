"""Another server of the Responses API as a backend: every turn sends the complete history."""
