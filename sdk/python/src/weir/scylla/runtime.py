"""What stands behind the primitives: one service of many functions, put as one graph, and the callbacks of its queries."""

import hashlib
import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

from ..client import Client
from ..errors import ConfigError, NotFoundError, WeirError
from ..models import Event

if TYPE_CHECKING:
    from .lvnf import Element
    from .queries import Handle

log = logging.getLogger("weir.scylla")

Result = dict[str, Any]
Callback = Callable[[Result], object]

WORKERS = 32
"""Callbacks that run at once: one that blocks keeps back its own query, and no other."""
WAITING = 1000
"""Results that wait for a callback; then the oldest go, and are counted in `Runtime.lost`."""


ADDRESS = re.compile(r"([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}")


def address_of(*names: str) -> str:
    """An address of the kind that the paper names things by: made from a name, locally administered."""
    digest = bytearray(hashlib.sha256("/".join(names).encode()).digest()[:6])
    digest[0] = digest[0] & 0xFC | 0x02
    return ":".join(f"{byte:02X}" for byte in digest)


class MigrationError(WeirError):
    """A function could not be moved; it goes on where it was."""


class Mailbox:
    """Calls a callback with one result after the other, never two at once."""

    def __init__(self, runtime: "Runtime", callback: Callback) -> None:
        self._runtime = runtime
        self._callback = callback
        self._results: deque[Result] = deque()
        self._lock = threading.Lock()
        self._busy = False

    def put(self, result: Result) -> None:
        """A result is to be handed over."""
        with self._lock:
            if len(self._results) >= WAITING:
                self._results.popleft()
                self._runtime.lost += 1
            self._results.append(result)
            if self._busy:
                return
            self._busy = True
        self._runtime.callbacks.submit(self._work)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._results:
                    self._busy = False
                    return
                result = self._results.popleft()
            try:
                self._callback(result)
            except Exception:
                # One that raises is called again with the next result.
                log.exception("a callback raised")


