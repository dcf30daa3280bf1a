"""Images, functions (LVNF), their virtual ports, nodes (CPP), and the host that stands in for an LVAP."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from ..client import Client
from ..errors import ConfigError, RefusedError
from .flows import Next
from .runtime import ADDRESS, Callback, Mailbox, MigrationError, Runtime, address_of, current

RESERVED = frozenset(["addr", "deployed", "image", "name", "ports", "runtime"])
"""Attributes of an LVNF that no handler can have the name of."""


class CPP:
    """A node, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.addr = current().address(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CPP) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"CPP({self.name!r})"


def cpps() -> list[CPP]:
    """The nodes that are there."""
    return [CPP(node.name) for node in current().client.nodes.list() if node.state == "online"]


class Image:
    """A template of functions: a Click script with so many ports, `in_0` and `out_0` the first, and handlers, each with its short name and
    the handler of the script.
    """

    def __init__(self, vnf: str, nb_ports: int = 1, handlers: Sequence[tuple[str, str]] = ()) -> None:
        if nb_ports < 1:
            raise ConfigError(f"nb_ports={nb_ports}: an image has at least one port")
        names = [name for name, _ in handlers]
        for name in names:
            if not name.isidentifier() or name in RESERVED or hasattr(LVNF, name):
                raise ConfigError(f"a handler cannot have the name {name!r}: it would be an attribute of the LVNF")
        if len(set(names)) != len(names):
            raise ConfigError(f"the names of handlers differ: {', '.join(names)}")
        self.vnf = vnf
        self.nb_ports = nb_ports
        self.handlers = dict(handlers)
        digest = hashlib.sha256(repr((vnf, nb_ports, sorted(self.handlers.items()))).encode())
        # The same image has the same name, whoever makes it.
        self.name = f"lvnf-{digest.hexdigest()[:16]}"

    def install(self, client: Client) -> None:
        """Adds the image to the nodes. A handler may be read and written if its element has both."""
        access = dict.fromkeys(self.handlers, "rw")
        for narrower in ("r", "w"):
            try:
                client.images.put(self.name, self.manifest(access))
                return
            except RefusedError as error:
                wrong = [m.message for m in error.problem.errors or []]
                named = [name for name in access if any(f"public handler '{name}'" in text for text in wrong)]
                if not named or len(named) < len(wrong):
                    raise
                access.update(dict.fromkeys(named, narrower))
        client.images.put(self.name, self.manifest(access))

    def manifest(self, access: Mapping[str, str]) -> str:
        """The manifest of the image (docs/function.md), with what may be done with each handler."""
        return yaml.safe_dump(
            {
                "name": self.name,
                "version": "1.0",
                "description": "An LVNF of the Python SDK's.",
                "ports": [f"p{i}" for i in range(self.nb_ports)],
                "handlers": {name: {"handler": handler, "access": access[name]} for name, handler in self.handlers.items()},
                "click": self.vnf.rstrip().rstrip(";") + ";\n",
            },
            sort_keys=False,
        )


class Port:
    """A virtual port."""

    def __init__(self, owner: "Element", place: str) -> None:
        self.owner = owner
        self.place = place
        self.next = Next(self)


class Element:
    """What has virtual ports."""

    runtime: Runtime
    ports: list[Port]
    deployed: bool

    def function(self) -> dict[str, Any] | None:
        """The function that it is in the graph."""
        return None

    def access_point(self) -> dict[str, Any] | None:
        """The access point that it is in the graph."""
        return None

    def install(self, client: Client) -> str | None:
        """Adds the image that it is made from, and gives its name."""
        return None

    def remove(self) -> None:
        """Removes it, with what leads to it. Returns at once."""
        self.deployed = False
        if self in self.runtime.elements:
            self.runtime.elements.remove(self)
        for element in self.runtime.elements:
            for port in element.ports:
                port.next.without(self)
        self.runtime.changed()


class LVAP(Element):
    """The host at an interface of a node: it stands in for the wireless client of the paper until there is radio."""

    def __init__(self, cpp: CPP, interface: str, name: str | None = None) -> None:
        self.runtime = current()
        self.cpp = cpp
        self.interface = interface
        self.name = name or f"{cpp.name}-{interface}"
        self.addr = address_of(self.runtime.name, self.name)
        self.deployed = True
        self.ports = [Port(self, f"sap:{self.name}")]
        self.runtime.elements.append(self)
        self.runtime.changed()

    def access_point(self) -> dict[str, Any]:
        return {"id": self.name, "type": "interface", "node": self.cpp.name, "interface": {"if-name": self.interface}}


