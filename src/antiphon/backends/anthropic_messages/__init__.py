"""The Messages dialect: ``POST {base}/v1/messages``, as Anthropic defined it and others serve it too."""
