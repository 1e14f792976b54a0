"""Tests of the MCP client."""
