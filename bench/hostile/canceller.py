"""Cancels responses and times that: `python -m bench.hostile.canceller PORT KEY`.

A process of its own, with ordinary priority: the attacker's event loop is busy with its attacks, and would
measure itself. It reads ids from standard input, and prints the seconds until the answer was read.
"""

import http.client
import sys
import threading
import time

TIMEOUT_SECONDS = 10.0


def cancel(port: int, key: str, response_id: str) -> None:
    """Cancel one response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    began = time.monotonic()
    try:
        headers = {"authorization": f"Bearer {key}", "connection": "close"}
        connection.request("POST", f"/v1/responses/{response_id}/cancel", b"", headers)
        response = connection.getresponse()
        response.read()
        status = str(response.status)
    except TimeoutError:
        status = "timeout"
    except (OSError, http.client.HTTPException):
        status = "closed"
    print(response_id, time.monotonic() - began, status, flush=True)


def main() -> None:
    """Cancel until the input ends."""
    port, key = int(sys.argv[1]), sys.argv[2]
    for line in sys.stdin:
        threading.Thread(target=cancel, args=(port, key, line.strip()), daemon=True).start()


if __name__ == "__main__":
    main()
