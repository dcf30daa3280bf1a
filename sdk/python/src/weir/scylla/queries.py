"""Queries and events (table I of the paper). All return at once; a callback gets a dictionary."""

import uuid
from collections.abc import Callable, Iterable
from typing import Any, Literal

from ..errors import ConfigError, NotFoundError
from ..models import Condition, Query, Question, Reading, Report
from .lvnf import CPP, LVNF
from .runtime import Callback, Mailbox, Runtime, address_of, current

EVERYTHING = "ff:ff:ff:ff:ff:ff"
Relation = Literal["GT", "LT", "GE", "LE", "EQ"]
Measure = Literal["packets_count", "bytes_count", "cpu_util", "mem_util", "handler", "lqm"]
EVERY = 1000
"""How often a condition is looked at if nothing else is said, in milliseconds."""


class Handle:
    """A query that stands, until it ends or is cancelled."""

    def __init__(self, runtime: Runtime, ask: Question, callback: Callback, only: Callable[[Reading], bool] | None = None) -> None:
        self.runtime = runtime
        self.name = f"{runtime.name}-{uuid.uuid4().hex}"
        self.ask = ask
        self.ended = False
        self._only = only
        self._mailbox = Mailbox(runtime, callback)

    def stand(self, query: Query) -> None:
        """Sets it at the nodes. Returns at once."""
        self.runtime.handles[self.name] = self
        self.runtime.listen()
        self.runtime.later(lambda: self.runtime.client.queries.put(self.name, query))

    def once(self) -> None:
        """Measures once. Returns at once."""

        def work() -> None:
            try:
                readings = self.runtime.client.queries.measure(self.ask)
            except Exception as error:
                self._mailbox.put({"measure": self.ask.measure, "error": str(error)})
                return
            self.ended = True
            self.hear(Report(query=self.name, readings=list(readings)))

        self.runtime.ask(work)

    def hear(self, report: Report) -> None:
        """A node has something to say."""
        if report.ended:
            self.ended = True
        readings = [reading for reading in report.readings if self._only is None or self._only(reading)]
        if readings:
            self._mailbox.put({"measure": self.ask.measure, "query": self.name, "readings": [result(self.runtime, r) for r in readings]})

    def cancel(self) -> None:
        """It asks no more. Returns at once."""
        if self.runtime.handles.pop(self.name, None) is None:
            return

        def work() -> None:
            try:
                self.runtime.client.queries.delete(self.name)
            except NotFoundError:
                self.ended = True

        self.runtime.later(work)


def result(runtime: Runtime, reading: Reading) -> dict[str, Any]:
    """A reading as a dictionary, with the addresses of what it is of."""
    values = reading.model_dump(exclude_none=True)
    if reading.node is not None:
        values["cpp"] = runtime.address(reading.node)
    if reading.graph is not None and reading.function is not None:
        values["lvnf"] = _address(runtime, reading.graph, reading.function)
    return values


def _address(runtime: Runtime, graph: str, function: str) -> str:
    for element in runtime.elements:
        if isinstance(element, LVNF) and element.runtime.name == graph and element.name == function:
            return element.addr
    return address_of(graph, function)


def _question(measure: Measure, lvnf: LVNF | str, tenant_name: str | None) -> Question:
    runtime = current()
    if isinstance(lvnf, LVNF):
        return Question(measure=measure, graph=lvnf.runtime.name, function=lvnf.name)
    if lvnf.lower() == EVERYTHING:
        tenant = tenant_name or runtime.tenant
        return Question(measure=measure, tenant=tenant)
    for element in runtime.elements:
        if isinstance(element, LVNF) and lvnf.upper() in (element.addr, element.name.upper()):
            return Question(measure=measure, graph=element.runtime.name, function=element.name)
    known = ", ".join(f"{e.name} {e.addr}" for e in runtime.elements if isinstance(e, LVNF)) or "none"
    raise ConfigError(f"there is no LVNF {lvnf!r}; there are: {known}")


def _query(
    ask: Question,
    every: int,
    callback: Callback,
    when: Condition | None = None,
    until: tuple[Relation, float] | None = None,
    only: Callable[[Reading], bool] | None = None,
) -> Handle:
    handle = Handle(current(), ask, callback, only)
    if every == -1:
        handle.once()
        return handle
    if every < 100:
        raise ConfigError(f"every={every}: a query looks every 100 ms or more seldom, or once (-1)")
    end = Condition(relation=until[0], value=until[1]) if until else None
    handle.stand(Query(ask=ask, every=every, when=when, until=end))
    return handle


