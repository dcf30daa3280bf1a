"""One domain for all tests of a run."""

from collections.abc import Iterator

import pytest
from lab import Domain

from weir import Client


@pytest.fixture(scope="session")
def domain() -> Iterator[Domain]:
    """A controller and three nodes."""
    with Domain() as domain:
        yield domain


@pytest.fixture
def client(domain: Domain) -> Iterator[Client]:
    """The operator's client, before which all graphs are gone."""
    with domain.client() as client:
        for graph in client.graphs.list():
            client.graphs.delete(graph.id)
        yield client
