"""``POST /v1/messages``: the API of Anthropic."""
