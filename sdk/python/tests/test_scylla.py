"""The listings of the Scylla paper, as they are printed, against a controller and three nodes."""

import json
import queue
from collections.abc import Iterator
from typing import Any

import pytest
from lab import Domain, until
from test_queries import traffic

from weir import Client, ConfigError, RefusedError
from weir.scylla import (
    CPP,
    LVAP,
    LVNF,
    Flow,
    Image,
    MigrationError,
    Runtime,
    cpp_down,
    cpp_up,
    cpps,
    cpu_util,
    handler_value,
    lqm,
    make_wild_card_flow,
    mem_util,
    packets_count,
    start,
)
from weir.scylla.lvnf import said

NULL = "in_0 -> Null() -> out_0"
FORWARD = "in_0 -> c :: Counter -> out_0;"


class Results:
    """A callback that keeps what it gets."""

    def __init__(self) -> None:
        self._all: queue.Queue[dict[str, Any]] = queue.Queue()

    def __call__(self, result: dict[str, Any]) -> None:
        self._all.put(result)

    def next(self) -> dict[str, Any]:
        """The next result."""
        return self._all.get(timeout=30)

    def none(self, seconds: float) -> bool:
        """Whether none comes for a while."""
        try:
            self._all.get(timeout=seconds)
        except queue.Empty:
            return True
        return False


@pytest.fixture
def scylla(client: Client) -> Iterator[Runtime]:
    """A service."""
    client.tenants.put("Guests")
    with start(client, tenant="Guests", addresses={"5C:E0:C5:AC:B4:A3": "n1"}) as runtime:
        yield runtime


def cpp_of(name: str) -> CPP:
    return next(cpp for cpp in cpps() if cpp.name == name)


# Listing 2, up to the node.
VNF = """in_0
-> Classifier(12/bbbb)
-> Strip(14)
-> dupe::WifiDupeFilter()
-> WifiDecap()
-> out_0;"""
handlers = [("dupes_table", "dupe.dupes_table")]


def test_listing_1_an_image_that_does_nothing(scylla: Runtime) -> None:
    lvnf = LVNF(Image(vnf=NULL, nb_ports=1))
    lvnf.cpp = cpp_of("n1")
    scylla.wait()
    (function,) = scylla.client.graphs.status("scylla").functions
    assert (function.state, function.engine) == ("running", "inline")


def test_listings_2_to_5_a_function_its_handler_read_and_written(scylla: Runtime) -> None:
    cpp = cpp_of("n2")
    # Create Image
    img = Image(vnf=VNF, nb_ports=1, handlers=handlers)

    # Create and spawn LVNF
    lvnf = LVNF(img)
    lvnf.cpp = cpp

    dupes_callback = Results()
    lvnf.dupes_table(callback=dupes_callback)
    assert dupes_callback.next() == {"value": ""}
    # Listing 5. Of the sequence numbers, the filter keeps the last.
    lvnf.dupes_table(value=["a0:d3:c1:a8:e4:c3", 215, 3, 1323, 2324, 1325])
    scylla.wait()

    def entry() -> bool:
        lvnf.dupes_table(callback=dupes_callback)
        return dupes_callback.next() == {"A0:D3:C1:A8:E4:C3": [215, 1, 1325]}

    until("the entry is there", entry)
    assert scylla.client.graphs.get("scylla")["SFs"][0]["node"] == "n2"  # type: ignore[index]


def test_listing_6_a_condition_of_the_processor(scylla: Runtime, domain: Domain) -> None:
    lvnf = LVNF(Image(vnf=FORWARD), addr="11:22:33:44:55:66")
    lvnf.cpp = cpp_of("n1")
    scylla.wait()
    cpu_callback = Results()
    cpu_util(lvnfs="11:22:33:44:55:66", relation="GT", value=80, tenant_name="Guests", callback=cpu_callback)
    low, memory = Results(), Results()
    cpu_util(lvnfs="ff:ff:ff:ff:ff:ff", relation="LT", value=80, callback=low, every=200)
    mem_util(lvnfs=lvnf, relation="GE", value=0, callback=memory, every=200)
    found = low.next()["readings"][0]
    assert (found["lvnf"], found["cpp"]) == ("11:22:33:44:55:66", cpp_of("n1").addr)
    assert found["value"] < 80
    assert memory.next()["readings"][0]["function"] == lvnf.name
    # It stays so, and is not told again; the load is never above 80 %.
    assert low.none(1) and memory.none(0.1) and cpu_callback.none(0.1)
    with pytest.raises(ConfigError, match="no LVNF '11:22:33:44:55:67'; there are: lvnf0 11:22:33:44:55:66"):
        cpu_util(lvnfs="11:22:33:44:55:67", relation="GT", value=80, callback=low)


