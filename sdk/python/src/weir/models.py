# Made by tools/generate.py from docs/openapi-controller.json: do not edit.

from __future__ import annotations
from typing import Annotated, Any, Literal
from pydantic import BaseModel, ConfigDict, Field, RootModel


class AccountingRecord(BaseModel):
    """
    The usage of a module, from its beginning on. Numbers only grow, also when the node, its data plane or the controller end and begin
    again.
    """

    began: Annotated[int, Field(ge=0)]
    """
    When it began, in seconds since the epoch.
    """
    bytes_in: Annotated[int, Field(ge=0)]
    """
    Bytes of these, from the IP header on.
    """
    bytes_out: Annotated[int, Field(ge=0)]
    """
    Bytes of these.
    """
    counted: Annotated[int, Field(ge=0)]
    """
    Until when the numbers are, in seconds since the epoch.
    """
    cpu: Annotated[int, Field(ge=0)]
    """
    Processor time in microseconds. Of a module in the data plane it is an estimate: its share of what was measured there.
    """
    ended: Annotated[int | None, Field(ge=0)] = None
    """
    When it ended; one that runs has not.
    """
    kind: str
    """
    The kind of function that it is: `click`, or that of its sandbox.
    """
    memory: Annotated[int, Field(ge=0)]
    """
    Bytes of memory that it had last; of a module in the data plane those of its tables.
    """
    memory_seconds: Annotated[int, Field(ge=0)]
    """
    Sum over its seconds of the bytes that it had.
    """
    module: str
    """
    The module.
    """
    node: str
    """
    The node.
    """
    packets_in: Annotated[int, Field(ge=0)]
    """
    Packets that came to it.
    """
    packets_out: Annotated[int, Field(ge=0)]
    """
    Packets that left it, and its enforcer.
    """
    request: str
    """
    The request.
    """
    seconds: Annotated[int, Field(ge=0)]
    """
    How long it ran, or has run so far.
    """
    tenant: str | None = None
    """
    Whose it is; without one it is the operator's.
    """


class Alarm(BaseModel):
    """
    An alarm of a graph's monitoring.
    """

    message: str
    """
    The message.
    """
    on: str
    """
    What happened: `a->b` from one zone to another, `->a` entered, `a->` left, `a` in it.
    """
    topic: str
    """
    The topic.
    """


class CapableImage(BaseModel):
    """
    An image that has a capability.
    """

    features: list[str]
    """
    What it has beside the usual.
    """
    image: str
    """
    Its name.
    """
    kind: str
    """
    The kind of function that it is.
    """
    lack: str | None = None
    """
    What the node lacks to run it; without it, it can.
    """
    ports: Annotated[int, Field(ge=0)]
    """
    Number of its ports.
    """
    version: str | None = None
    """
    Its version.
    """


class Certificate(BaseModel):
    """
    A node's certificate.
    """

    chain: str
    """
    It and its authority's, in PEM.
    """


class Changed(BaseModel):
    """
    The result of a change.
    """

    id: str
    """
    The graph.
    """
    revision: Annotated[int, Field(ge=0)]
    """
    The revision that runs now.
    """
    unchanged: bool
    """
    Whether it was as asked for already.
    """
    warnings: list[str] | None = None
    """
    What may go wrong, such as packets that are too large for an access point.
    """


class Changes(BaseModel):
    """
    Parts of a graph by identifier.
    """

    added: list[str]
    """
    Those that are new.
    """
    changed: list[str]
    """
    Those that are different.
    """
    removed: list[str]
    """
    Those that go.
    """


class Counts(BaseModel):
    """
    Packets and bytes.
    """

    bytes: Annotated[int, Field(ge=0)]
    """
    Their bytes.
    """
    packets: Annotated[int, Field(ge=0)]
    """
    Packets.
    """


class DirectLink(BaseModel):
    """
    A link past the switch.
    """

    setup_micros: Annotated[int, Field(ge=0)]
    """
    Microseconds that it took until packets went by it.
    """


class DomainImage(BaseModel):
    """
    An image, and what a function of it may come to take.
    """

    cpu: Annotated[int | None, Field(ge=0)] = None
    """
    Processor time, in thousandths of a processor. Without one it takes what others leave.
    """
    image: str
    """
    Its name.
    """
    kind: str
    """
    The kind of function that it is.
    """
    lack: str | None = None
    """
    What the node lacks to run it; without it, it can.
    """
    memory: Annotated[int, Field(ge=0)]
    """
    Bytes of memory; 0 for what runs inline, whose tables are counted as graphs come.
    """
    secrets: list[str] | None = None
    """
    The names of its parameters that are secrets.
    """


class DrainedGraph(BaseModel):
    """
    The outcome of a drain for one graph.
    """

    id: str
    """
    The graph.
    """
    node: str | None = None
    """
    The node that has it now.
    """
    reason: str | None = None
    """
    Why it stays where it is.
    """


class Drift(BaseModel):
    """
    A handler write that the document does not have.
    """

    function: str
    """
    The function.
    """
    handler: str
    """
    Its handler.
    """
    value: str
    """
    What was written last.
    """


class DropCount(BaseModel):
    """
    Packets dropped for one reason.
    """

    count: Annotated[int, Field(ge=0)]
    """
    How many packets.
    """
    reason: str
    """
    The reason's name.
    """


class ElementDrops(BaseModel):
    """
    Packets that an element of the configuration dropped for one reason.
    """

    count: Annotated[int, Field(ge=0)]
    """
    How many packets.
    """
    element: str
    """
    The element's name; those of a function begin with the function's.
    """
    reason: str
    """
    The reason's name.
    """


class ElementTime(BaseModel):
    """
    The time that an element takes.
    """

    cycles_per_packet: float
    """
    Cycles a packet (of the time stamp counter, on x86-64; elsewhere nanoseconds).
    """
    element: str
    """
    The element's name; those of a function begin with the function's.
    """
    packets: Annotated[int, Field(ge=0)]
    """
    Packets that came in while it was measured.
    """
    share: float
    """
    Its share of the time of all elements, from 0 to 1.
    """


class ElementUsage(BaseModel):
    """
    The usage of an element.
    """

    bytes: Annotated[int, Field(ge=0)]
    """
    Bytes of these.
    """
    cycles: Annotated[int, Field(ge=0)]
    """
    Cycles of the batches that were measured.
    """
    memory: Annotated[int, Field(ge=0)]
    """
    Bytes of memory of its tables.
    """
    packets: Annotated[int, Field(ge=0)]
    """
    Packets that passed, if it is a `Counter`.
    """


class EnforcerRules(BaseModel):
    """
    The rules of an enforcer for packets that leave a sandbox.
    """

    answers: Annotated[int, Field(ge=0)]
    """
    For so many seconds after a packet came to the module, answers to it leave, whoever sent it.
    """
    destinations: list[str]
    """
    Prefixes of those who agreed to get what the module sends; `0.0.0.0/0` is anybody.
    """


class Flow(BaseModel):
    """
    A class of packets between two access points, with one of them.
    """

    after: str
    """
    What would become of it.
    """
    before: str
    """
    What becomes of it now.
    """
    from_: Annotated[str, Field(alias="from")]
    """
    Where it comes in.
    """
    hex: str
    """
    Its bytes in hexadecimal.
    """
    packet: str
    """
    The packet as it comes in, in one line.
    """
    to: str
    """
    Where it arrives.
    """


