"""The blocking client against a controller and three nodes."""

import threading
from pathlib import Path

import pytest
from lab import NODES, URL, Domain, until

from weir import Client, ConfigError, ConflictError, ForbiddenError, Key, LoginError, NotFoundError, RefusedError, UnreachableError
from weir.models import NewKey, PolicySettings, Quotas

WIRE = {
    "id": "wire",
    "name": "wire",
    "saps": [
        {"id": "l", "type": "interface", "interface": {"if-name": "lan"}},
        {"id": "r", "type": "interface", "interface": {"if-name": "wan"}},
    ],
    "flowrules": [
        {"id": "a", "priority": 1, "match": {"port_in": "sap:l"}, "actions": {"output_to_port": "sap:r"}},
        {"id": "b", "priority": 1, "match": {"port_in": "sap:r"}, "actions": {"output_to_port": "sap:l"}},
    ],
}
GUARDED = """
# Guarded on its way.
id: guarded
name: guarded
SFs:
  - {id: fw, name: firewall, ports: [{id: inside}, {id: outside}]}
saps:
  - {id: l, type: interface, node: n2, interface: {if-name: lan}}
  - {id: r, type: interface, node: n2, interface: {if-name: wan}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:l'}, actions: {output_to_port: 'sf:fw:inside'}}
  - {id: b, priority: 1, match: {port_in: 'sf:fw:outside'}, actions: {output_to_port: 'sap:r'}}
"""


def test_nodes_are_listed_cordoned_and_drained(client: Client) -> None:
    assert [node.name for node in client.nodes.list()] == list(NODES)
    assert {node.state for node in client.nodes.list()} == {"online"}
    assert len(client.nodes.links().links) == 3
    client.graphs.apply(WIRE, node="n1")
    (drained,) = client.nodes.drain("n1").graphs
    assert (drained.id, drained.node) == ("wire", "n2")
    assert client.nodes.get("n1").cordoned
    assert not client.nodes.uncordon("n1").cordoned
    with pytest.raises(NotFoundError, match="there is no node 'n9'"):
        client.nodes.cordon("n9")


def test_a_graph_is_planned_applied_read_and_rolled_back(client: Client) -> None:
    assert client.graphs.plan(WIRE).action == "create"
    assert client.graphs.apply(WIRE, node="n3", message="first").revision == 1
    (summary,) = client.graphs.list()
    assert (summary.id, summary.node, summary.state) == ("wire", "n3", "running")
    assert client.graphs.get("wire")["name"] == "wire"
    assert client.graphs.apply(WIRE).unchanged
    client.graphs.apply({**WIRE, "name": "other"}, if_match=summary.tag)
    with pytest.raises(ConflictError):
        client.graphs.apply({**WIRE, "name": "third"}, if_match=summary.tag)
    revisions = client.graphs.history("wire").revisions
    assert [(r.revision, r.message) for r in revisions] == [(2, None), (1, "first")]
    client.graphs.roll_back("wire", 1)
    assert client.graphs.get("wire")["name"] == "wire"
    assert "Graph wire" in client.graphs.config("wire")
    client.graphs.delete("wire")
    with pytest.raises(NotFoundError):
        client.graphs.status("wire")


def test_handlers_and_counts_of_a_function(domain: Domain, client: Client) -> None:
    client.graphs.apply(GUARDED)
    assert "# Guarded on its way." in client.graphs.document("guarded")
    domain.inside("h2", "ip", "neigh", "replace", "10.1.0.99", "lladdr", "02:00:00:00:00:99", "dev", "eth0")
    # Nobody answers; what is asked for makes a connection.
    domain.inside("h2", "ping", "-c", "1", "-W", "1", "10.1.0.99", check=False)
    assert client.graphs.read_handler("guarded", "fw", "connections").strip() == "1"
    assert client.graphs.status("guarded").functions[0].packets_in > 0
    client.graphs.write_handler("guarded", "fw", "forget", "")
    assert client.graphs.read_handler("guarded", "fw", "connections").strip() == "0"
    assert {h.name for h in client.images.get("firewall").handlers} >= {"connections", "forget"}
    with pytest.raises(NotFoundError, match="none/such"):
        client.graphs.read_handler("guarded", "fw", "none/such")


