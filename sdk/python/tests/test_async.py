"""The asyncio client against the same."""

import asyncio

import pytest
from lab import NODES, URL, Domain
from test_client import WIRE

from weir import AsyncClient, Client, NotFoundError


def test_many_things_are_asked_at_once(domain: Domain, client: Client) -> None:
    async def ask() -> None:
        async with AsyncClient(URL, token=domain.token, fingerprint=domain.pin) as client:
            await client.graphs.apply(WIRE, node="n2")
            nodes, graphs, health = await asyncio.gather(client.nodes.list(), client.graphs.list(), client.health())
            assert [node.name for node in nodes] == list(NODES)
            assert [graph.id for graph in graphs] == ["wire"]
            assert health.graphs == 1
            with pytest.raises(NotFoundError):
                await client.graphs.get("none")

    asyncio.run(ask())


def test_events_come_while_others_are_asked(domain: Domain, client: Client) -> None:
    async def first_removed(client: AsyncClient, after: int | None) -> str | None:
        async for event in client.events.follow(after=after):
            if event.kind == "removed":
                return event.graph
        return None

    async def ask() -> None:
        async with AsyncClient(URL, token=domain.token, fingerprint=domain.pin) as client:
            last = (await client.events.kept(limit=1))[-1].id
            waiting = asyncio.create_task(first_removed(client, last))
            await client.graphs.apply(WIRE, node="n1")
            await client.graphs.delete("wire")
            assert await asyncio.wait_for(waiting, 20) == "wire"

    asyncio.run(ask())
