"""A WebSocket client that sends any frames and reads only on request, on a plain socket."""

import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager

TIMEOUT_SECONDS = 30.0
TEXT, CONTINUATION, CLOSE, PING = 0x1, 0x0, 0x8, 0x9


class RawWebSocket:
    """An open connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def send(self, data: bytes) -> bool:
        """Send frames; returns whether the server took them."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def read_to_end(self) -> bytes:
        """Everything that the server sends until it closes the connection."""
        received = b""
        try:
            while data := self.socket.recv(2**16):
                received += data
        except ConnectionResetError:
            pass
        return received


@contextmanager
def raw_websocket(
    port: int, *, compressed: bool = False, receive_bytes: int | None = None
) -> Generator[RawWebSocket, None, None]:
    """Connect. `compressed`: offer compression; `receive_bytes`: the size of the socket's receive buffer."""
    extension = "sec-websocket-extensions: permessage-deflate\r\n" if compressed else ""
    head = (
        f"GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        f"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{extension}\r\n"
    )
    with socket.socket() as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        if receive_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.connect(("127.0.0.1", port))
        connection.sendall(head.encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += connection.recv(1)
        assert b" 101 " in answer
        assert b"permessage-deflate" not in answer
        yield RawWebSocket(connection)


def frame(opcode: int, data: bytes, *, final: bool = True) -> bytes:
    """A masked frame."""
    first = opcode | (0x80 if final else 0)
    if len(data) < 126:
        head = struct.pack("!BB", first, 0x80 | len(data))
    elif len(data) < 2**16:
        head = struct.pack("!BBH", first, 0x80 | 126, len(data))
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, len(data))
    return head + bytes(4) + data  # a mask of zeros changes nothing


def close_code(received: bytes) -> int | None:
    """The code of the close frame that the server sent last."""
    at = received.rfind(bytes([0x80 | CLOSE]))
    return struct.unpack("!H", received[at + 2 : at + 4])[0] if 0 <= at <= len(received) - 4 else None