def test_packets_are_captured_and_traced(domain: Domain, client: Client) -> None:
    client.graphs.apply(WIRE, node="n1")
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            domain.inside("h1", "ping", "-c", "1", "-W", "1", "10.1.0.99", check=False)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        (captured,) = client.graphs.capture("wire", points=["sap:l"], count=1)
        assert captured.kind == "packet"
        assert captured.bytes
        (trace,) = client.graphs.trace("wire", count=1)
        assert "sap" in trace
    finally:
        stop.set()
        sender.join()


def test_mistakes_in_a_document_come_with_their_places(client: Client) -> None:
    with pytest.raises(RefusedError) as error:
        client.graphs.apply("id: bad\nname: bad\nflowrules:\n  - {id: a, priority: many}\n")
    assert error.value.status == 400
    mistakes = error.value.problem.errors
    assert mistakes
    assert any(m.path.startswith("flowrules[0]") and m.line == 4 for m in mistakes if m.path), mistakes
    assert "line 4" in str(error.value)


def test_a_tenant_signs_with_its_key_and_sees_its_own(domain: Domain, client: Client, tmp_path: Path) -> None:
    key = Key.generate()
    client.tenants.put("acme", quotas=Quotas(graphs=1))
    client.keys.add("alice", NewKey(public_key=key.public_key, role="tenant", tenant="acme"))
    client.graphs.apply({**WIRE, "id": "secret"}, node="n1")
    key.save(tmp_path / "alice")
    with Client(URL, key=str(tmp_path / "alice"), fingerprint=domain.pin) as alice:
        assert alice.whoami().name == "alice"
        assert alice.graphs.list() == []
        alice.graphs.apply(WIRE, node="n2")
        # A query and what is escaped in a path are signed as they are sent.
        assert alice.events.kept(graph="wire", limit=5)[-1].graph == "wire"
        with pytest.raises(NotFoundError):
            alice.graphs.status("a graph/with ?&%")
        with pytest.raises(ForbiddenError, match="quota"):
            alice.graphs.apply({**WIRE, "id": "second"}, node="n3")
        with pytest.raises(ForbiddenError):
            alice.nodes.list()
    assert {graph.tenant for graph in client.graphs.list()} == {None, "acme"}
    client.graphs.delete("wire")
    client.keys.remove("alice")
    with Client(URL, key=key, fingerprint=domain.pin) as alice, pytest.raises(LoginError, match="not known"):
        alice.graphs.list()
    client.tenants.remove("acme")
    assert client.tenants.list() == []
    assert "alice" in {record.who.name for record in client.audit(limit=50).records}


def test_policies_are_held(client: Client) -> None:
    rule = "never * * tcp dst port 25"
    policy = client.policies.put("no-mail", PolicySettings(require=[rule]))
    assert client.policies.list() == [policy]
    with pytest.raises(RefusedError, match="no-mail"):
        client.graphs.apply(WIRE, node="n1")
    client.policies.remove("no-mail")
    client.graphs.apply(WIRE, node="n1")


def test_events_are_followed_over_a_restart_of_the_controller(domain: Domain, client: Client) -> None:
    last = client.events.kept(limit=1)[-1].id
    stream = client.events.follow(after=last)
    client.graphs.apply(WIRE, node="n1")
    applied = next(event for event in stream if event.graph == "wire")
    assert applied.kind == "applied"
    domain.kill("controller")
    domain.start_controller()
    until("the nodes are back", lambda: all(node.state == "online" for node in client.nodes.list()))
    client.graphs.delete("wire")
    kinds: dict[str, int | None] = {}
    for event in stream:
        kinds[event.kind] = event.id
        if event.kind == "removed":
            break
    assert "node-online" in kinds


def test_another_server_is_not_taken_and_one_that_is_away_is_said(domain: Domain) -> None:
    wrong = "sha256:" + "0" * 64
    with Client(URL, token=domain.token, fingerprint=wrong) as client, pytest.raises(UnreachableError, match="another authority"):
        client.health()
    with Client("http://127.0.0.1:1") as client, pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        client.health()
    with pytest.raises(ConfigError, match="fingerprint="):
        Client(URL)
    with pytest.raises(ConfigError, match="is no pin"), Client(URL, fingerprint="sha256:12") as client:
        client.health()
    with Client(URL, token="wrong", fingerprint=domain.pin) as client, pytest.raises(LoginError):
        client.nodes.list()


def test_a_context_of_weir_is_enough(domain: Domain) -> None:
    with Client.from_context("home") as client:
        assert client.whoami().role == "operator"
        assert client.health().ready
