"""`mcp`: the model calls tools of MCP servers. `tool.py` has the tool, `approvals.py` the approved calls."""
