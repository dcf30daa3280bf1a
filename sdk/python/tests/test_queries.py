"""Queries: they stand at the nodes, look there, and say what has to be said."""

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from lab import Domain, until
from test_client import GUARDED

from weir import Client, NotFoundError, RefusedError
from weir.models import Condition, Event, Query, Question


@contextmanager
def traffic(domain: Domain, host: str) -> Iterator[None]:
    """A host that asks for an address that nobody has, again and again."""
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            domain.inside(host, "ping", "-c", "5", "-i", "0.1", "-W", "1", "10.1.0.99", check=False)

    domain.inside(host, "ip", "neigh", "replace", "10.1.0.99", "lladdr", "02:00:00:00:00:99", "dev", "eth0")
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        stop.set()
        sender.join()


def packets(function: str | None = "fw") -> Question:
    return Question(measure="packets_count", graph="guarded", function=function)


def last(client: Client) -> int | None:
    events = client.events.kept(limit=1)
    return events[-1].id if events else None


def reports(client: Client, name: str, after: int | None) -> Iterator[Event]:
    """The events of a query."""
    for event in client.events.follow(after=after):
        if event.report is not None and event.report.query == name:
            yield event


def test_each_measure_is_answered_once(domain: Domain, client: Client) -> None:
    client.graphs.apply(GUARDED)
    with traffic(domain, "h2"):
        until("packets", lambda: client.queries.measure(packets())[0].value)
    (reading,) = client.queries.measure(packets())
    assert (reading.node, reading.graph, reading.function) == ("n2", "guarded", "fw")
    assert reading.received and reading.sent
    assert reading.value == reading.received.packets + reading.sent.packets
    (of_bytes,) = client.queries.measure(Question(measure="bytes_count", graph="guarded"))
    assert of_bytes.value and reading.value and of_bytes.value > reading.value * 20
    (cpu,) = client.queries.measure(Question(measure="cpu_util", graph="guarded", function="fw"))
    assert cpu.value is not None and 0 <= cpu.value < 200
    (memory,) = client.queries.measure(Question(measure="mem_util", graph="guarded", function="fw"))
    assert memory.bytes and memory.value and 0 < memory.value < 100
    (handler,) = client.queries.measure(Question(measure="handler", graph="guarded", function="fw", handler="connections"))
    assert handler.text is not None and handler.value == float(handler.text)
    links = client.queries.measure(Question(measure="lqm"))
    assert {(r.node, r.interface) for r in links} >= {("n1", "m0"), ("n2", "m0"), ("n3", "m0")}
    assert all(r.receive_rate is not None for r in links)


def test_a_periodic_query_reports_again_and_again_with_rates(domain: Domain, client: Client) -> None:
    client.graphs.apply(GUARDED)
    after = last(client)
    with traffic(domain, "h2"):
        client.queries.put("count", Query(ask=packets(), every=200))
        found = list(itertools.islice(reports(client, "count", after), 4))
    values = [event.report.readings[0].value for event in found if event.report]
    assert values == sorted(v for v in values if v is not None)
    assert all(event.graph == "guarded" and event.node == "n2" and event.id is None for event in found)
    assert found[-1].report and found[-1].report.readings[0].receive_rate
    assert "count" in [q.name for q in client.queries.list()]
    client.queries.delete("count")
    with pytest.raises(NotFoundError, match="no query 'count'"):
        client.queries.get("count")


def test_a_condition_is_told_once_and_the_query_ends_by_its_own(domain: Domain, client: Client) -> None:
    client.graphs.apply(GUARDED)
    after = last(client)
    connections = Question(measure="handler", graph="guarded", function="fw", handler="connections")
    client.queries.put("busy", Query(ask=connections, every=100, when=Condition(relation="GE", value=1)))
    client.queries.put(
        "end", Query(ask=packets(), every=100, until=Condition(relation="GT", value=3), when=Condition(relation="LT", value=0))
    )
    with traffic(domain, "h2"):
        event = next(reports(client, "busy", after))
        assert event.report and event.report.readings[0].value == 1
        ended = next(reports(client, "end", after))
        assert ended.report and ended.report.ended and ended.report.readings == []
    # It goes on to hold, and is not told again; what begins again is.
    client.graphs.write_handler("guarded", "fw", "forget", "")
    time.sleep(0.3)
    domain.inside("h2", "ping", "-c", "1", "-W", "1", "10.1.0.99", check=False)
    told = list(itertools.islice(reports(client, "busy", after), 2))
    assert [event.report.readings[0].value for event in told if event.report] == [1, 1]
    assert len([e for e in client.events.kept(limit=100) if e.report and e.report.query == "busy"]) == 2
    assert client.queries.get("end").ended
    for name in ("busy", "end"):
        client.queries.delete(name)


def test_a_thousand_queries_stand_over_a_restart_of_the_controller(domain: Domain, client: Client) -> None:
    client.graphs.apply(GUARDED)
    names = [f"q{i:04}" for i in range(1000)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: client.queries.put(name, Query(ask=packets(), every=3_600_000)), names))
    client.queries.put("live", Query(ask=packets(), every=200))
    after = last(client)
    domain.kill("controller")
    domain.start_controller()
    assert {q.name for q in client.queries.list()} == {*names, "live"}
    event = next(reports(client, "live", after))
    assert event.node == "n2"
    # What is deleted while a node is away goes when it is back.
    domain.kill("n2")
    until("n2 is away", lambda: client.nodes.get("n2").state == "offline")
    for name in names[:20]:
        client.queries.delete(name)
    domain.start_node("n2")
    until("n2 is back", lambda: client.nodes.get("n2").state == "online")
    held = "http://127.0.0.1:7400/v1/queries"
    until("n2 has lost them", lambda: '"q0019"' not in domain.inside("n2", "curl", "-sS", held))
    assert '"live"' in domain.inside("n2", "curl", "-sS", held)
    client.queries.delete("live")
    # The others stand on, and disturb nobody.


def test_what_cannot_be_asked_is_refused_and_what_vanishes_is_said(client: Client) -> None:
    client.graphs.apply(GUARDED)
    with pytest.raises(NotFoundError, match="no function 'fv'"):
        client.queries.put("x", Query(ask=packets("fv"), every=1000))
    with pytest.raises(NotFoundError, match="no graph 'guardet'"):
        client.queries.measure(Question(measure="packets_count", graph="guardet"))
    with pytest.raises(NotFoundError, match="no public handler 'connection'"):
        client.queries.put("x", Query(ask=Question(measure="handler", graph="guarded", function="fw", handler="connection"), every=1000))
    with pytest.raises(RefusedError, match="give graph, function and handler"):
        client.queries.measure(Question(measure="handler", graph="guarded"))
    assert "x" not in [q.name for q in client.queries.list()]
    after = last(client)
    client.queries.put("x", Query(ask=Question(measure="packets_count"), every=100))
    client.graphs.delete("guarded")
    said = next(e for e in client.events.follow(after=after) if e.kind == "query" and "nothing" in e.text)
    assert said.text.startswith("query 'x'")
    client.graphs.apply(GUARDED)
    assert next(reports(client, "x", said.id)).graph == "guarded"
    client.queries.delete("x")