def test_listing_7_a_chain(scylla: Runtime, domain: Domain) -> None:
    cpp = cpp_of("n1")
    image = Image(vnf=FORWARD, handlers=[("count", "c.count")])
    # The host of n1 stands in for the LVAP.
    lvap = LVAP(cpp, "lan", name="lvap")
    lvnf_count, lvnf_dpi, lvnf_nat = (LVNF(image, name=name) for name in ("count", "dpi", "nat"))
    for lvnf in (lvnf_count, lvnf_dpi, lvnf_nat):
        lvnf.cpp = cpp

    # All traffic
    other = make_wild_card_flow()
    # HTTP traffic
    http = make_wild_card_flow()
    http["tp_dst"] = 80
    # LVNF Chaining
    lvap.ports[0].next[other] = lvnf_count.ports[0]
    lvnf_count.ports[0].next[http] = lvnf_dpi.ports[0]
    lvnf_count.ports[0].next[other] = lvnf_nat.ports[0]
    lvnf_dpi.ports[0].next[other] = lvnf_nat.ports[0]
    scylla.wait()

    def counted() -> dict[str, int]:
        names = ("count", "dpi", "nat")
        return {n: int(scylla.client.graphs.read_handler("scylla", n, "count")) for n in names}

    domain.inside("h1", "ip", "neigh", "replace", "10.1.0.99", "lladdr", "02:00:00:00:00:99", "dev", "eth0")
    domain.inside("h1", "ip", "route", "replace", "10.1.0.99", "dev", "eth0")
    for port, times in ((80, 3), (443, 2)):
        for _ in range(times):
            domain.inside("h1", "bash", "-c", f"echo x > /dev/udp/10.1.0.99/{port}")
    until("all are counted", lambda: counted()["dpi"] >= 3 and counted()["nat"] >= 5)
    found = counted()
    assert found["dpi"] == 3
    assert found["nat"] == found["count"]
    # A part of the flow space goes elsewhere, or nowhere, from now on.
    del lvnf_count.ports[0].next[http]
    scylla.wait()
    domain.inside("h1", "bash", "-c", "echo x > /dev/udp/10.1.0.99/80")
    until("it is counted", lambda: counted()["nat"] >= 1)


def test_listing_8_links_of_a_node(scylla: Runtime) -> None:
    lqm_callback = Results()
    lqm(addr="5C:E0:C5:AC:B4:A3", every=200, tenant_name="Guests", callback=lqm_callback)
    lqm_callback.next()
    report = lqm_callback.next()
    (link,) = report["readings"]
    assert (link["node"], link["interface"], set(link["neighbours"])) == ("n1", "m0", {"n2", "n3"})
    assert link["received"]["packets"] > 0
    assert link["receive_rate"]["packets"] >= 0
    every = Results()
    lqm(addr="ff:ff:ff:ff:ff:ff", every=-1, callback=every)
    assert {reading["node"] for reading in every.next()["readings"]} == {"n1", "n2", "n3"}
    with pytest.raises(ConfigError, match="of tenant 'Guests', and not of 'Staff'"):
        lqm(addr="ff:ff:ff:ff:ff:ff", every=5000, tenant_name="Staff", callback=every)
    with pytest.raises(ConfigError, match="there is no node"):
        lqm(addr="5C:E0:C5:AC:B4:A4", every=5000, tenant_name="Guests", callback=every)