class FlowCache(BaseModel):
    """
    How well the results of a lookup are kept for flows, since the last change of the graph.
    """

    entries: Annotated[int, Field(ge=0)]
    """
    Entries of the cache; 0 while it would not pay.
    """
    hits: Annotated[int, Field(ge=0)]
    """
    Lookups that were spared.
    """
    misses: Annotated[int, Field(ge=0)]
    """
    Lookups whose result was kept.
    """
    table: str
    """
    The table that is looked up in, with its element.
    """


class FunctionUsage(BaseModel):
    """
    The usage of a function.
    """

    cpu: Annotated[int | None, Field(ge=0)] = None
    """
    Processor time, in microseconds, of one that is not inline. It counts from 0 when the function is started again.
    """
    elements: dict[str, ElementUsage] | None = None
    """
    Its elements, by name, if it is inline and there is something to say of them.
    """
    kind: str
    """
    The kind of function.
    """
    memory: Annotated[int | None, Field(ge=0)] = None
    """
    Bytes of memory, of one that is not inline.
    """


class GivenState(BaseModel):
    """
    A round of a function's state that it is given.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    function: str
    """
    The function.
    """
    leave: list[str] | None = None
    """
    Said if the function is of another version here: the tables, as `ELEMENT.TABLE`, that may end.
    """
    round: str
    """
    The round, as it was taken.
    """


class GraphLifeChange(BaseModel):
    """
    Another life of a graph.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    anew: bool | None = None
    """
    Whether it begins without the state that it was suspended with.
    """
    state: Literal["running", "suspended"]
    """
    What is to be done with it.
    """


class Hello(BaseModel):
    """
    A node that has joined is about to make its connection: this says beforehand if it would not be taken.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    version: str
    """
    Its version.
    """


class ImageError(BaseModel):
    """
    An image that cannot be used. Others are not concerned.
    """

    errors: list[str]
    """
    What is wrong with it, one line each.
    """
    name: str
    """
    The image's name, as far as it is known.
    """
    path: str
    """
    The file or directory.
    """


class ImageHandler(BaseModel):
    """
    A public handler of an image.
    """

    access: str
    """
    `r`, `w` or `rw`.
    """
    doc: str
    """
    What it is for.
    """
    name: str
    """
    Its name.
    """


class ImagePort(BaseModel):
    """
    A port of an image.
    """

    doc: str
    """
    What it is for.
    """
    name: str
    """
    Its name.
    """


class ImageTablesRequest(BaseModel):
    """
    Which tables of an image are asked for.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    params: dict[str, Any]
    """
    Values of its parameters, as in documents.
    """


class Inside(BaseModel):
    """
    How a program is started inside a function.
    """

    launch: Any
    """
    For this version of the program, on the machine of the node: namespaces, control group, directories, environment, command.
    """


