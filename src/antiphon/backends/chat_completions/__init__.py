"""The chat-completions dialect: ``POST {base}/chat/completions``, as OpenAI defined it and others vary it."""