def test_a_function_that_is_given_another_node_moves(scylla: Runtime, domain: Domain) -> None:
    lvap, lvnf = LVAP(cpp_of("n3"), "lan"), LVNF(Image(vnf=FORWARD, handlers=[("count", "c.count")]))
    lvnf.cpp = cpp_of("n1")
    lvap.ports[0].next[make_wild_card_flow()] = lvnf.ports[0]
    lvnf.ports[0].next[make_wild_card_flow()] = lvap.ports[0]
    scylla.wait()

    def count() -> int:
        return int(scylla.client.graphs.read_handler(scylla.name, lvnf.name, "count"))

    with traffic(domain, "h3"):
        until("packets", lambda: count() > 4)
    before = count()
    lvnf.cpp = cpp_of("n2")
    scylla.wait()
    assert lvnf.cpp == cpp_of("n2")
    assert '"node": "n2"' in json.dumps(scylla.client.graphs.get(scylla.name))
    assert count() >= before, "its state has come with it"
    with traffic(domain, "h3"):
        until("packets", lambda: count() > before + 4)
    lvnf.cpp = CPP("n9")
    with pytest.raises(MigrationError, match="there is no node 'n9'"):
        scylla.wait()
    assert lvnf.cpp == cpp_of("n2")


def test_counts_come_again_and_again_until_they_are_cancelled(scylla: Runtime, domain: Domain) -> None:
    cpp = cpp_of("n3")
    lvap, lvnf = LVAP(cpp, "lan"), LVNF(Image(vnf=FORWARD, handlers=[("count", "c.count")]))
    lvnf.cpp = cpp
    lvap.ports[0].next[make_wild_card_flow()] = lvnf.ports[0]
    lvnf.ports[0].next[make_wild_card_flow()] = lvap.ports[0]
    scylla.wait()
    counts, above, once, broken = Results(), Results(), Results(), []

    def raises(result: dict[str, Any]) -> None:
        broken.append(result)
        raise ValueError("a callback that raises")

    with traffic(domain, "h3"):
        handle = packets_count(lvnf, every=200, callback=counts)
        packets_count(lvnf, every=200, callback=raises)
        handler_value(lvnf, "count", "GT", 2, callback=above, every=100)
        until("packets", lambda: counts.next()["readings"][0]["value"] > 4)
        assert above.next()["readings"][0]["value"] > 2
    until("a callback that raises is called again", lambda: len(broken) >= 2)
    packets_count(lvnf, every=-1, callback=once)
    assert once.next()["readings"][0]["lvnf"] == lvnf.addr
    handle.cancel()
    scylla.wait()
    assert handle.name not in {q.name for q in scylla.client.queries.list()}


def test_nodes_that_go_and_come_are_told(scylla: Runtime, domain: Domain) -> None:
    up, down = Results(), Results()
    cpp_down(down)
    cpp_up(up)
    domain.kill("n3")
    assert down.next()["node"] == "n3"
    domain.start_node("n3")
    assert up.next()["node"] == "n3"
    until("n3 is back", lambda: "n3" in {cpp.name for cpp in cpps()})


def test_mistakes_are_said_where_they_are_made(scylla: Runtime) -> None:
    with pytest.raises(ConfigError, match="no key 'tp_port'"):
        Flow(tp_port=80)
    with pytest.raises(ConfigError, match="the name 'ports'"):
        Image(vnf=NULL, handlers=[("ports", "x.y")])
    lvnf = LVNF(Image(vnf=NULL, handlers=[("count", "c.count")]))
    with pytest.raises(ConfigError, match="has no node yet"):
        lvnf.count(callback=print)
    with pytest.raises(AttributeError, match="no handler 'table'; it has: count"):
        lvnf.table(callback=print)
    with pytest.raises(ConfigError, match="every=50"):
        packets_count(lvnf, every=50, callback=print)
    lvnf.cpp = cpp_of("n1")
    with pytest.raises(RefusedError, match="no element 'c'"):
        scylla.wait()
    lvnf.remove()
    scylla.wait()
    assert scylla.client.graphs.list() == []


def test_what_handlers_say_becomes_a_dictionary() -> None:
    table = "A0:D3:C1:A8:E4:C3 215 3 1323\n5c:e0:c5:ac:b4:a3 1231 0\n"
    assert said(table) == {"A0:D3:C1:A8:E4:C3": [215, 3, 1323], "5C:E0:C5:AC:B4:A3": [1231, 0]}
    assert said("17\n") == {"value": 17}
    assert said("two words") == {"value": "two words"}
    assert said("") == {"value": ""}
