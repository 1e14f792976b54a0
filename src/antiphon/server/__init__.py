"""The HTTP server: raw ASGI, so that nothing stands between an event and the socket."""
