"""Request bodies near the limit of bytes that are expensive to parse, check or hold."""

import asyncio
from collections.abc import Callable

from bench.hostile.client import HostileClient
from bench.hostile.registry import attack

MB = 2**20


def filled(start: str, piece: str, end: str, size: int) -> bytes:
    """A body of about `size` bytes: pieces, with commas between."""
    number = size // (len(piece) + 1)
    return (start + ",".join([piece] * number) + end).encode()


def allowed_tools() -> bytes:
    """26 MB of names in `tool_choice`."""
    tools = '"tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]'
    choice = '"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": ['
    start = f'{{"model": "one", "input": "x", {tools}, {choice}'
    return filled(start, '{"type":"function","name":"f"}', "]}}", 26 * MB)


def empty_parts() -> bytes:
    """31 MB of empty content parts."""
    start = '{"model": "one", "input": [{"role": "user", "content": ['
    return filled(start, '{"type":"input_text","text":""}', "]}]}", 31 * MB)


def many_items() -> bytes:
    """31 MB of items."""
    return filled('{"model": "one", "input": [', '{"role":"user","content":"x"}', "]}", 31 * MB)


def deep_nesting() -> bytes:
    """Metadata that is 5 million levels deep."""
    return b'{"model": "one", "input": "x", "metadata": ' + b"[" * 5 * MB + b"]" * 5 * MB + b"}"


def many_members() -> bytes:
    """31 MB of members of the metadata."""
    members = ",".join(f'"k{number}":"v"' for number in range(31 * MB // 15))
    return f'{{"model": "one", "input": "x", "metadata": {{{members}}}}}'.encode()


def one_long_text() -> bytes:
    """31 MB of text."""
    return b'{"model": "one", "store": false, "input": "' + b"x" * 31 * MB + b'"}'


def register(name: str, make: Callable[[], bytes], parallel: int) -> None:
    """Register the attack that posts this body; it is made once."""
    made: list[bytes] = []

    async def post_body(client: HostileClient) -> None:
        if not made:
            made.append(await asyncio.to_thread(make))
        await client.post("/v1/responses", made[0])

    post_body.__doc__ = make.__doc__
    attack(name, parallel=parallel)(post_body)


register("allowed_tools of 26 MB", allowed_tools, 2)
register("31 MB of empty content parts", empty_parts, 2)
register("31 MB of items", many_items, 2)
register("31 MB of metadata", many_members, 2)
register("10 MB of brackets", deep_nesting, 4)
register("31 MB of text, 8 at once", one_long_text, 8)
