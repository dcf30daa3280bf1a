"""A client of Weir's nodes and controllers; `weir.scylla` has the primitives of the language Scylla on top."""

from .aio import AsyncClient
from .client import Client
from .contexts import Context, Contexts
from .errors import (
    AnswerError,
    ApiError,
    BusyError,
    ConfigError,
    ConflictError,
    ForbiddenError,
    LoginError,
    NotFoundError,
    RefusedError,
    ServerError,
    UnreachableError,
    WeirError,
)
from .keys import Key

__all__ = [
    "AnswerError",
    "ApiError",
    "AsyncClient",
    "BusyError",
    "Client",
    "ConfigError",
    "ConflictError",
    "Context",
    "Contexts",
    "ForbiddenError",
    "Key",
    "LoginError",
    "NotFoundError",
    "RefusedError",
    "ServerError",
    "UnreachableError",
    "WeirError",
]
