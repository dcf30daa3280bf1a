"""A domain to test against: the real controller and three nodes, in network namespaces of their own, with a host at each."""

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

from weir import Client

ROOT = Path(__file__).resolve().parents[3]
WEIR = Path(os.environ.get("WEIR", ROOT / "target/debug/weir"))
NODES = ("n1", "n2", "n3")
ADDRESS = "10.99.0.254"
URL = f"https://{ADDRESS}:7443"
CLONE_NEWNET = 0x40000000


def run(*command: str, check: bool = True) -> str:
    """Runs a command and gives what it writes."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def until(what: str, condition: Callable[[], object], seconds: float = 30) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"in vain: {what}")
        time.sleep(0.05)


def enter(namespace: int) -> None:
    """Moves this thread, and those that it starts, into a network namespace. `os.setns` is of Python 3.12."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "cannot enter the network namespace")


class Domain:
    """A controller and three nodes. Each node `n1` has the interfaces `lan` and `wan`, which lead to the host `h1`."""

    def __init__(self) -> None:
        self.prefix = f"py{os.getpid()}"
        self.folder = Path(tempfile.mkdtemp(prefix="weir-sdk-"))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.namespaces = ("control", *NODES, "h1", "h2", "h3")
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self.token = ""
        self.pin = ""

    def __enter__(self) -> Self:
        try:
            self._lay()
            self.start_controller()
            self.token, self.pin = self.printed("admin token: "), self.printed("pin=")
            self._join()
            control = os.open(f"/var/run/netns/{self.prefix}-control", os.O_RDONLY)
            enter(control)
            os.close(control)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        enter(self.home)
        os.close(self.home)
        for process in self.processes.values():
            process.kill()
            process.wait()
        for node in NODES:
            self.inside(node, str(WEIR), "engine", "--stop", "--socket", str(self.folder / f"{node}.sock"), check=False)
        for name in self.namespaces:
            run("ip", "netns", "del", f"{self.prefix}-{name}", check=False)
        shutil.rmtree(self.folder)

    def _ip(self, name: str, *words: str) -> None:
        run("ip", "-n", f"{self.prefix}-{name}", *words)

    def _link(self, node: str, port: str, other: str, peer: str) -> None:
        names = [f"{self.prefix}-{n}" for n in (node, other)]
        run("ip", "link", "add", port, "netns", names[0], "type", "veth", "peer", "name", peer, "netns", names[1])
        self._ip(node, "link", "set", port, "up")
        self._ip(other, "link", "set", peer, "up")

    def _lay(self) -> None:
        for name in self.namespaces:
            run("ip", "netns", "add", f"{self.prefix}-{name}")
            self._ip(name, "link", "set", "lo", "up")
        self._ip("control", "link", "add", "br0", "type", "bridge")
        self._ip("control", "addr", "add", f"{ADDRESS}/24", "dev", "br0")
        self._ip("control", "link", "set", "br0", "up")
        for i, node in enumerate(NODES, 1):
            self._link(node, "m0", "control", f"p{i}")
            self._ip("control", "link", "set", f"p{i}", "master", "br0")
            self._ip(node, "addr", "add", f"10.99.0.{i}/24", "dev", "m0")
            self._link(node, "lan", f"h{i}", "eth0")
            self._link(node, "wan", f"h{i}", "eth1")
            self._ip(f"h{i}", "addr", "add", f"10.1.0.{i}/24", "dev", "eth0")

    def start(self, name: str, namespace: str, *arguments: str) -> None:
        """Starts the program in a namespace."""
        with (self.folder / f"{name}.log").open("wb") as log:
            command = ["ip", "netns", "exec", f"{self.prefix}-{namespace}", str(WEIR), *arguments]
            self.processes[name] = subprocess.Popen(command, stderr=log, stdout=log, cwd=ROOT)

    def start_controller(self) -> None:
        """Starts the controller, with the store of the one before."""
        self.start("controller", "control", "controller", "--listen", f"{ADDRESS}:7443", "--store", str(self.folder / "c.db"))
        until("the controller listens", lambda: "the controller listens" in self.log("controller"))

    def start_node(self, name: str, *more: str) -> None:
        """Starts a node."""
        files = ["--socket", str(self.folder / f"{name}.sock"), "--store", str(self.folder / f"{name}.db"), "--images", "images"]
        self.start(name, name, "node", *files, "--join", URL, "--name", name, *more)

    def _join(self) -> None:
        config = {"XDG_CONFIG_HOME": str(self.folder / "config")}
        os.environ.update(config)
        self.weir("context", "add", "home", URL, "--token", self.token, "--fingerprint", self.pin)
        token = self.weir("token", "--uses", "3").strip()
        for node in NODES:
            self.start_node(node, "--token", token)
        for node in NODES:
            until(f"{node} says what it has", partial(self.knows, node))

    def knows(self, node: str) -> bool:
        """Whether a node has said what it has."""
        return '"endpoints"' in self.weir("--json", "describe", "node", node, check=False)

    def log(self, name: str) -> str:
        """What a program has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def printed(self, before: str) -> str:
        """What stands behind a text in what the controller has written."""
        until(before, lambda: before in self.log("controller"))
        found = re.search(re.escape(before) + r"(\S+)", self.log("controller"))
        assert found
        return found[1]

    def kill(self, name: str) -> None:
        """Ends a program at once. `ip netns exec` becomes the program, so the number is its own."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def inside(self, namespace: str, *command: str, check: bool = True) -> str:
        """Runs a command in a namespace."""
        return run("ip", "netns", "exec", f"{self.prefix}-{namespace}", *command, check=check)

    def weir(self, *arguments: str, check: bool = True) -> str:
        """Runs `weir` where the controller is."""
        return self.inside("control", str(WEIR), *arguments, check=check)

    def client(self) -> Client:
        """The operator's client."""
        return Client(URL, token=self.token, fingerprint=self.pin)