class Runtime:
    """A service: functions, host access points and queries, kept as the graph `name` of `tenant`."""

    def __init__(self, client: Client, name: str, tenant: str | None, addresses: Mapping[str, str]) -> None:
        for addr in addresses:
            if not ADDRESS.fullmatch(addr):
                raise ConfigError(f"{addr!r} is no address; write one such as 5C:E0:C5:AC:B4:A3")
        self.client = client
        self.name = name
        self.tenant = tenant
        self._addresses = {node: addr.upper() for addr, node in addresses.items()}
        self.lost = 0
        self.elements: list[Element] = []
        self.installed: set[str] = set()
        self.handles: dict[str, Handle] = {}
        self.watchers: list[tuple[frozenset[str], Mailbox]] = []
        self.callbacks = ThreadPoolExecutor(WORKERS, "scylla-callback")
        # Changes are made one after the other, in the order in which they were asked for.
        self._changes = ThreadPoolExecutor(1, "scylla-change")
        self._asks = ThreadPoolExecutor(8, "scylla-ask")
        self._pending: list[Future[None]] = []
        self._lock = threading.RLock()
        self._applied: dict[str, Any] | None = None
        self._last = next((event.id for event in reversed(client.events.kept(limit=1))), None)
        self._closed = threading.Event()
        self._listening = False
        self._follower = threading.Thread(target=self._follow, name="scylla-events", daemon=True)

    def address(self, node: str) -> str:
        """The address of a node: what it was given, or one that is made from its name."""
        return self._addresses.get(node) or address_of(node)

    def changed(self) -> None:
        """The graph is put as it is to be now. Returns at once."""
        self.later(self._apply)

    def later(self, work: Callable[[], None]) -> None:
        """Does something after all that was asked for before."""
        with self._lock:
            self._pending = [f for f in self._pending if not f.done() or f.exception()]
            self._pending.append(self._changes.submit(work))

    def ask(self, work: Callable[[], None]) -> None:
        """Asks something in the background, after the changes that were asked for before."""

        def safely() -> None:
            try:
                work()
            except Exception:
                log.exception("a request failed")

        self.later(lambda: self._submit(safely))

    def _submit(self, work: Callable[[], None]) -> None:
        self._asks.submit(work)

    def wait(self) -> None:
        """Waits until all changes are made; raises the first error of those that failed."""
        with self._lock:
            pending, self._pending = self._pending, []
        errors = [error for future in pending if (error := future.exception()) is not None]
        if errors:
            raise errors[0]

    def document(self) -> dict[str, Any]:
        """The graph."""
        with self._lock:
            deployed = [element for element in self.elements if element.deployed]
            document: dict[str, Any] = {"id": self.name, "name": self.name}
            if self.tenant is not None:
                document["tenant"] = self.tenant
            document["SFs"] = [part for element in deployed if (part := element.function()) is not None]
            document["saps"] = [part for element in deployed if (part := element.access_point()) is not None]
            document["flowrules"] = [rule for element in deployed for port in element.ports for rule in port.next.rules()]
            return document

    def _apply(self) -> None:
        with self._lock:
            deployed = [element for element in self.elements if element.deployed]
            document = self.document()
        self.installed.update(name for element in deployed if (name := element.install(self.client)) is not None)
        if document == self._applied:
            return
        if document["SFs"] or document["saps"]:
            self.client.graphs.apply(document)
        elif self._applied is not None:
            self._delete()
        self._applied = document

    def moved(self, function: str, node: str) -> None:
        """Moves a function that was put to another node, with its state."""
        try:
            self.client.graphs.move(self.name, function, node)
        except WeirError as error:
            raise MigrationError(f"{function} did not move to {node}: {error}") from error
        with self._lock:
            for part in (self._applied or {}).get("SFs", []):
                if part["id"] == function:
                    part["node"] = node

    def _delete(self) -> None:
        try:
            self.client.graphs.delete(self.name)
        except NotFoundError:
            log.debug("the graph %s is gone already", self.name)

    def listen(self) -> None:
        """Begins to follow events, once anybody wants to hear of any."""
        with self._lock:
            if self._listening:
                return
            self._listening = True
        self._follower.start()

    def _follow(self) -> None:
        while not self._closed.is_set():
            try:
                for event in self.client.events.follow(after=self._last, reconnect=False):
                    if self._closed.is_set():
                        return
                    self._last = event.id if event.id is not None else self._last
                    self._hear(event)
            except WeirError as error:
                log.debug("events are followed again: %s", error)
            self._closed.wait(0.5)

    def _hear(self, event: Event) -> None:
        if event.report is not None and (handle := self.handles.get(event.report.query)):
            handle.hear(event.report)
        if event.kind == "query":
            return
        result = {key: value for key, value in event.model_dump().items() if value is not None}
        with self._lock:
            watchers = [mailbox for kinds, mailbox in self.watchers if event.kind in kinds]
        for mailbox in watchers:
            mailbox.put(result)

    def close(self, delete: bool = True) -> None:
        """Ends the queries, and with `delete` the functions."""
        for handle in list(self.handles.values()):
            handle.cancel()
        if delete:
            with self._lock:
                self.elements.clear()
            self.changed()
        try:
            self.wait()
        finally:
            self._closed.set()
            for pool in (self._changes, self._asks):
                pool.shutdown(cancel_futures=True)
            self.callbacks.shutdown(wait=False, cancel_futures=True)
            # It may be about to connect when it is interrupted first.
            while self._listening and self._follower.is_alive():
                self.client.interrupt()
                self._follower.join(0.2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if _current[-1:] == [self]:
            _current.pop()


_current: list[Runtime] = []


def start(client: Client, name: str = "scylla", tenant: str | None = None, addresses: Mapping[str, str] | None = None) -> Runtime:
    """Begins a service of a tenant, kept as the graph `name`; the primitives that come after are about it. `addresses` has nodes by the
    addresses that the service knows them by; others have one that is made from their name.
    """
    runtime = Runtime(client, name, tenant, addresses or {})
    _current.append(runtime)
    return runtime


def current() -> Runtime:
    """The service that was begun last."""
    if not _current:
        raise ConfigError("no service was begun: weir.scylla.start(client)")
    return _current[-1]
