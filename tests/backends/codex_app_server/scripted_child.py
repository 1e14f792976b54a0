"""A `codex app-server` that plays a scenario. Run as a program; it needs only Python.

`PLAY` names the scenarios, one per start (the last one also for all further starts); `STARTS` is a file that
counts the starts.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_writing = threading.Lock()
_COST = {
    "totalTokens": 15,
    "inputTokens": 10,
    "cachedInputTokens": 2,
    "outputTokens": 5,
    "reasoningOutputTokens": 1,
}


def send(**message: Any) -> None:
    with _writing:
        print(json.dumps(message), flush=True)


def notify(method: str, about: str, **params: Any) -> None:
    """Send a notification about a turn; the thread has the same name."""
    send(method=method, params={"threadId": about, "turnId": about, **params})


def send_text(turn: str, text: str) -> None:
    notify("item/agentMessage/delta", turn, itemId="m1", delta=text)


def end(turn: str, status: str = "completed", error: Any = None) -> None:
    notify("rawResponse/completed", turn, responseId="r", usage=_COST)
    notify("turn/completed", turn, turn={"id": turn, "status": status, "error": error})


def call(turn: str, call_id: str, name: str = "look", arguments: str = '{ "at" : 1 }') -> None:
    item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    notify("rawResponseItem/completed", turn, item=item)
    params = {"threadId": turn, "turnId": turn, "callId": call_id, "tool": name, "arguments": {"at": 1}}
    send(id=f"ask-{call_id}-{turn}", method="item/tool/call", params=params)


class Child:
    """Answers the requests that all scenarios answer alike."""

    def __init__(self) -> None:
        self.lines: Iterator[str] = iter(sys.stdin)
        self.turns = 0
        self.answers: list[str] = []

    def requests(self) -> Iterator[dict[str, Any]]:
        for line in self.lines:
            message = json.loads(line)
            if "method" not in message:
                self.answers.append(line.strip())
            if message.get("method") == "turn/interrupt":
                note(f"interrupted {message['params']['turnId']}")
            yield message

    def next_turn(self) -> str:
        """Serve until a turn starts; its name."""
        for message in self.requests():
            if "id" not in message or "method" not in message:
                continue
            method, number = message["method"], message["id"]
            if method == "thread/start":
                self.turns += 1
                send(id=number, result={"thread": {"id": f"t{self.turns}"}})
            elif method == "turn/start":
                turn = message["params"]["threadId"]
                send(id=number, result={"turn": {"id": turn}})
                return turn
            elif method == "model/list":
                cursor = message["params"]["cursor"]
                page = {"data": [{"id": f"model-{cursor or 1}"}], "nextCursor": None if cursor else "2"}
                send(id=number, result=page)
            elif method == "account/read":
                send(id=number, result={"account": None, "requiresOpenaiAuth": "LOGGED_OUT" in os.environ})
            else:
                send(id=number, result={})
        sys.exit(0)

    def next_answer(self) -> str:
        """Serve until the client answers a request; the answer."""
        for message in self.requests():
            if "method" not in message:
                return self.answers[-1]
            if "id" in message:
                send(id=message["id"], result={})
        sys.exit(0)


def note(text: str) -> None:
    """Write a note for the test."""
    with Path(os.environ["NOTES"]).open("a") as notes:
        notes.write(f"{text}\n")


def answer(child: Child) -> None:
    while True:
        turn = child.next_turn()
        send_text(turn, "Hel")
        send_text(turn, "lo")
        notify("item/completed", turn, item={"type": "agentMessage", "id": "m1", "text": "Hello"})
        end(turn)


def mute(child: Child) -> None:
    for _ in child.lines:
        pass


def dies_at_start(child: Child) -> None:
    print("first line\nno licence, token=abcdef123456", file=sys.stderr, flush=True)
    sys.exit(3)


def dies_in_turn(child: Child) -> None:
    send_text(child.next_turn(), "Hel")
    print("\x1b[31mout of luck\x1b[0m", file=sys.stderr, flush=True)
    os._exit(7)


def dies_before_it_speaks(child: Child) -> None:
    child.next_turn()
    os._exit(7)


def garbage(child: Child) -> None:
    send_text(child.next_turn(), "Hel")
    print("<html>this is not it</html>", flush=True)
    mute(child)


def absurd(child: Child) -> None:
    send_text(child.next_turn(), "Hel")
    print('{"params":{"threadId":7},"method":"x"}', flush=True)
    mute(child)


def silent(child: Child) -> None:
    while True:
        send_text(child.next_turn(), "Hel")


def hangs(child: Child) -> None:
    """Completes the handshake and never answers again."""
    send(id=json.loads(next(child.lines))["id"], result={})
    mute(child)


def refuses(child: Child) -> None:
    send(id=json.loads(next(child.lines))["id"], result={})
    for message in child.requests():
        if message.get("method") == "thread/start":
            send(id=message["id"], error={"code": -32600, "message": "dynamic tool name is reserved: mcp__x"})


def asks(child: Child) -> None:
    turn = child.next_turn()
    for method in ("item/commandExecution/requestApproval", "item/tool/requestUserInput", "clock/read"):
        send(id=f"q-{method}", method=method, params={"threadId": turn})
        send_text(turn, child.next_answer() + "\n")
    end(turn)
    mute(child)


def tools(child: Child) -> None:
    turn = child.next_turn()
    # The history is sent too; it is not a call of this turn.
    history = {"type": "function_call", "call_id": "old", "name": "look", "arguments": "{}"}
    params = {"threadId": turn, "turnId": "earlier", "item": history}
    send(method="rawResponseItem/completed", params=params)
    call(turn, "c1")
    call(turn, "c2")
    notify("rawResponse/completed", turn, responseId="r", usage=_COST)
    note(child.next_answer())
    note(child.next_answer())
    send_text(turn, "done")
    end(turn)
    answer(child)


def calls(child: Child) -> None:
    while True:
        turn = child.next_turn()
        call(turn, "c1")
        notify("rawResponse/completed", turn, responseId="r", usage=None)


def calls_alike(child: Child) -> None:
    """Calls the same tool with the same id in every turn, but with different arguments."""
    for number in (1, 2):
        turn = child.next_turn()
        send_text(turn, "words")
        call(turn, "c1", arguments=f'{{"at":{number}}}')
        notify("rawResponse/completed", turn, responseId="r", usage=None)
    for _ in range(2):
        reply = child.next_answer()
        turn = json.loads(reply)["id"].removeprefix("ask-c1-")
        send_text(turn, reply)
        end(turn)
    answer(child)


def falls_silent_after_a_call(child: Child) -> None:
    turn = child.next_turn()
    send_text(turn, "words")
    call(turn, "c1")
    answer(child)


def warns_and_is_killed(child: Child) -> None:
    """Killed by a signal, which the environment variable names."""
    print("Error: something harmless at the start", file=sys.stderr, flush=True)
    send_text(child.next_turn(), "Hel")
    os.kill(os.getpid(), int(os.environ["SIGNAL"]))


def closes_its_input(child: Child) -> None:
    """Completes the handshake and stops reading; then sends a request that cannot be answered."""
    send(id=json.loads(next(child.lines))["id"], result={})
    next(child.lines)
    os.close(0)
    os.closerange(3, 256)  # uvloop passes each stream down twice
    note("closed")
    for number in range(20):
        send(id=number, method="item/tool/requestUserInput", params={})
        time.sleep(0.05)
    time.sleep(600)


def reasons(child: Child) -> None:
    while True:
        turn = child.next_turn()
        notify("item/reasoning/textDelta", turn, itemId="r1", delta="Hmm")
        send_text(turn, "Hello")
        end(turn)


def is_cut_off(child: Child) -> None:
    while True:
        turn = child.next_turn()
        send_text(turn, "Hel")
        end(turn, "failed", {"message": "Incomplete response returned, reason: max_output_tokens"})


def is_slow(child: Child) -> None:
    while True:
        turn = child.next_turn()
        time.sleep(0.6)
        send_text(turn, "Hello")
        end(turn)


def start_helper() -> None:
    helper = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    note(str(helper.pid))


def leaves_a_helper(child: Child) -> None:
    """Ends on request; its child process does not, and holds the error stream open."""
    start_helper()
    answer(child)


def ends_with_a_helper(child: Child) -> None:
    """Ends by itself; its child process holds the error stream open."""
    send(id=json.loads(next(child.lines))["id"], result={})
    next(child.lines)
    start_helper()
    print("Error: out of luck", file=sys.stderr, flush=True)
    os._exit(7)


def counts(child: Child) -> None:
    """Reports the largest number of concurrent turns."""
    active, peak, lock = set[str](), 0, threading.Lock()

    def finish(turn: str) -> None:
        time.sleep(0.05)
        with lock:
            send_text(turn, str(peak))
            active.discard(turn)
            end(turn)

    while True:
        turn = child.next_turn()
        with lock:
            active.add(turn)
            peak = max(peak, len(active))
        threading.Thread(target=finish, args=[turn]).start()


SCENARIOS: dict[str, Callable[[Child], None]] = {
    scenario.__name__: scenario
    for scenario in (
        answer,
        mute,
        dies_at_start,
        dies_in_turn,
        dies_before_it_speaks,
        garbage,
        absurd,
        silent,
        hangs,
        refuses,
        asks,
        tools,
        calls,
        calls_alike,
        falls_silent_after_a_call,
        warns_and_is_killed,
        closes_its_input,
        leaves_a_helper,
        ends_with_a_helper,
        counts,
        reasons,
        is_cut_off,
        is_slow,
    )
}

if __name__ == "__main__":
    starts = Path(os.environ["STARTS"])
    with starts.open("a") as counted:
        counted.write(f"{os.getpid()}\n")
    names = os.environ["PLAY"].split(",")
    number = len(starts.read_text().splitlines())
    SCENARIOS[names[min(number, len(names)) - 1]](Child())
