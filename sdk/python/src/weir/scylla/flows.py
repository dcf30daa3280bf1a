"""Parts of the flow space, by the keys of OpenFlow 1.0 (ofp_match), and the rules that they become."""

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING

from ..errors import ConfigError

if TYPE_CHECKING:
    from .lvnf import Port

KEYS = {
    "dl_src": "ether_src",
    "dl_dst": "ether_dst",
    "dl_type": "ethertype",
    "dl_vlan": "vlan_id",
    "nw_src": "ip_src",
    "nw_dst": "ip_dst",
    "nw_proto": "ip_proto",
    "nw_tos": "ip_tos",
    "tp_src": "tp_src",
    "tp_dst": "tp_dst",
    "icmp_type": "icmp_type",
    "icmp_code": "icmp_code",
}
"""The key of OpenFlow, and the field of a flow rule (docs/service-graph.md)."""

Value = str | int


class Flow(MutableMapping[str, Value]):
    """A part of the flow space: what is not said may be anything."""

    def __init__(self, **keys: Value) -> None:
        self._keys: dict[str, Value] = {}
        self.update(keys)

    def __getitem__(self, key: str) -> Value:
        return self._keys[key]

    def __setitem__(self, key: str, value: Value) -> None:
        if key not in KEYS:
            raise ConfigError(f"a flow has no key {key!r}; it has {', '.join(KEYS)}")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ConfigError(f"{key}: {value!r} is neither a number nor a text")
        self._keys[key] = value

    def __delitem__(self, key: str) -> None:
        del self._keys[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"Flow({', '.join(f'{k}={v!r}' for k, v in self._keys.items())})"

    def frozen(self) -> tuple[tuple[str, Value], ...]:
        """As it is now: a flow that is changed later changes no rule."""
        return tuple(sorted(self._keys.items()))


def make_wild_card_flow() -> Flow:
    """All packets."""
    return Flow()


Frozen = tuple[tuple[str, Value], ...]


class Next(MutableMapping[Flow, "Port"]):
    """Where packets that leave by a port go: parts of the flow space, each with the port of another function. Of several that a packet
    fits, the one that says more counts; of those, the one that was said first.
    """

    def __init__(self, port: "Port") -> None:
        self._port = port
        self._ways: dict[Frozen, Port] = {}

    def __getitem__(self, flow: Flow) -> "Port":
        return self._ways[flow.frozen()]

    def __setitem__(self, flow: Flow, port: "Port") -> None:
        owner, other = self._port.owner, port.owner
        if owner.runtime is not other.runtime:
            raise ConfigError("the two ports are of different services")
        self._ways[flow.frozen()] = port
        owner.runtime.changed()

    def __delitem__(self, flow: Flow) -> None:
        del self._ways[flow.frozen()]
        self._port.owner.runtime.changed()

    def __iter__(self) -> Iterator[Flow]:
        return iter([Flow(**dict(frozen)) for frozen in self._ways])

    def __len__(self) -> int:
        return len(self._ways)

    def without(self, gone: object) -> None:
        """Forgets what leads to a function that is gone."""
        self._ways = {flow: port for flow, port in self._ways.items() if port.owner is not gone}

    def rules(self) -> Iterator[dict[str, object]]:
        """The flow rules that these become, of what is deployed."""
        source = self._port.place
        for i, (flow, port) in enumerate(self._ways.items()):
            if not (self._port.owner.deployed and port.owner.deployed):
                continue
            fields: dict[str, object] = {KEYS[key]: value for key, value in flow}
            yield {
                "id": f"{source.replace(':', '-')}-{i}",
                # More keys, more priority; what was said first before what was said later.
                "priority": 1 + 4096 * len(flow) + max(0, 4095 - i),
                "match": {"port_in": source, **fields},
                "actions": {"output_to_port": port.place},
            }
