"""``POST /v1/chat/completions``: the chat API of OpenAI and of everybody who copied it."""