class LVNF(Element):
    """A function. It runs once it has a node: `lvnf.cpp = cpp`. Its image's handlers are methods of it, read with `callback=`, written with
    `value=`.
    """

    def __init__(self, image: Image, name: str | None = None, addr: str | None = None) -> None:
        self.runtime = current()
        self.image = image
        self.name = name or f"lvnf{sum(isinstance(e, LVNF) for e in self.runtime.elements)}"
        if any(e.ports and e.ports[0].place.split(":")[1] == self.name for e in self.runtime.elements):
            raise ConfigError(f"there is an element {self.name!r} already; give this one another name")
        if addr is not None and not ADDRESS.fullmatch(addr):
            raise ConfigError(f"{addr!r} is no address; write one such as 11:22:33:44:55:66")
        self.addr = (addr or address_of(self.runtime.name, self.name)).upper()
        self.deployed = False
        self.ports = [Port(self, f"sf:{self.name}:p{i}") for i in range(image.nb_ports)]
        self._cpp: CPP | None = None
        # Where it is as far as the graph was put: behind the other for as long as it moves.
        self._placed: CPP | None = None
        self.runtime.elements.append(self)

    @property
    def cpp(self) -> CPP | None:
        """The node that it is on, or on its way to. Another one moves it with its state; `wait()` raises a `MigrationError` if it stays."""
        return self._cpp

    @cpp.setter
    def cpp(self, cpp: CPP) -> None:
        if self not in self.runtime.elements:
            raise ConfigError(f"{self.name} was removed; make another LVNF")
        if self._cpp == cpp:
            return
        self._cpp, before = cpp, self._cpp
        if before is None:
            self._placed, self.deployed = cpp, True
            self.runtime.changed()
        else:
            self.runtime.later(lambda: self._move(cpp))

    def _move(self, cpp: CPP) -> None:
        """It goes to another node with its state; until then it is where it was."""
        try:
            self.runtime.moved(self.name, cpp.name)
        except MigrationError:
            self._cpp = self._placed
            raise
        self._placed = cpp

    def function(self) -> dict[str, Any] | None:
        if self._placed is None:
            return None
        ports = [{"id": f"p{i}"} for i in range(self.image.nb_ports)]
        return {"id": self.name, "name": self.image.name, "node": self._placed.name, "ports": ports}

    def install(self, client: Client) -> str:
        if self.image.name not in self.runtime.installed:
            self.image.install(client)
        return self.image.name

    def __getattr__(self, name: str) -> Callable[..., None]:
        image = self.__dict__.get("image")
        if image is None or name not in image.handlers:
            known = ", ".join(image.handlers) if image else ""
            raise AttributeError(f"an LVNF of this image has no handler {name!r}; it has: {known or 'none'}")

        def handler(callback: Callback | None = None, value: object = None) -> None:
            self._handle(name, callback, value)

        return handler

    def _handle(self, name: str, callback: Callback | None, value: object) -> None:
        """Reads a handler, or writes it. Returns at once; the callback gets the result, or `{"error": …}`."""
        if not self.deployed:
            raise ConfigError(f"{self.name} has no node yet: lvnf.cpp = cpp")
        if callback is None and value is None:
            raise ConfigError(f"{name}: give callback= to read, value= to write")
        mailbox = Mailbox(self.runtime, callback) if callback else None
        graphs, graph = self.runtime.client.graphs, self.runtime.name

        def work() -> None:
            try:
                if value is not None:
                    graphs.write_handler(graph, self.name, name, written(value))
                    result: dict[str, Any] = {}
                else:
                    result = said(graphs.read_handler(graph, self.name, name))
            except Exception as error:
                if mailbox is None:
                    raise
                result = {"error": str(error)}
            if mailbox is not None:
                mailbox.put(result)

        self.runtime.ask(work)


def written(value: object) -> str:
    """What is written to a handler: a text, or a list of words."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        return str(value)
    return " ".join(str(word) for word in value)


def said(text: str) -> dict[str, Any]:
    """What a handler says, as a dictionary: lines that begin with an address by it, other text as `value`."""
    lines = text.splitlines()
    words = [line.split() for line in lines if line.strip()]
    if words and all(ADDRESS.fullmatch(first) for first, *_ in words):
        return {first.upper(): [_number(word) for word in rest] for first, *rest in words}
    return {"value": _number(text.strip()) if len(words) == 1 and len(words[0]) == 1 else text}


def _number(word: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
