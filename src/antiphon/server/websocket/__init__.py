"""The WebSocket form of ``/v1/responses``: `door` lets in, `connection` reads, `lane` works."""
