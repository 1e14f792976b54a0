"""One tenant against the upstream that another one uses."""

import asyncio

from bench.hostile.client import HostileClient
from bench.hostile.registry import attack
from bench.hostile.upstream import PROVOCATION

SECRET = "the-secret-of-tenant-a"


@attack("foreign circuit", parallel=1)
async def foreign_circuit(client: HostileClient) -> None:
    """A tenant provokes failures of the model that the other one uses; counts what the other one notices."""
    await asyncio.gather(
        *(client.create(model="shared", input=f"{PROVOCATION} {SECRET}") for _ in range(8)),
        return_exceptions=True,
    )
    answer = await client.post(
        "/v1/responses", {"model": "shared", "input": "Hello", "store": False}, key=client.other_key
    )
    if answer.status != 200:
        client.tally.add("other tenant not answered")
    if SECRET.encode() in answer.body:
        client.tally.add("secret shown to the other tenant")
