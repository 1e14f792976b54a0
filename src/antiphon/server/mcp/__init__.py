"""Antiphon as an MCP server: the tools that clients of MCP can call, at ``/mcp``."""
