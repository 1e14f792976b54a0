"""The codex dialect: `codex app-server`, JSON-RPC on the standard streams of a child process."""
