"""``/v1/responses`` as a WebSocket: an endpoint accepts, a connection reads frames, its streams run turns."""
