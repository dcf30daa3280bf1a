"""The primitives of Scylla (Riggio et al., "Scylla: A Language for Virtual Network Functions Orchestration in Enterprise WLANs").

`start(client)` begins a service; what follows is about it. docs/sdk.md has examples.
"""

from .flows import Flow, make_wild_card_flow
from .lvnf import CPP, LVAP, LVNF, Image, Port, cpps
from .queries import (
    Handle,
    bytes_count,
    cpp_down,
    cpp_up,
    cpu_util,
    handler_value,
    lqm,
    lvnf_down,
    mem_util,
    packets_count,
)
from .runtime import MigrationError, Runtime, start

__all__ = [
    "CPP",
    "LVAP",
    "LVNF",
    "Flow",
    "Handle",
    "Image",
    "MigrationError",
    "Port",
    "Runtime",
    "bytes_count",
    "cpp_down",
    "cpp_up",
    "cpps",
    "cpu_util",
    "handler_value",
    "lqm",
    "lvnf_down",
    "make_wild_card_flow",
    "mem_util",
    "packets_count",
    "start",
]
