"""The HTTP server: raw ASGI, without a framework between an event and the socket."""
