"""The HTTP client: connections, deadlines, retries, redaction, and the egress policy."""
