"""A client of MCP servers: their tools, over HTTP and over the streams of child processes."""
