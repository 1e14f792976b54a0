"""`antiphon execute` and `antiphon agent`: one request to the agent, and runs in the background."""
