"""The asynchronous client of a node or a controller."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Literal, Self

import httpx

from . import tls, wire
from .contexts import Context, choose
from .errors import UnreachableError
from .keys import Key, Login
from .models import (
    AuditList,
    Captured,
    Changed,
    DeviceList,
    Domain,
    Drained,
    Event,
    EventList,
    FunctionLife,
    GraphStatus,
    GraphSummary,
    Health,
    History,
    ImageDetails,
    ImageList,
    KeyList,
    LinkList,
    LinkSettings,
    Measured,
    Moved,
    NewKey,
    NodeDetails,
    NodeList,
    NodeSummary,
    Plan,
    Policy,
    PolicyList,
    PolicySettings,
    Query,
    QueryList,
    Question,
    Quotas,
    Reading,
    RevisionDetails,
    StandingQuery,
    Tenant,
    TenantList,
    TenantSettings,
    Token,
    WhoAmI,
)
from .models import Key as KnownKey
from .sse import Parser
from .wire import Document, check, path, query, read, read_list


class AsyncConnection:
    """Requests to one server."""

    def __init__(self, context: Context, timeout: httpx.Timeout) -> None:
        self._context = context
        self._timeout = timeout
        self._login = Login(context.login())
        self._http: httpx.AsyncClient | None = None
        self._extensions: dict[str, str] = {}
        self._streams: set[httpx.Response] = set()

    async def _open(self) -> httpx.AsyncClient:
        """The server's certificate is looked at before the first request."""
        if self._http is not None:
            return self._http
        url = httpx.URL(self._context.url)
        verify: ssl.SSLContext | bool = True
        if url.scheme == "https" and self._context.fingerprint:
            verify = await asyncio.to_thread(tls.pinned, url, self._context.fingerprint)
            self._extensions = {"sni_hostname": tls.SERVER_NAME}
        elif url.scheme == "https" and self._context.ca:
            verify = tls.rooted(self._context.ca)
        self._http = httpx.AsyncClient(base_url=url, verify=verify, auth=self._login, timeout=self._timeout, trust_env=False)
        return self._http

    async def send(
        self,
        method: str,
        at: str,
        *,
        params: dict[str, str] | None = None,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Sends a request and reads its answer, whatever it is."""
        http = await self._open()
        try:
            return await http.request(method, at, params=params or None, content=body, headers=headers, extensions=self._extensions)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    async def send_json(self, method: str, at: str, body: object, params: dict[str, str] | None = None) -> httpx.Response:
        """Sends a request with a body in JSON."""
        headers = {"Content-Type": "application/json"}
        return await self.send(method, at, params=params, body=wire.dump(body), headers=headers)

    @asynccontextmanager
    async def stream(
        self, method: str, at: str, *, headers: dict[str, str] | None = None, body: object = None
    ) -> AsyncIterator[httpx.Response]:
        """Sends a request whose answer is read while it comes."""
        http = await self._open()
        content = None if body is None else wire.dump(body)
        json = {} if body is None else {"Content-Type": "application/json"}
        try:
            async with http.stream(
                method, at, headers={**json, **(headers or {})}, content=content, extensions=self._extensions
            ) as response:
                if not response.is_success:
                    await response.aread()
                    check(response)
                self._streams.add(response)
                try:
                    yield response
                finally:
                    self._streams.discard(response)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def interrupt(self) -> None:
        """Ends the streams, whoever reads them: they raise that the server cannot be reached. A connection must not be closed while
        another thread reads from it: its number would be another connection's.
        """
        for response in list(self._streams):
            sock = response.extensions["network_stream"].get_extra_info("socket")
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _unreachable(self, error: httpx.TransportError) -> UnreachableError:
        return UnreachableError(f"{self._context.url}: {error or type(error).__name__}")

    async def aclose(self) -> None:
        """Ends it."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None


class AsyncResource:
    """A part of the interface."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection


class AsyncNodes(AsyncResource):
    """The nodes of a domain (controllers only)."""

    async def list(self) -> list[NodeSummary]:
        """All nodes, by name."""
        return read(NodeList, await self._connection.send("GET", path("nodes"))).nodes

    async def get(self, name: str) -> NodeDetails:
        """A node in full."""
        return read(NodeDetails, await self._connection.send("GET", path("nodes", name)))

    async def cordon(self, name: str) -> NodeSummary:
        """It gets no new graphs."""
        return await self._change(name, True)

    async def uncordon(self, name: str) -> NodeSummary:
        """It gets new graphs again."""
        return await self._change(name, False)

    async def _change(self, name: str, cordoned: bool) -> NodeSummary:
        return read(NodeSummary, await self._connection.send_json("PUT", path("nodes", name), {"cordoned": cordoned}))

    async def drain(self, name: str) -> Drained:
        """Cordons it, and moves its graphs to other nodes; says what became of each."""
        return read(Drained, await self._connection.send("POST", path("nodes", name, "drain")))

    async def forget(self, name: str) -> None:
        """Its connection and certificates are not taken any more."""
        check(await self._connection.send("DELETE", path("nodes", name)))

    async def links(self) -> LinkList:
        """The links between the nodes that are connected."""
        return read(LinkList, await self._connection.send("GET", path("links")))

    async def put_link(self, a: str, b: str, settings: LinkSettings) -> None:
        """Says what the link between two nodes can carry, how long it takes, and how tunnels go there."""
        body = settings.model_dump(exclude_none=True)
        check(await self._connection.send_json("PUT", path("links", a, b), body))

    async def remove_link(self, a: str, b: str) -> None:
        """Takes back what was said of the link between two nodes."""
        check(await self._connection.send("DELETE", path("links", a, b)))

    async def token(self, uses: int = 1, seconds: int = 3600) -> Token:
        """Makes a token by which so many nodes join."""
        return read(Token, await self._connection.send_json("POST", path("tokens"), {"uses": uses, "seconds": seconds}))


class AsyncGraphs(AsyncResource):
    """Service graphs."""

    async def list(self) -> list[GraphSummary]:
        """All graphs."""
        return read_list(GraphSummary, await self._connection.send("GET", path("graphs")))

    async def get(self, graph: str) -> dict[str, object]:
        """Its document, as values."""
        found: dict[str, dict[str, object]] = check(await self._connection.send("GET", path("graphs", graph))).json()
        return found["sffg"]

    async def document(self, graph: str) -> str:
        """Its document as it was written, with its comments."""
        return check(await self._connection.send("GET", path("graphs", graph, "document"))).text

    async def apply(
        self,
        document: Document,
        *,
        node: str | None = None,
        message: str | None = None,
        confirm: int | None = None,
        if_match: str | None = None,
    ) -> Changed:
        """Creates the graph, or changes it while it runs. `node`: where (controllers only). `confirm`: it goes back after so many
        seconds unless `graphs.confirm` is called. `if_match`: only if this is its entity tag now.
        """
        body, headers = wire.document(document)
        if if_match is not None:
            headers["If-Match"] = f'"{if_match}"'
        params = query(node=node, message=message, confirm=confirm)
        at = path("graphs", wire.identifier(document))
        return read(Changed, await self._connection.send("PUT", at, params=params, body=body, headers=headers))

    async def plan(self, document: Document, *, node: str | None = None) -> Plan:
        """What a document would change. Nothing is done."""
        body, headers = wire.document(document)
        return read(
            Plan,
            await self._connection.send("POST", path("plan"), params=query(node=node), body=body, headers=headers),
        )

    async def delete(self, graph: str) -> None:
        """Removes it."""
        check(await self._connection.send("DELETE", path("graphs", graph)))

    async def status(self, graph: str) -> GraphStatus:
        """Its state and figures."""
        return read(GraphStatus, await self._connection.send("GET", path("graphs", graph, "status")))

    async def config(self, graph: str) -> str:
        """What the data plane runs for it, in the Click language."""
        return check(await self._connection.send("GET", path("graphs", graph, "config"))).text

    async def history(self, graph: str) -> History:
        """The revisions that are kept, newest first."""
        return read(History, await self._connection.send("GET", path("graphs", graph, "revisions")))

    async def revision(self, graph: str, revision: int) -> RevisionDetails:
        """A revision with its document."""
        return read(RevisionDetails, await self._connection.send("GET", path("graphs", graph, "revisions", str(revision))))

    async def roll_back(self, graph: str, revision: int, *, message: str | None = None, confirm: int | None = None) -> Changed:
        """Applies the document of an earlier revision again."""
        params = query(revision=revision, message=message, confirm=confirm)
        return read(Changed, await self._connection.send("POST", path("graphs", graph, "rollback"), params=params))

    async def confirm(self, graph: str) -> None:
        """Keeps what would go back by itself."""
        check(await self._connection.send("POST", path("graphs", graph, "confirm")))

    async def read_handler(self, graph: str, function: str, handler: str) -> str:
        """Reads a public handler of a function."""
        at = path("graphs", graph, "functions", function, "handlers", handler)
        return check(await self._connection.send("GET", at)).text

    async def write_handler(self, graph: str, function: str, handler: str, value: str) -> None:
        """Writes a public handler of a function. It lasts until the graph is applied again."""
        at = path("graphs", graph, "functions", function, "handlers", handler)
        headers = {"Content-Type": "text/plain"}
        check(await self._connection.send("PUT", at, body=value.encode(), headers=headers))

    async def life(self, graph: str, function: str) -> FunctionLife:
        """What a function does with packets, and how many wait before it."""
        at = path("graphs", graph, "functions", function, "life")
        return read(FunctionLife, await self._connection.send("GET", at))

    async def set_life(self, graph: str, function: str, state: Literal["running", "stopped", "bypass"]) -> FunctionLife:
        """Stops a function, so that packets wait before it; lets it go on; or leads packets past it."""
        at = path("graphs", graph, "functions", function, "life")
        return read(FunctionLife, await self._connection.send_json("PUT", at, {"state": state}))

    async def move(self, graph: str, function: str, to: str, *, plan: bool = False) -> Moved:
        """Moves a function of a domain to another node while it works, with its state; with `plan` it only says what that would be."""
        at = path("graphs", graph, "functions", function, "move")
        body = {"to": to, "plan": plan}
        return read(Moved, await self._connection.send_json("POST", at, body))

    async def log(self, graph: str, function: str) -> str:
        """What a function that is not inline has written."""
        return check(await self._connection.send("GET", path("graphs", graph, "functions", function, "log"))).text

    async def trace(self, graph: str, *, filter: str = "", count: int = 1) -> AsyncIterator[str]:
        """Follows the next packets, each a text in JSON."""
        body = {"filter": filter, "count": count}
        async with self._connection.stream("POST", path("graphs", graph, "trace"), body=body) as response:
            async for line in response.aiter_lines():
                if line:
                    yield line

    async def capture(
        self, graph: str, *, points: Sequence[str] | None = None, filter: str = "", count: int = 0
    ) -> AsyncIterator[Captured]:
        """Copies packets as they pass some places; `count` 0: until the iterator is closed."""
        body = {"filter": filter, "count": count, "points": [*(points or ())]}
        async with self._connection.stream("POST", path("graphs", graph, "capture"), body=body) as response:
            async for line in response.aiter_lines():
                if line:
                    yield wire.parse(Captured, line, response)


class AsyncImages(AsyncResource):
    """Images: what functions are made from."""

    async def put(self, name: str, manifest: str) -> ImageDetails:
        """Adds an image, or changes one that was added so: its manifest (docs/function.md), with the Click script in it."""
        headers = {"Content-Type": "application/yaml"}
        response = await self._connection.send("PUT", path("images", name), body=manifest.encode(), headers=headers)
        return read(ImageDetails, response)

    async def remove(self, name: str) -> None:
        """Removes an image that was added so. What runs goes on."""
        check(await self._connection.send("DELETE", path("images", name)))

    async def list(self) -> ImageList:
        """All images, and what is wrong with others."""
        return read(ImageList, await self._connection.send("GET", path("images")))

    async def get(self, name: str) -> ImageDetails:
        """An image in full."""
        return read(ImageDetails, await self._connection.send("GET", path("images", name)))


class AsyncTenants(AsyncResource):
    """Tenants: owners of graphs."""

    async def list(self) -> list[Tenant]:
        """Those that one may see."""
        return read(TenantList, await self._connection.send("GET", path("tenants"))).tenants

    async def get(self, name: str) -> Tenant:
        """A tenant, with what it may have and what it has."""
        return read(Tenant, await self._connection.send("GET", path("tenants", name)))

    async def put(self, name: str, settings: TenantSettings | None = None, *, quotas: Quotas | None = None) -> Tenant:
        """Adds a tenant, or changes what it is and may have."""
        settings = settings or TenantSettings(quotas=quotas)
        body = settings.model_dump(exclude_none=True)
        return read(Tenant, await self._connection.send_json("PUT", path("tenants", name), body))

    async def remove(self, name: str) -> None:
        """Removes one that has neither keys nor graphs."""
        check(await self._connection.send("DELETE", path("tenants", name)))


class AsyncKeys(AsyncResource):
    """Keys: who is let in."""

    async def list(self) -> list[KnownKey]:
        """Those that are known."""
        return read(KeyList, await self._connection.send("GET", path("keys"))).keys

    async def add(self, name: str, key: NewKey) -> KnownKey:
        """Its owner has access from now on."""
        body = key.model_dump(exclude_none=True)
        return read(KnownKey, await self._connection.send_json("PUT", path("keys", name), body))

    async def remove(self, name: str) -> None:
        """Its owner has no access from now on."""
        check(await self._connection.send("DELETE", path("keys", name)))


class AsyncPolicies(AsyncResource):
    """What the operator requires of everybody's graphs (controllers only)."""

    async def list(self) -> list[Policy]:
        """All policies."""
        return read(PolicyList, await self._connection.send("GET", path("policies"))).policies

    async def get(self, name: str) -> Policy:
        """A policy."""
        return read(Policy, await self._connection.send("GET", path("policies", name)))

    async def put(self, name: str, settings: PolicySettings, *, keep: bool = False) -> Policy:
        """Sets it. `keep`: graphs that run and do not hold it stay."""
        body = settings.model_dump(exclude_none=True)
        return read(Policy, await self._connection.send_json("PUT", path("policies", name), body, params=query(keep=keep)))

    async def remove(self, name: str) -> None:
        """It is required no more."""
        check(await self._connection.send("DELETE", path("policies", name)))


class AsyncQueries(AsyncResource):
    """What nodes measure again and again; what they have to say comes with the events, of the kind `query`."""

    async def list(self) -> list[StandingQuery]:
        """Those that one may see."""
        return read(QueryList, await self._connection.send("GET", path("queries"))).queries

    async def get(self, name: str) -> StandingQuery:
        """A query."""
        return read(StandingQuery, await self._connection.send("GET", path("queries", name)))

    async def put(self, name: str, query: Query) -> None:
        """Sets it. The same again changes nothing."""
        body = query.model_dump(exclude_none=True)
        check(await self._connection.send_json("PUT", path("queries", name), body))

    async def delete(self, name: str) -> None:
        """It asks no more."""
        check(await self._connection.send("DELETE", path("queries", name)))

    async def measure(self, ask: Question) -> Sequence[Reading]:
        """Measures once."""
        body = ask.model_dump(exclude_none=True)
        return read(Measured, await self._connection.send_json("POST", path("measure"), body)).readings


class AsyncEvents(AsyncResource):
    """What happens."""

    async def kept(self, *, graph: str | None = None, limit: int = 100) -> list[Event]:
        """The newest of those that are kept, oldest first."""
        params = query(graph=graph, limit=limit)
        return read(EventList, await self._connection.send("GET", path("events", "kept"), params=params)).events

    async def follow(self, *, after: int | None = None, reconnect: bool = True) -> AsyncIterator[Event]:
        """Events as they happen, those after the number `after` first. A connection that breaks is made again, and none that is kept
        is missed.
        """
        parser = Parser(None if after is None else str(after))
        began = False
        while True:
            headers = {"Accept": "text/event-stream"}
            if parser.last_id is not None:
                headers["Last-Event-ID"] = parser.last_id
            try:
                async with self._connection.stream("GET", path("events"), headers=headers) as response:
                    began = True
                    async for line in response.aiter_lines():
                        if message := parser.line(line):
                            yield wire.parse(Event, message.data, response)
            except UnreachableError:
                if not (reconnect and began):
                    raise
            if not reconnect:
                return
            parser = Parser(parser.last_id)
            await asyncio.sleep(wire.PAUSE)


class AsyncClient:
    """A node or a controller.

    `url` is its address; `key` a file of OpenSSH's or a `Key`; `token` a secret in its place; `fingerprint` the pin that the server
    prints at its start, or `ca` a file of certificates. `AsyncClient.from_context()` takes all of that from `weir context`.
    """

    def __init__(
        self,
        url: str,
        *,
        key: Key | str | None = None,
        token: str | None = None,
        fingerprint: str | None = None,
        ca: str | None = None,
        timeout: httpx.Timeout = wire.TIMEOUT,
    ) -> None:
        context = wire.context(url, token=token, fingerprint=fingerprint, ca=ca)
        self._start(context, timeout)
        if key is not None:
            self._connection._login = Login(key if isinstance(key, Key) else Key.load(key))

    @classmethod
    def from_context(cls, name: str | None = None, *, timeout: httpx.Timeout = wire.TIMEOUT) -> Self:
        """The server of a context of `weir context`; without a name, the one that `weir` would take."""
        client = cls.__new__(cls)
        client._start(choose(name), timeout)
        return client

    def _start(self, context: Context, timeout: httpx.Timeout) -> None:
        self._connection = AsyncConnection(context, timeout)
        self.nodes = AsyncNodes(self._connection)
        self.graphs = AsyncGraphs(self._connection)
        self.images = AsyncImages(self._connection)
        self.tenants = AsyncTenants(self._connection)
        self.keys = AsyncKeys(self._connection)
        self.policies = AsyncPolicies(self._connection)
        self.queries = AsyncQueries(self._connection)
        self.events = AsyncEvents(self._connection)

    async def health(self) -> Health:
        """How the server is."""
        return read(Health, await self._connection.send("GET", path("health")))

    async def whoami(self) -> WhoAmI:
        """Who one is, and what one may see."""
        return read(WhoAmI, await self._connection.send("GET", path("whoami")))

    async def domain(self) -> Domain:
        """End points, functions that can run, and resources."""
        return read(Domain, await self._connection.send("GET", path("domain")))

    async def devices(self) -> DeviceList:
        """The interfaces that data planes use, with their counts."""
        return read(DeviceList, await self._connection.send("GET", path("devices")))

    async def audit(self, *, after: int | None = None, limit: int = 100) -> AuditList:
        """What was changed, and what was refused."""
        return read(AuditList, await self._connection.send("GET", path("audit"), params=query(after=after, limit=limit)))

    async def metrics(self) -> str:
        """Counts, in the text format of Prometheus."""
        return check(await self._connection.send("GET", path("metrics"))).text

    def interrupt(self) -> None:
        """Ends the streams that are read, such as `events.follow`, from any thread."""
        self._connection.interrupt()

    async def aclose(self) -> None:
        """Ends its connections. Streams that other threads read have to be over."""
        await self._connection.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()