class JoinRequest(BaseModel):
    """
    A node asks to join.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    name: str
    """
    The name that it wants: up to 63 of a to z, 0 to 9 and `-`.
    """
    request: str
    """
    A request for a certificate (PKCS #10) in PEM.
    """
    secret: str
    """
    The secret of the token.
    """


class KindStatus(BaseModel):
    """
    A kind of function.
    """

    kind: str
    """
    The word for it in `function.yaml`.
    """
    lack: str | None = None
    """
    What the node lacks to run functions of the kind; without it, it can.
    """
    ports: list[str] | None = None
    """
    How its functions may meet the switch; empty: they are part of it.
    """


class LifeChange(BaseModel):
    """
    A change of a function's state.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    state: Literal["running", "stopped", "bypass"]
    """
    What it is to do with packets.
    """


class LinkEnd(BaseModel):
    """
    An end of a link.
    """

    address: str
    """
    The address there; empty where none is known, so that only VLANs go there.
    """
    interface: str
    """
    Its interface.
    """
    node: str
    """
    The node.
    """


class LinkPort(BaseModel):
    """
    An interface of a node.
    """

    interface: str
    """
    The interface.
    """
    node: str
    """
    The node.
    """


class Vlan(RootModel[int]):
    root: Annotated[int, Field(ge=0)]


class LinkSettings(BaseModel):
    """
    The operator's settings of the link between two nodes.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    addresses: Annotated[list[str] | None, Field(max_length=2, min_length=2)] = None
    """
    The IPv4 address of the end at the first node, and at the other one, if the nodes are to reach each other there; without them, where they have addresses of one network.
    """
    capacity: Annotated[int | None, Field(ge=1, le=1000000000)] = None
    """
    What it can carry in each direction, in kbit/s.
    """
    delay: Annotated[int | None, Field(ge=1, le=10000000)] = None
    """
    How long packets take, in microseconds.
    """
    encapsulation: Literal["vxlan", "wireguard", "gre", "vlan"] | None = None
    mtu: Annotated[int | None, Field(ge=576, le=65535)] = None
    """
    The largest IP packet that passes, in bytes, where that is less than its interfaces take.
    """
    vlans: Annotated[list[Vlan] | None, Field(max_length=2, min_length=2)] = None
    """
    With `vlan`: the first and the last VLAN that tunnels may have there. No VLAN is that of two tunnels of a domain, and documents cannot have these.
    """


class LinkStatus(BaseModel):
    """
    Traffic between two places of a graph.
    """

    bytes: Annotated[int, Field(ge=0)]
    """
    Their bytes, Ethernet header included, frame check sequence not.
    """
    direct: DirectLink | None = None
    from_: Annotated[str, Field(alias="from")]
    """
    Where packets come from, as in flow rules: `sap:ID` or `sf:ID:PORT`.
    """
    packets: Annotated[int, Field(ge=0)]
    """
    Packets carried.
    """
    to: str
    """
    Where they go to.
    """


class LinkUse(BaseModel):
    """
    The traffic over a link in one direction.
    """

    measured: Annotated[int | None, Field(ge=0)] = None
    """
    What tunnels of graphs carried when that was looked at last, in bits a second, without what the tunnels add; none if nobody knows yet.
    """
    promised: Annotated[int, Field(ge=0)]
    """
    What graphs may send there, in kbit/s, as far as they say it.
    """


class Mark(BaseModel):
    """
    How far a controller has got.
    """

    generation: Annotated[int, Field(ge=0)]
    """
    Counts the changes of what is wanted in the domain.
    """
    run: str
    """
    Names one run of the controller, from its start to its end.
    """


class MeasurementStatus(BaseModel):
    """
    A measurement.
    """

    metric: str
    """
    What is measured, such as `rate.rx`.
    """
    name: str
    """
    Its name.
    """
    value: float | None = None
    """
    The newest value, if there is one.
    """


class MetricsToken(BaseModel):
    """
    A token by which metrics are read.
    """

    token: str
    """
    For `Authorization: Bearer TOKEN`.
    """


class MissingLink(BaseModel):
    """
    A link that was declared, and that nodes do not have.
    """

    nodes: list[str]
    """
    Its nodes, by name.
    """
    reason: str
    """
    Why it is not there.
    """


class ModuleAddress(BaseModel):
    """
    Where a module is reached.
    """

    address: str
    """
    Its address, which is no other's, unless there are `ports`: else all protocols and ports of it are the module's.
    """
    enforcer: EnforcerRules | None = None
    name: str
    """
    The module.
    """
    name_in_dns: Annotated[str | None, Field(alias="name-in-dns")] = None
    """
    Its name at the operator's DNS server, where it stands until the module ends.
    """
    ports: str | None = None
    """
    Of an address that others share: the ports that are the module's, the first and the last, as `20000-20015`.
    """
    protocols: str | None = None
    """
    The protocols of these ports: `tcp`, `udp`, or `all`, which is both, and echoes of ICMP with identifiers that are such ports.
    """
    sandbox: str | None = None
    """
    If it runs in a sandbox behind an enforcer: the kind of function that it is, `process` for example.
    """


class MoveRequest(BaseModel):
    """
    Where a function is to go.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    image: str | None = None
    """
    The image that it is made of there, as `NAME` or `NAME@VERSION`; if nothing is said, the one that it is made of now. What is in its tables goes to those of
    the same element, name and fields.
    """
    kind: Literal["inline", "process"] | None = None
    leave: list[str] | None = None
    """
    Tables, as `ELEMENT.TABLE`, whose content may end because the other image has none that it fits.
    """
    plan: bool | None = None
    """
    Whether only to say what the move would be.
    """
    to: str
    """
    The node.
    """


class MoveStepDone(BaseModel):
    """
    The result of a step of a move.
    """

    counted: dict[str, int] | None = None
    """
    How many packets went out by each access point.
    """
    dropped: Annotated[int | None, Field(ge=0)] = None
    """
    Packets for which there was no space there.
    """
    left: Annotated[int | None, Field(ge=0)] = None
    """
    Packets on their way between a graph and the function's own data plane that did not arrive, and may be lost.
    """
    missing: dict[str, int] | None = None
    """
    Packets that were awaited and have not come, by access point.
    """
    round: str | None = None
    """
    The round of the state.
    """
    waiting: Annotated[int | None, Field(ge=0)] = None
    """
    Packets that wait before the function.
    """


class Moved(BaseModel):
    """
    A function has moved, or would.
    """

    begin: list[str] | None = None
    """
    Tables of the other image, as `ELEMENT.TABLE`, that begin empty.
    """
    bytes: Annotated[int, Field(ge=0)]
    """
    Bytes of its state.
    """
    dropped: Annotated[int | None, Field(ge=0)] = None
    """
    Packets for which there was no space to wait.
    """
    end: list[str] | None = None
    """
    Tables that the other image has nothing for, and that end.
    """
    from_: Annotated[str, Field(alias="from")]
    """
    The node that it was at.
    """
    function: str
    """
    The function.
    """
    graph: str
    """
    The graph.
    """
    image: str | None = None
    """
    The image that it is made of from now on, with its version, if that is another one.
    """
    left: Annotated[int | None, Field(ge=0)] = None
    """
    Packets on their way between the graph and the function's process that did not arrive in the time that they are waited for: they may be lost.
    """
    missing: Annotated[int | None, Field(ge=0)] = None
    """
    Packets that nodes sent each other by the old paths and that did not arrive, since these are there.
    """
    pause_micros: Annotated[int, Field(ge=0)]
    """
    Microseconds for which packets waited, or are expected to.
    """
    plan: bool
    """
    Whether that is a plan, and nothing was done.
    """
    refused: list[str] | None = None
    """
    Of a plan: what the move would be refused for, unless it is allowed by name.
    """
    to: str
    """
    The node that it is at now.
    """
    waited: Annotated[int | None, Field(ge=0)] = None
    """
    Packets that waited for it, at both nodes.
    """


class Neighbour(BaseModel):
    """
    A node whose probes come in at an interface. Whoever is there can send some that say anything: a link is one where both ends hear each other.
    """

    interface: str
    """
    The interface that it sends them from.
    """
    mac: str
    """
    The Ethernet address that they are from.
    """
    node: str
    """
    Its name.
    """


class NodeChange(BaseModel):
    """
    A change of a node.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    cordoned: bool
    """
    Whether it gets no new graphs.
    """


class NotPlaced(BaseModel):
    """
    A node that a graph would not go to.
    """

    node: str
    """
    The node.
    """
    reason: str
    """
    What speaks against it.
    """


class OtherImage(BaseModel):
    """
    An image that was not chosen.
    """

    image: str
    """
    Its name.
    """
    kind: str
    """
    The kind of function that it is.
    """
    why: str
    """
    Why not this one.
    """


class Parameter(BaseModel):
    """
    A parameter of an image.
    """

    default: str | None = None
    """
    Its value, as text, if a graph gives none.
    """
    doc: str
    """
    What it is for.
    """
    name: str
    """
    Its name.
    """
    required: bool
    """
    Whether a graph must give it.
    """
    secret: bool | None = None
    """
    Whether it is a secret, which is shown to nobody.
    """
    type: str
    """
    What values it takes: `text`, `int`, `bool`, `ip`, `prefix`, `mac` or `port`.
    """
    values: str
    """
    The same in words, with bounds.
    """


class Placement(BaseModel):
    """
    Where a graph would go.
    """

    functions: dict[str, str] | None = None
    """
    The node of each function, of a graph over several nodes.
    """
    nodes: list[str]
    """
    The nodes.
    """
    others: list[NotPlaced]
    """
    The other nodes, and what spoke against them.
    """
    reason: str
    """
    What spoke for them.
    """
    saps: dict[str, str] | None = None
    """
    The node of each service access point.
    """
    tunnels: list[str] | None = None
    """
    The tunnels between the nodes.
    """


class PlaneUsage(BaseModel):
    """
    A data plane, which all graphs of a node share.
    """

    cpu: Annotated[int, Field(ge=0)]
    """
    Processor time that it took, in microseconds.
    """
    cycles: Annotated[int, Field(ge=0)]
    """
    Cycles that were measured in elements of all graphs: the share of an element in these is its share of the time.
    """
    process: str
    """
    Which process it is: another one counts from 0.
    """


class Question(BaseModel):
    """
    A measurement: the quantity, and its subject.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    function: Annotated[str | None, Field(max_length=256, min_length=1)] = None
    """
    The function of the graph; without one, all.
    """
    graph: Annotated[str | None, Field(max_length=64, min_length=1)] = None
    """
    The graph; without one, all that the tenant has.
    """
    handler: Annotated[str | None, Field(max_length=256, min_length=1)] = None
    """
    The public handler, for the measure `handler`.
    """
    measure: Literal[
        "packets_count", "bytes_count", "cpu_util", "mem_util", "handler", "lqm"
    ]
    """
    What is measured.
    """
    tenant: Annotated[str | None, Field(max_length=64, min_length=1)] = None
    """
    The tenant, if no graph is named; without one, all.
    """


class Quotas(BaseModel):
    """
    The limits of a tenant; without one there is none.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    cpu: Annotated[int | None, Field(ge=0)] = None
    """
    Most processor time of the same, in thousandths of a processor.
    """
    graphs: Annotated[int | None, Field(ge=0)] = None
    """
    Most graphs.
    """
    memory: Annotated[int | None, Field(ge=0)] = None
    """
    Most bytes of memory that its functions that are not inline may come to take together.
    """
    requests: Annotated[int | None, Field(ge=0)] = None
    """
    Most requests a second, with ten seconds' worth at once.
    """


class Rate(BaseModel):
    """
    Packets and bytes in a second.
    """

    bytes: float
    """
    Bytes a second.
    """
    packets: float
    """
    Packets a second.
    """


class Reading(BaseModel):
    """
    Something measured.
    """

    bytes: Annotated[int | None, Field(ge=0)] = None
    """
    Bytes of memory.
    """
    function: str | None = None
    """
    The function.
    """
    graph: str | None = None
    """
    The graph.
    """
    interface: str | None = None
    """
    The interface.
    """
    node: str | None = None
    """
    The node, in a domain.
    """
    receive_rate: Rate | None = None
    received: Counts | None = None
    send_rate: Rate | None = None
    sent: Counts | None = None
    text: str | None = None
    """
    What a handler says.
    """
    value: float | None = None
    """
    The value that conditions are about; none of what needs two looks, at the first.
    """


class RemovedLater(BaseModel):
    """
    A graph was removed from what the node should run, and goes from what it runs later.
    """

    id: str
    """
    The graph.
    """
    reason: str
    """
    Why it is not gone yet.
    """


class RenewRequest(BaseModel):
    """
    A node asks for another certificate, over a connection on which it shows the one that it has.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    request: str
    """
    A request for a certificate (PKCS #10) in PEM.
    """


class Report(BaseModel):
    """
    A report of a query.
    """

    ended: bool | None = None
    """
    Whether it was the last.
    """
    query: str
    """
    The query's name.
    """
    readings: list[Reading]
    """
    What was measured; with `when`, only that of which it began to hold.
    """


class SapStatus(BaseModel):
    """
    The traffic of an access point.
    """

    id: str
    """
    Its identifier.
    """
    packets_in: Annotated[int, Field(ge=0)]
    """
    Packets that came in.
    """
    packets_out: Annotated[int, Field(ge=0)]
    """
    Packets that left.
    """


class ServiceGraphDocument(BaseModel):
    """
    A service graph, as docs/service-graph.md says.
    """


class Share(BaseModel):
    """
    Of one resource.
    """

    total: Annotated[int, Field(ge=0)]
    """
    What graphs may be promised.
    """
    used: Annotated[int, Field(ge=0)]
    """
    What functions that are not inline may come to take, and what the data plane has taken, in steps of 16 MB.
    """


class State(BaseModel):
    """
    A life-cycle state; in documents `"state": "failed", "reason": "…"`.
    """

    state: Literal[
        "starting", "running", "degraded", "failed", "idle", "stopped", "bypass"
    ]
    reason: str | None = None
    """
    What is wrong.
    """


class TableFate(BaseModel):
    """
    The effect of a change on a table.
    """

    entries: Annotated[int, Field(ge=0)]
    """
    Number of its entries.
    """
    kept: bool
    """
    Whether it is kept: an element of the same name and class remains.
    """
    table: str
    """
    `element.table`.
    """


class TableField(BaseModel):
    """
    A field of a table.
    """

    bits: Annotated[int, Field(ge=0)]
    """
    Its size.
    """
    name: str
    """
    Its name.
    """


class TakenState(BaseModel):
    """
    A round of a function's state that is asked for.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    first: bool
    """
    Whether all is asked for, and not only what changed since the round before.
    """
    function: str
    """
    The function.
    """
    last: bool
    """
    Whether the function is stopped, so that packets and timers go as well.
    """


class TenantSettings(BaseModel):
    """
    The settings of a tenant: what it is and may have.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    kind: Literal["client", "third-party"] | None = None
    """
    What it is to the operator.
    """
    quotas: Quotas | None = None
    """
    What it may have.
    """


class Token(BaseModel):
    """
    A token by which nodes join. It is shown once.
    """

    expires: Annotated[int, Field(ge=0)]
    """
    Until when it is good, in seconds since the epoch.
    """
    token: str
    """
    The text for `weir node --join URL --token`.
    """


class TokenRequest(BaseModel):
    """
    A request for a token by which nodes join.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    seconds: Annotated[int | None, Field(ge=1, le=31536000)] = None
    """
    How long it is good, in seconds.
    """
    uses: Annotated[int | None, Field(ge=1, le=10000)] = None
    """
    How many nodes may join by it.
    """


class TraceRequest(BaseModel):
    """
    A request for a trace.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    count: Annotated[int | None, Field(ge=0)] = None
    """
    How many packets, at most 10,000.
    """
    filter: str | None = None
    """
    Which packets, in the filter language; empty: all.
    """


class Traffic(BaseModel):
    """
    The effect of a change on the packets between access points.
    """

    altered: list[Flow]
    """
    What would arrive as before, but with other contents.
    """
    gained: list[Flow]
    """
    What would arrive and does not now.
    """
    lost: list[Flow]
    """
    What arrives and would not any more.
    """
    malformed: list[str] | None = None
    """
    What becomes of packets that no host sends, where it changes and that of others does not: a line for each class.
    """
    unknown: list[str] | None = None
    """
    What is not known of it, and why.
    """


class TunnelUse(BaseModel):
    """
    A tunnel that a graph has.
    """

    graph: str
    """
    The graph.
    """
    key: Annotated[int | None, Field(ge=0)] = None
    """
    The key of GRE, or the VNI of VXLAN.
    """
    kind: str
    """
    `gre`, `vxlan` or `wireguard` (VXLAN inside of it).
    """
    local: str
    """
    This end's address.
    """
    remote: str
    """
    The other end's address.
    """


class Unconfirmed(BaseModel):
    """
    When a revision goes back that nobody confirms, and to what.
    """

    back: Annotated[int | None, Field(ge=0)] = None
    """
    The revision that comes back. Without one the graph is removed, since it was not there before.
    """
    seconds: Annotated[int, Field(ge=0)]
    """
    So many seconds after it was applied.
    """
    until: Annotated[int, Field(ge=0)]
    """
    Milliseconds since the epoch.
    """


class Usage(BaseModel):
    """
    The resources that a tenant has taken.
    """

    cpu: Annotated[int, Field(ge=0)]
    """
    Thousandths of a processor.
    """
    graphs: Annotated[int, Field(ge=0)]
    """
    Graphs.
    """
    memory: Annotated[int, Field(ge=0)]
    """
    Bytes of memory.
    """


class VlanUse(BaseModel):
    """
    A VLAN that a graph has.
    """

    graph: str
    """
    The graph.
    """
    vlan: Annotated[int, Field(ge=0)]
    """
    Its number.
    """


class Welcome(BaseModel):
    """
    The node is known.
    """

    version: str
    """
    The controller's version.
    """


class Who(BaseModel):
    """
    The author of an audited request.
    """

    address: str | None = None
    """
    Where the request came from, as `ADDRESS:PORT`.
    """
    fingerprint: str | None = None
    """
    The fingerprint of the key.
    """
    name: str
    """
    The name.
    """
    role: Literal["operator", "tenant", "read-only", "join"]
    """
    The role.
    """
    tenant: str | None = None
    """
    The tenant.
    """


class WhoAmI(BaseModel):
    """
    The caller of a request.
    """

    fingerprint: str | None = None
    """
    The fingerprint of the key.
    """
    functions: list[str] | None = None
    """
    The only functions of that graph.
    """
    graph: str | None = None
    """
    The only graph that it reaches.
    """
    kind: Literal["client", "third-party"] | None = None
    login: bool
    """
    Whether a login is asked for; without one, everyone is an operator.
    """
    name: str
    """
    The name.
    """
    role: Literal["operator", "tenant", "read-only", "join"]
    """
    The role.
    """
    tenant: str | None = None
    """
    The tenant.
    """


class ZoneStatus(BaseModel):
    """
    A zone.
    """

    age: Annotated[int, Field(ge=0)]
    """
    For how long, in milliseconds.
    """
    entered: bool | None = None
    """
    Whether it is entered; not known until there were samples.
    """
    name: str
    """
    Its name.
    """


class AccountingList(BaseModel):
    """
    A list of accounting records of modules.
    """

    records: list[AccountingRecord]
    """
    By request, in the order in which they came, and by module.
    """


class Adjacency(BaseModel):
    """
    Interfaces of two nodes that hear each other's probes, beside the link that tunnels go by.
    """

    a: LinkPort
    """
    The end at the node that comes first by name.
    """
    b: LinkPort
    """
    The other end.
    """


class Capability(BaseModel):
    """
    Something that functions can be asked for.
    """

    capability: str
    """
    The word.
    """
    images: list[CapableImage]
    """
    The images that have it, by name.
    """


class CaptureRequest(BaseModel):
    """
    A request for a capture.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    count: Annotated[int | None, Field(ge=0)] = None
    """
    How many packets, of all places together; 0: until the client goes.
    """
    direction: Literal["from", "to", "both"] | None = None
    """
    For places: packets from there, to there, or both.
    """
    filter: str | None = None
    """
    Which packets, in the filter language; empty: all.
    """
    points: list[str] | None = None
    """
    Where: places as in flow rules (`sap:ID`, `sf:FUNCTION:PORT`), or elements of the configuration (`element`,
    `element[output]`, `[input]element`); none: every access point of the graph.
    """
    snaplen: Annotated[int | None, Field(ge=0)] = None
    """
    Most bytes of each packet.
    """


class Captured(BaseModel):
    """
    A line of a capture.
    """

    bytes: str | None = None
    """
    Its bytes (at most the snap length), in hex.
    """
    direction: Literal["from", "to", "both"] | None = None
    kind: Literal["packet", "notice"]
    length: Annotated[int | None, Field(ge=0)] = None
    """
    Length on the wire.
    """
    point: str | None = None
    """
    Where it passed, as it was asked for.
    """
    time: Annotated[int | None, Field(ge=0)] = None
    """
    Nanoseconds since the epoch.
    """
    text: str | None = None
    """
    More, for people.
    """
    what: str | None = None
    """
    `overrun`: the reader was too slow, and the capture ends.
    """


class Choice(BaseModel):
    """
    The image that was chosen for a function that asks for a capability.
    """

    capability: str
    """
    What it asks for.
    """
    function: str
    """
    The function's identifier.
    """
    image: str
    """
    The image.
    """
    kind: str
    """
    The kind of function that it is.
    """
    others: list[OtherImage] | None = None
    """
    The other images with the capability, by name.
    """
    why: str
    """
    Why this one.
    """


class Condition(BaseModel):
    """
    A condition on a value.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    relation: Literal["GT", "LT", "GE", "LE", "EQ"]
    """
    How it is compared.
    """
    value: float
    """
    With what.
    """


class ControllerLink(BaseModel):
    """
    The controller of a node, as the node sees it.
    """

    connected: bool
    """
    Whether the connection stands. Without it everything goes on as it is.
    """
    mark: Mark | None = None
    node: str
    """
    The node's name there.
    """
    since: Annotated[int, Field(ge=0)]
    """
    Since when that is so, in milliseconds since the epoch.
    """
    trouble: str | None = None
    """
    Why there is no connection.
    """
    url: str
    """
    Its address.
    """


class DeviceStatus(BaseModel):
    """
    An interface. Counts are since the data plane opened it.
    """

    drops: list[DropCount] | None = None
    """
    Why packets ended between the interface, or the address of tunnels, and the graphs: those of no access point, and those that
    could not be sent.
    """
    name: str
    """
    Its name.
    """
    rx_bytes: Annotated[int, Field(ge=0)]
    """
    Bytes received.
    """
    rx_dropped: Annotated[int, Field(ge=0)]
    """
    Packets that came, and for which there was no space.
    """
    rx_packets: Annotated[int, Field(ge=0)]
    """
    Packets received.
    """
    state: str
    """
    `up`, or what is wrong with it.
    """
    tx_bytes: Annotated[int, Field(ge=0)]
    """
    Bytes sent.
    """
    tx_dropped: Annotated[int, Field(ge=0)]
    """
    Packets that could not be sent.
    """
    tx_packets: Annotated[int, Field(ge=0)]
    """
    Packets sent.
    """


class Drained(BaseModel):
    """
    The outcome of a drain for the node's graphs.
    """

    graphs: list[DrainedGraph]
    """
    By identifier.
    """


class Endpoint(BaseModel):
    """
    An interface at which graphs can have access points.
    """

    addresses: list[str]
    """
    Its addresses, with their prefix lengths. GRE and VXLAN tunnels can end at those of IPv4.
    """
    graph: str | None = None
    """
    The graph that has the interface itself: all of its traffic that no VLAN takes. Without one it is free.
    """
    interface: str
    """
    The interface.
    """
    mac: str | None = None
    """
    Its Ethernet address, if it has one.
    """
    mtu: Annotated[int | None, Field(ge=0)] = None
    """
    Its largest IP packet, in bytes.
    """
    neighbours: list[Neighbour] | None = None
    """
    Nodes of the same domain whose probes come in here, as these say.
    """
    up: bool
    """
    Whether it is up.
    """
    vlans: list[VlanUse]
    """
    The VLANs that graphs have; all others are free.
    """


class Event(BaseModel):
    """
    An event.
    """

    alarm: Alarm | None = None
    graph: str | None = None
    """
    The graph, if one is concerned.
    """
    id: Annotated[int | None, Field(ge=0)] = None
    """
    Its number, greater than those of all events before; without one it is not kept.
    """
    kind: Literal[
        "applied",
        "changed",
        "removed",
        "failed",
        "recovered",
        "function-down",
        "function-hung",
        "function-up",
        "device-up",
        "device-down",
        "engine-up",
        "engine-down",
        "controller-up",
        "controller-down",
        "node-joined",
        "node-removed",
        "node-online",
        "node-offline",
        "policy",
        "domain",
        "query",
        "alarm",
        "print",
        "notice",
    ]
    """
    What happened.
    """
    node: str | None = None
    """
    The node of a domain, if one is concerned.
    """
    report: Report | None = None
    tenant: str | None = None
    """
    The tenant that the graph belongs to, if it is one of a tenant's.
    """
    text: str
    """
    More, for people.
    """
    time: Annotated[int, Field(ge=0)]
    """
    Milliseconds since the epoch.
    """


class EventList(BaseModel):
    """
    Events that are kept.
    """

    events: list[Event]
    """
    Oldest first.
    """


class FunctionLife(BaseModel):
    """
    The life of a function.
    """

    dropped: Annotated[int | None, Field(ge=0)] = None
    """
    Packets for which there was no space there.
    """
    state: Literal["running", "stopped", "bypass"]
    """
    What it does with packets.
    """
    waiting: Annotated[int | None, Field(ge=0)] = None
    """
    Packets that wait before it.
    """


class FunctionStatus(State):
    """
    The state of a function.
    """

    cores: str | None = None
    """
    The cores that it runs on, as `2-3,6`, if these are not all.
    """
    drops: list[DropCount]
    """
    Packets dropped inside, by reason, reasons with a count only.
    """
    engine: str
    """
    What executes it, such as `inline` or `container`.
    """
    id: str
    """
    The function's identifier in its graph.
    """
    image: str | None = None
    """
    The image that it is made from.
    """
    name: str
    """
    The function's name.
    """
    packets_in: Annotated[int, Field(ge=0)]
    """
    Packets that entered by any port.
    """
    packets_out: Annotated[int, Field(ge=0)]
    """
    Packets that left by any port.
    """


class GraphSummary(State):
    """
    A graph in the list of graphs.
    """

    drift: Annotated[int | None, Field(ge=0)] = None
    """
    Number of handlers that were written beside the document.
    """
    functions: Annotated[int, Field(ge=0)]
    """
    Number of its functions.
    """
    id: str
    """
    Its identifier.
    """
    name: str
    """
    Its name.
    """
    node: str | None = None
    """
    The node that it is on, in a domain.
    """
    owner: str | None = None
    """
    The controller that it belongs to, on a node.
    """
    revision: Annotated[int, Field(ge=0)]
    """
    Counts its changes from 1.
    """
    tag: str | None = None
    """
    Its entity tag.
    """
    tenant: str | None = None
    """
    The tenant that it belongs to.
    """
    zones: list[str] | None = None
    """
    The zones of its monitoring that are entered.
    """


class GraphUsage(BaseModel):
    """
    The usage of a graph.
    """

    functions: dict[str, FunctionUsage]
    """
    By function.
    """
    graph: str
    """
    The graph.
    """
    plane: PlaneUsage
    """
    The data plane that counts.
    """
    tenant: str | None = None
    """
    Its tenant.
    """


class Health(BaseModel):
    """
    How the node is.
    """

    controller: ControllerLink | None = None
    failed: Annotated[int, Field(ge=0)]
    """
    Number of graphs that cannot run.
    """
    graphs: Annotated[int, Field(ge=0)]
    """
    Number of graphs.
    """
    ready: bool
    """
    Whether the data plane can be reached and was brought to the desired state.
    """
    trouble: str | None = None
    """
    What is wrong with the data plane, if anything.
    """
    version: str
    """
    The daemon's version.
    """


class ImageDetails(BaseModel):
    """
    An image in full.
    """

    capabilities: list[str] | None = None
    """
    What it can be used as: graphs may ask for it by these words.
    """
    description: str
    """
    What it does.
    """
    digest: str | None = None
    """
    A hash of all that is in its folder: nodes that say the same have the same image.
    """
    features: list[str] | None = None
    """
    What it has beside the usual, for graphs that ask for it.
    """
    handlers: list[ImageHandler]
    """
    Its public handlers.
    """
    kind: str
    """
    What runs it: `click` (the data plane, inline) or `native`.
    """
    name: str
    """
    The name that graphs ask for.
    """
    params: list[Parameter]
    """
    Its parameters.
    """
    ports: list[ImagePort]
    """
    Its ports, in their order.
    """
    version: str | None = None
    """
    Its version.
    """


class ImageSummary(BaseModel):
    """
    An image.
    """

    capabilities: list[str] | None = None
    """
    What it can be used as: graphs may ask for it by these words.
    """
    description: str
    """
    What it does.
    """
    features: list[str] | None = None
    """
    What it has beside the usual, for graphs that ask for it.
    """
    handlers: dict[str, str]
    """
    Names of its public handlers with `r`, `w` or `rw`.
    """
    kind: str
    """
    What runs it: `click` (the data plane, inline) or `native`.
    """
    name: str
    """
    The name that graphs ask for.
    """
    params: list[Parameter]
    """
    Its parameters.
    """
    ports: list[str]
    """
    Names of its ports.
    """
    version: str | None = None
    """
    Its version.
    """


class ImageTable(BaseModel):
    """
    A table of a function, as it is declared.
    """

    capacity: Annotated[int, Field(ge=0)]
    """
    Most entries.
    """
    class_: Annotated[str, Field(alias="class")]
    """
    The element's class; empty if several share it.
    """
    element: str
    """
    The element that it is of, within the function; or the name by which several elements share it.
    """
    key: list[TableField]
    """
    The fields of keys.
    """
    kind: str
    """
    How entries are found: `exact`, `lpm`, `rules` or `array`.
    """
    name: str
    """
    Its name.
    """
    value: list[TableField]
    """
    The fields of values.
    """


class ImageTables(BaseModel):
    """
    The tables of a function of an image.
    """

    tables: list[ImageTable]
    """
    Those that packets change.
    """


class Key(BaseModel):
    """
    A key that is known.
    """

    added: Annotated[int, Field(ge=0)]
    """
    When it was added, in milliseconds since the epoch.
    """
    fingerprint: str
    """
    Its fingerprint, as `ssh-keygen -l` prints it.
    """
    functions: list[str] | None = None
    """
    The only functions of that graph.
    """
    graph: str | None = None
    """
    The only graph that it reaches.
    """
    name: str
    """
    Its name.
    """
    public_key: str
    """
    The line of its `.pub` file.
    """
    role: Literal["operator", "tenant", "read-only", "join"]
    """
    What its owner is.
    """
    tenant: str | None = None
    """
    The tenant that its owner acts for.
    """


class KeyList(BaseModel):
    """
    The keys that are known.
    """

    keys: list[Key]
    """
    By name.
    """


class LinkSummary(BaseModel):
    """
    Two nodes that reach each other: tunnels between them go there.
    """

    a: LinkEnd
    """
    The end at the node that comes first by name.
    """
    b: LinkEnd
    """
    The other end.
    """
    back: LinkUse | None = None
    """
    From the other end to the first.
    """
    capacity: Annotated[int | None, Field(ge=0)] = None
    """
    What it can carry in each direction, in kbit/s, as it was declared.
    """
    declared: bool | None = None
    """
    Whether the operator said something of it.
    """
    delay: Annotated[int | None, Field(ge=0)] = None
    """
    How long packets take, in microseconds, as it was declared.
    """
    encapsulation: Literal["vxlan", "wireguard", "gre", "vlan"] | None = None
    """
    How tunnels of graphs go there.
    """
    forth: LinkUse | None = None
    """
    From the first end to the other.
    """
    found: list[Literal["addresses", "probes"]] | None = None
    """
    How the nodes found it; empty if they did not, so that it is there by the operator's word alone.
    """
    mtu: Annotated[int | None, Field(ge=0)] = None
    """
    The largest IP packet that passes, in bytes.
    """
    tunnels: Annotated[int, Field(ge=0)]
    """
    Tunnels of graphs that go there.
    """


class Measured(BaseModel):
    """
    A measured value.
    """

    readings: list[Reading]
    """
    One for each thing that there is.
    """


class Mistake(BaseModel):
    """
    One mistake.
    """

    code: Literal["access-point-taken"] | None = None
    column: Annotated[int | None, Field(ge=0)] = None
    """
    Column in the body, from 1.
    """
    help: str | None = None
    """
    What would be right.
    """
    line: Annotated[int | None, Field(ge=0)] = None
    """
    Line in the body, from 1.
    """
    message: str
    """
    What is wrong.
    """
    path: str | None = None
    """
    Where in the document, such as `sffg.flowrules[2].actions`.
    """


class MonitoringStatus(BaseModel):
    """
    The measurements and zones of a graph's monitoring.
    """

    measurements: list[MeasurementStatus]
    """
    The measurements, in the document's order.
    """
    zones: list[ZoneStatus]
    """
    The zones, in the document's order.
    """


class MoveStep(BaseModel):
    """
    A step of a move at a node, done all at once. Parts come in the order of the fields.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    await_packets: dict[str, int] | None = None
    """
    Access points, and how many packets have to have come by each since it is there. They are waited for, but not for long.
    """
    count: list[str] | None = None
    """
    Access points of which it is said how many packets went out by them.
    """
    give: GivenState | None = None
    go: str | None = None
    """
    A function, about to move, that goes on.
    """
    life: str | None = None
    """
    The function of which it is said how many packets wait.
    """
    stop: str | None = None
    """
    A function, about to move, that is stopped.
    """
    tag: str
    """
    The graph's entity tag: nothing is done if it has another one.
    """
    take: TakenState | None = None
    turn: list[str] | None = None
    """
    Functions of the controller's that lead packets to one of two places, from now on to the second.
    """


class NewKey(BaseModel):
    """
    A key to add.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    functions: list[str] | None = None
    """
    The only functions of that graph.
    """
    graph: Annotated[str | None, Field(max_length=64, min_length=1)] = None
    """
    The only graph that it reaches.
    """
    public_key: str
    """
    The line of the `.pub` file: `ssh-ed25519 AAAA… comment`.
    """
    role: Literal["operator", "tenant", "read-only", "join"]
    """
    What its owner is: `operator`, `tenant` or `read-only`.
    """
    tenant: Annotated[str | None, Field(max_length=64, min_length=1)] = None
    """
    The tenant that its owner acts for.
    """


class Plan(BaseModel):
    """
    The effects that a change would have. Nothing of it was done.
    """

    action: Literal["create", "change", "none"]
    """
    What would become of it.
    """
    choices: list[Choice] | None = None
    """
    For each function that asks for a capability, which image was chosen and why.
    """
    functions: Changes
    """
    Functions by identifier.
    """
    graph: str
    """
    The graph.
    """
    placement: Placement | None = None
    rules: Changes
    """
    Flow rules by identifier.
    """
    saps: Changes
    """
    Service access points by identifier.
    """
    tables: list[TableFate]
    """
    State tables that have entries now.
    """
    traffic: Traffic | None = None
    """
    What it would do to the traffic between access points.
    """
    warnings: list[str] | None = None
    """
    What may go wrong, such as packets that are too large for an access point.
    """


class PolicySettings(BaseModel):
    """
    A policy: its requirements, and the graphs that they are for. Without `tenants` and `kind`: all.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    kind: Literal["client", "third-party"] | None = None
    require: Annotated[list[str], Field(max_length=64, min_length=1)]
    """
    Requirements: `never`, `only` or `noloops`. A place `*` is each access point of the graph.
    """
    tenants: list[str] | None = None
    """
    The tenants whose graphs it is for.
    """


class Problem(BaseModel):
    """
    A problem, as a document (RFC 9457).
    """

    detail: str
    """
    What went wrong, and what would be right.
    """
    errors: list[Mistake] | None = None
    """
    All mistakes, where there may be several.
    """
    status: Annotated[int, Field(ge=0)]
    """
    The HTTP status.
    """
    title: str
    """
    The kind of problem.
    """


class Query(BaseModel):
    """
    A query that stands: each look is reported, or, with `when`, only one by which the condition begins to hold.
    """

    model_config = ConfigDict(
        extra="forbid",
    )
    ask: Question
    """
    What to measure.
    """
    every: Annotated[int, Field(ge=100, le=86400000)]
    """
    How often, in milliseconds.
    """
    times: Annotated[int | None, Field(ge=1)] = None
    """
    How many reports there are at most, at each node.
    """
    until: Condition | None = None
    when: Condition | None = None


class Record(BaseModel):
    """
    One change, or one that was refused.
    """

    action: str | None = None
    """
    What was asked for, as a word: `change-graph`.
    """
    after: str | None = None
    """
    What is there now.
    """
    before: str | None = None
    """
    What was there before: an entity tag, or a value.
    """
    id: Annotated[int | None, Field(ge=0)] = None
    """
    Its number; the log counts from 1, and has no gaps but at its beginning.
    """
    method: str
    """
    The method of the request.
    """
    object: str | None = None
    """
    What it was about: `graph a`.
    """
    outcome: Literal["done", "denied", "failed"]
    """
    What became of it.
    """
    path: str
    """
    Its path, without the query.
    """
    status: Annotated[int, Field(ge=0)]
    """
    The HTTP status.
    """
    summary: str | None = None
    """
    What changed, or why nothing did.
    """
    time: Annotated[int, Field(ge=0)]
    """
    Milliseconds since the epoch.
    """
    who: Who
    """
    Who.
    """


class RequestFinding(BaseModel):
    """
    The finding about a requirement, or about the security rules for a module.
    """

    packet: str | None = None
    """
    A packet that shows it, if one does.
    """
    reason: str
    """
    Why, in a sentence.
    """
    requirement: str
    """
    The requirement as written; of a module's security `security MODULE REQUESTER`.
    """
    verdict: Literal["holds", "violated", "inconclusive", "contained"]
    """
    Whether it holds.
    """


class ResourceUse(BaseModel):
    """
    A resource: how much there is, and how much of it graphs may come to take.
    """

    cpu: Share
    """
    Processor time, in thousandths of a processor.
    """
    memory: Share
    """
    Bytes of memory.
    """
    overcommit: bool
    """
    Whether graphs may be promised more than there is.
    """


class Revision(BaseModel):
    """
    A revision of a graph.
    """

    message: str | None = None
    """
    Why.
    """
    revision: Annotated[int, Field(ge=0)]
    """
    Its number.
    """
    same_as: Annotated[int | None, Field(ge=0)] = None
    """
    The revision whose document it has again.
    """
    time: Annotated[int | None, Field(ge=0)] = None
    """
    When it was applied, in milliseconds since the epoch; unknown of what earlier versions of Weir applied.
    """
    unconfirmed: Unconfirmed | None = None
    who: Who | None = None


class RevisionDetails(Revision):
    """
    A revision with its document.
    """

    document: dict[str, Any]
    """
    The document in canonical form; secrets are not shown.
    """
    text: str | None = None
    """
    The document as it was written, if that is known and it has no secrets.
    """


class StandingQuery(BaseModel):
    """
    A query that stands, or has ended.
    """

    ended: bool
    """
    Whether it has ended: it stays until it is deleted.
    """
    name: str
    """
    Its name.
    """
    of_domain: bool | None = None
    """
    Whether a node's controller wants it there.
    """
    query: Query
    """
    What it asks.
    """


class Tenant(BaseModel):
    """
    A tenant.
    """

    kind: Literal["client", "third-party"]
    """
    What it is to the operator.
    """
    name: str
    """
    Its name, as in the `tenant` of its graphs.
    """
    quotas: Quotas
    """
    What it may have.
    """
    usage: Usage
    """
    What it has.
    """


class TenantList(BaseModel):
    """
    The tenants.
    """

    tenants: list[Tenant]
    """
    By name.
    """


class UsageList(BaseModel):
    """
    The usage of graphs.
    """

    graphs: list[GraphUsage]
    """
    By graph; at a controller once for each node that a graph is on.
    """


class AppliedGraph(BaseModel):
    """
    The result for one document of a list.
    """

    id: str
    """
    The graph.
    """
    outcome: Literal["created", "changed", "unchanged", "refused"]
    """
    What became of it.
    """
    problem: Problem | None = None
    revision: Annotated[int | None, Field(ge=0)] = None
    """
    The revision that runs now, if it was applied.
    """
    warnings: list[str] | None = None
    """
    What may go wrong, such as packets that are too large for an access point.
    """


class AppliedList(BaseModel):
    """
    The results for a list of documents, in its order.
    """

    graphs: list[AppliedGraph]
    """
    One for each document.
    """


class AuditList(BaseModel):
    """
    A list of audit records: changes, and refused requests.
    """

    records: list[Record]
    """
    Oldest first.
    """


class DeviceList(BaseModel):
    """
    The interfaces that the access points of graphs are at.
    """

    devices: list[DeviceStatus]
    """
    By name.
    """


class Domain(BaseModel):
    """
    The description of a node.
    """

    capabilities: list[Capability]
    """
    What functions can be asked for, by word.
    """
    endpoints: list[Endpoint]
    """
    The interfaces at which graphs can have access points, by name.
    """
    images: list[DomainImage] | None = None
    """
    The images that functions can be made from, by name.
    """
    kinds: list[KindStatus]
    """
    The kinds of function, and whether the node can run them.
    """
    region: str | None = None
    """
    Where it is, as it was started (`--region`): graphs may ask for that.
    """
    resources: ResourceUse
    """
    What graphs may come to take altogether.
    """
    tunnels: list[TunnelUse]
    """
    The tunnels whose ends are access points of graphs.
    """
    wireguard: str | None = None
    """
    The public key of the node's ends of encrypted tunnels (WireGuard), in base64.
    """


class GraphStatus(State):
    """
    The state of a graph on a node.
    """

    drift: list[Drift] | None = None
    """
    Handler writes that the document does not have. They last until the graph is applied again or the data plane is
    restarted.
    """
    drops: list[ElementDrops] | None = None
    """
    Why packets ended, in all of the graph: by element of the configuration that it became.
    """
    flows: list[FlowCache] | None = None
    """
    The lookups whose results are kept for each flow where that pays, until a table changes.
    """
    functions: list[FunctionStatus]
    """
    The functions, in the graph's order.
    """
    id: str
    """
    The graph's identifier.
    """
    links: list[LinkStatus]
    """
    The links, in the order of the flow rules that make them.
    """
    monitoring: MonitoringStatus | None = None
    name: str
    """
    The graph's name.
    """
    nodes: list[str] | None = None
    """
    The nodes that it is on, in a domain.
    """
    profile: list[ElementTime] | None = None
    """
    Where the time goes, element by element of the configuration that the graph became. Measured in one batch of
    packets in some hundreds, from the last change of the graph on; empty while nothing was.
    """
    saps: list[SapStatus] | None = None
    """
    The access points, in the graph's order.
    """
    tenant: str | None = None
    """
    The tenant that the graph belongs to.
    """
    warnings: list[str] | None = None
    """
    What may go wrong, such as packets that are too large for an access point.
    """


class History(BaseModel):
    """
    The revisions of a graph that are kept.
    """

    current: Annotated[int, Field(ge=0)]
    """
    The revision that runs now.
    """
    id: str
    """
    The graph.
    """
    revisions: list[Revision]
    """
    Newest first.
    """


class ImageList(BaseModel):
    """
    The images of the node.
    """

    errors: list[ImageError]
    """
    Those that cannot be read.
    """
    images: list[ImageSummary]
    """
    Those that graphs can use.
    """


class LinkList(BaseModel):
    """
    The links of a domain.
    """

    links: list[LinkSummary]
    """
    By the names of their nodes.
    """
    missing: list[MissingLink] | None = None
    """
    Those that were declared, and are not there.
    """
    others: list[Adjacency] | None = None
    """
    Where nodes are joined as well, as their probes say.
    """


class NodeSummary(BaseModel):
    """
    A node of a domain.
    """

    address: str | None = None
    """
    Where its connection comes from, while it is there.
    """
    cordoned: bool | None = None
    """
    Whether it gets no new graphs.
    """
    graphs: Annotated[int, Field(ge=0)]
    """
    Graphs that it is to run.
    """
    name: str
    """
    Its name.
    """
    resources: ResourceUse | None = None
    since: Annotated[int, Field(ge=0)]
    """
    Since when, in milliseconds since the epoch.
    """
    state: Literal["online", "offline"]
    """
    Whether it is there.
    """
    trouble: list[str] | None = None
    """
    What is wrong with it, such as graphs that it cannot run.
    """
    version: str | None = None
    """
    Its version, while it is there.
    """


class Policy(PolicySettings):
    """
    A policy.
    """

    graphs: Annotated[int, Field(ge=0)]
    """
    How many graphs it is for.
    """
    name: str
    """
    Its name.
    """


class PolicyList(BaseModel):
    """
    The policies.
    """

    policies: list[Policy]
    """
    By name.
    """


class QueryList(BaseModel):
    """
    Queries.
    """

    queries: list[StandingQuery]
    """
    By name.
    """


class RequestAnswer(BaseModel):
    """
    The answer to a request.
    """

    findings: list[RequestFinding]
    """
    What was proved.
    """
    id: str | None = None
    """
    The request's identifier, which is that of its graph; a query has none.
    """
    modules: list[ModuleAddress]
    """
    The modules.
    """
    node: str
    """
    The node.
    """
    tenant: str | None = None
    """
    Whose it is; without one it is the operator's.
    """
    until: Annotated[int | None, Field(ge=0)] = None
    """
    When it ends by itself, in seconds since the epoch.
    """


class RequestDetails(RequestAnswer):
    """
    A request that runs.
    """

    request: str
    """
    The request as it was written.
    """


class RequestList(BaseModel):
    """
    The requests that run.
    """

    requests: list[RequestAnswer]
    """
    In the order in which they came.
    """


class NodeDetails(NodeSummary):
    """
    A node in full.
    """

    certificate: Annotated[int, Field(ge=0)]
    """
    Until when its certificate is good, in seconds since the epoch.
    """
    domain: Domain | None = None
    joined: Annotated[int, Field(ge=0)]
    """
    When it joined, in milliseconds since the epoch.
    """
    own: list[str] | None = None
    """
    Graphs that were applied at the node itself: the controller leaves them alone.
    """
    placed: list[str]
    """
    The graphs that it is to run, by identifier.
    """


class NodeList(BaseModel):
    """
    The nodes of a domain.
    """

    nodes: list[NodeSummary]
    """
    By name.
    """