def packets_count(
    lvnf: LVNF | str, every: int, callback: Callback, tenant_name: str | None = None, until: tuple[Relation, float] | None = None
) -> Handle:
    """Packets that an LVNF received and sent, every so many milliseconds, or once (-1)."""
    return _query(_question("packets_count", lvnf, tenant_name), every, callback, until=until)


def bytes_count(
    lvnf: LVNF | str, every: int, callback: Callback, tenant_name: str | None = None, until: tuple[Relation, float] | None = None
) -> Handle:
    """Bytes of these."""
    return _query(_question("bytes_count", lvnf, tenant_name), every, callback, until=until)


def cpu_util(
    lvnfs: LVNF | str,
    relation: Relation,
    value: float,
    callback: Callback,
    tenant_name: str | None = None,
    every: int = EVERY,
    until: tuple[Relation, float] | None = None,
) -> Handle:
    """Calls back when the processor utilisation of LVNFs (in percent) begins to fulfil a condition, and not again as long as it does."""
    ask = _question("cpu_util", lvnfs, tenant_name)
    return _query(ask, every, callback, Condition(relation=relation, value=value), until)


def mem_util(
    lvnfs: LVNF | str,
    relation: Relation,
    value: float,
    callback: Callback,
    tenant_name: str | None = None,
    every: int = EVERY,
    until: tuple[Relation, float] | None = None,
) -> Handle:
    """The same of memory, in percent of what the node has for functions."""
    ask = _question("mem_util", lvnfs, tenant_name)
    return _query(ask, every, callback, Condition(relation=relation, value=value), until)


def handler_value(lvnf: LVNF, handler: str, relation: Relation, value: float, callback: Callback, every: int = EVERY) -> Handle:
    """The same of the number that a handler says."""
    if handler not in lvnf.image.handlers:
        known = ", ".join(lvnf.image.handlers) or "none"
        raise ConfigError(f"an LVNF of this image has no handler {handler!r}; it has: {known}")
    ask = Question(measure="handler", graph=lvnf.runtime.name, function=lvnf.name, handler=handler)
    return _query(ask, every, callback, Condition(relation=relation, value=value))


def lqm(addr: CPP | str, every: int, callback: Callback, tenant_name: str | None = None) -> Handle:
    """The links of a node to its neighbours: packets, bytes, and with `every` > 0 rates. Links are all tenants', so an operator asks;
    `tenant_name` is the slice that it is asked for, and must be the service's.
    """
    runtime = current()
    if tenant_name is not None and tenant_name != runtime.tenant:
        raise ConfigError(f"the service is of tenant {runtime.tenant!r}, and not of {tenant_name!r}")
    ends: dict[tuple[str, str], list[str]] = {}
    for link in runtime.client.nodes.links().links:
        for here, there in ((link.a, link.b), (link.b, link.a)):
            ends.setdefault((here.node, here.interface), []).append(there.node)
    names = {node.name for node in runtime.client.nodes.list()}
    wanted = addr.name if isinstance(addr, CPP) else addr
    found = names if wanted.lower() == EVERYTHING else {n for n in names if wanted == n or wanted.upper() == runtime.address(n)}
    if not found:
        known = ", ".join(f"{n} {runtime.address(n)}" for n in sorted(names))
        raise ConfigError(f"there is no node {wanted!r}; there are: {known}")

    def only(reading: Reading) -> bool:
        return reading.node in found and (reading.node or "", reading.interface or "") in ends

    def with_neighbours(values: dict[str, Any]) -> object:
        for reading in values.get("readings", []):
            there = ends[reading["node"], reading["interface"]]
            reading["neighbours"] = {name: runtime.address(name) for name in there}
        return callback(values)

    return _query(Question(measure="lqm"), every, with_neighbours, only=only)


def _watch(kinds: Iterable[str], callback: Callback) -> None:
    runtime = current()
    runtime.watchers.append((frozenset(kinds), Mailbox(runtime, callback)))
    runtime.listen()


def cpp_up(callback: Callback) -> None:
    """Calls back when a node is connected."""
    _watch(["node-online"], callback)


def cpp_down(callback: Callback) -> None:
    """Calls back when a node is not connected any more."""
    _watch(["node-offline"], callback)


def lvnf_down(callback: Callback) -> None:
    """Calls back when a function ended by itself, or hangs."""
    _watch(["function-down", "function-hung"], callback)


__all__ = ["Handle", "bytes_count", "cpp_down", "cpp_up", "cpu_util", "handler_value", "lqm", "lvnf_down", "mem_util", "packets_count"]
