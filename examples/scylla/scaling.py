"""A network service that scales: one function counts all traffic of a host; while it is busy, a second one at another node takes half of the
flow space, and goes again when it is quiet.
"""

from typing import Any

from weir.scylla import CPP, LVAP, LVNF, Flow, Handle, Image, make_wild_card_flow, packets_count

MONITOR = Image(vnf="in_0 -> c :: Counter -> out_0", handlers=[("count", "c.count")])


class Scaling:
    """Scales between one and two functions, by the packets that come a second."""

    def __init__(self, lvap: LVAP, sink: LVAP, home: CPP, spare: CPP, half: Flow, busy: float, quiet: float) -> None:
        self.lvap, self.sink, self.spare, self.half = lvap, sink, spare, half
        self.busy, self.quiet = busy, quiet
        self.second: LVNF | None = None
        self.all = make_wild_card_flow()
        self.first = self.spawn("first", home)
        lvap.ports[0].next[self.all] = self.first.ports[0]
        self.rates: dict[str, float] = {}
        self.query: Handle = packets_count(lvnf="ff:ff:ff:ff:ff:ff", every=500, callback=self.measured)

    def spawn(self, name: str, cpp: CPP) -> LVNF:
        """Another function, which leads where all do."""
        lvnf = LVNF(MONITOR, name=name)
        lvnf.cpp = cpp
        lvnf.ports[0].next[self.all] = self.sink.ports[0]
        return lvnf

    def measured(self, report: dict[str, Any]) -> None:
        """The packets of one or both functions: each node reports its own."""
        for reading in report["readings"]:
            if "receive_rate" in reading:
                self.rates[reading["function"]] = reading["receive_rate"]["packets"]
        total = sum(self.rates.values())
        if self.second is None and total > self.busy:
            print(f"{total:.0f} packets a second: a second function at {self.spare.name} takes the half {self.half}", flush=True)
            self.second = self.spawn("second", self.spare)
            self.lvap.ports[0].next[self.half] = self.second.ports[0]
        elif self.second is not None and total < self.quiet:
            print(f"{total:.0f} packets a second: the second function goes", flush=True)
            self.second.remove()
            self.second = None
            self.rates.pop("second", None)
