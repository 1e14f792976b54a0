"""The probe of a healthy tenant: `GET /healthz` and a one-token answer, at a steady rate, timed; `control`,
the same as `healthz` of a server that does nothing else; and `model`, an answer of the model itself.

`python -m bench.hostile.probe PORT KEY CONTROL_PORT MODEL_PORT` prints a line per request until it is ended:
its kind, the time at which it was due, the seconds until its answer, and its status (0: none).
"""

import http.client
import json
import sys
import threading
import time

TIMEOUT_SECONDS = 10.0
INTERVAL_SECONDS = {"healthz": 0.02, "answer": 0.04, "control": 0.02, "model": 0.04}
BODIES = {
    "answer": ("/v1/responses", {"model": "one", "input": "Hello", "store": False}),
    "model": ("/v1/chat/completions", {"model": "one", "messages": [{"role": "user", "content": "Hello"}]}),
}


def ask(kind: str, connection: http.client.HTTPConnection, key: str) -> int:
    """One request; the status of its answer."""
    if kind not in BODIES:
        connection.request("GET", "/healthz")
    else:
        path, body = BODIES[kind]
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    response.read()
    return response.status


def probe(kind: str, port: int, key: str) -> None:
    """Ask again and again. Requests that were due while another one waited count as if sent on time."""
    interval = INTERVAL_SECONDS[kind]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    due = time.monotonic()
    while True:
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            status = ask(kind, connection, key)
        except (OSError, http.client.HTTPException):
            status = 0
            connection.close()
        ended = time.monotonic()
        while due <= ended:
            sys.stdout.write(f"{kind} {due} {ended - due} {status}\n")
            due += interval
        sys.stdout.flush()


def main() -> None:
    """Probe from a thread for each kind."""
    port, key, control_port, model_port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    ports = {"control": control_port, "model": model_port}
    for kind in INTERVAL_SECONDS:
        threading.Thread(target=probe, args=(kind, ports.get(kind, port), key), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
