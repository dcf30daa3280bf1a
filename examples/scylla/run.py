"""Shows scaling.py at work: a controller and three nodes in network namespaces, a host that is busy and then quiet."""

import subprocess
import time

from lab import WEIR, Domain, until
from scaling import Scaling

from weir import Client, WeirError
from weir.scylla import CPP, LVAP, Flow, start


def main() -> None:
    """Runs it."""
    if not WEIR.exists():
        raise SystemExit(f"no program at {WEIR}: build it, or say where it is with WEIR=")
    print("== a controller, three nodes, and a host at each", flush=True)
    with Domain() as domain, domain.client() as client, start(client) as service:
        domain.inside("h1", "ip", "addr", "add", "10.1.0.200/24", "dev", "eth0")
        domain.inside("h1", "ip", "neigh", "replace", "10.1.0.3", "lladdr", "02:00:00:00:00:03", "dev", "eth0")
        lvap, sink = LVAP(CPP("n1"), "lan", name="client"), LVAP(CPP("n3"), "lan", name="server")
        upper = Flow(dl_type=0x0800, nw_src="10.1.0.128/25")
        app = Scaling(lvap, sink, home=CPP("n1"), spare=CPP("n2"), half=upper, busy=50, quiet=10)
        service.wait()
        print("one function runs:", [f.id for f in client.graphs.status("scylla").functions], flush=True)
        print("== the host sends 100 packets a second, from two addresses", flush=True)
        senders = [sender(domain, source) for source in ("10.1.0.1", "10.1.0.200")]
        until("a second function runs", lambda: app.second is not None)
        until("it has packets", lambda: count(client, "second") > 10)
        print("two functions run, and both have packets", flush=True)
        print("== the host is quiet", flush=True)
        for process in senders:
            process.kill()
            process.wait()
        until("the second function is gone", lambda: app.second is None)
        service.wait()
        functions = [f.id for f in client.graphs.status("scylla").functions]
        if functions != ["first"]:
            raise SystemExit(f"FAILED: {functions} run")
        print("one function runs:", functions, flush=True)
        app.query.cancel()
    print("== done", flush=True)


def sender(domain: Domain, source: str) -> "subprocess.Popen[bytes]":
    """Pings that nobody answers, 50 a second."""
    command = ["ip", "netns", "exec", f"{domain.prefix}-h1", "ping", "-q", "-i", "0.02", "-I", source, "10.1.0.3"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def count(client: Client, function: str) -> int:
    """Packets that a function has had; none while it is not there."""
    try:
        return int(client.graphs.read_handler("scylla", function, "count"))
    except WeirError:
        time.sleep(0.1)
        return 0


if __name__ == "__main__":
    main()
