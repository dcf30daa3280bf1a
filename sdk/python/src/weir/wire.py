"""What both clients do with requests and answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from .contexts import Context
from .errors import AnswerError, ConfigError, WeirError, of_response

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

BASE = "/v1"
TIMEOUT = httpx.Timeout(60.0, connect=10.0)
"""A change of a graph may take long: it is answered when it is done."""
PAUSE = 0.5
"""How long to wait before a stream that broke is asked for again, in seconds."""

Document = Mapping[str, Any] | str
"""A service graph: as values, or as text in YAML or JSON."""


def path(*parts: str) -> str:
    """A path below the interface's, each part escaped."""
    return BASE + "".join("/" + quote(part, safe="") for part in parts)


def query(**values: str | int | bool | None) -> dict[str, str]:
    """A query of what is there."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None and value is not False
    }


def check(response: httpx.Response) -> httpx.Response:
    """Raises the error of an answer that was read."""
    if not response.is_success:
        raise of_response(response)
    return response


def read(kind: type[M], response: httpx.Response) -> M:
    """The model in an answer."""
    return parse(kind, check(response).content, response)


def parse(kind: type[M], text: str | bytes, response: httpx.Response) -> M:
    """A model of a part of an answer."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise _unknown(response, kind.__name__, error) from error


def read_list(kind: type[M], response: httpx.Response) -> list[M]:
    """The models in an answer that is a list."""
    try:
        return TypeAdapter(list[kind]).validate_json(check(response).content)  # type: ignore[valid-type]
    except ValidationError as error:
        raise _unknown(response, f"list of {kind.__name__}", error) from error


def _unknown(response: httpx.Response, what: str, error: ValidationError) -> WeirError:
    return AnswerError(f"{response.request.method} {response.request.url} answered no {what}: {error}")


def document(given: Document) -> tuple[bytes, dict[str, str]]:
    """The body of a document, and its headers."""
    if isinstance(given, str):
        return given.encode(), {"Content-Type": "application/yaml"}
    return dump(dict(given)), {"Content-Type": "application/json"}


def dump(value: Any) -> bytes:
    """A value as JSON."""
    return TypeAdapter(Any).dump_json(value)


def identifier(given: Document) -> str:
    """The identifier of the graph that a document is of."""
    try:
        values = yaml.safe_load(given) if isinstance(given, str) else given
    except yaml.YAMLError as error:
        raise WeirError(f"the document is not YAML: {error}") from error
    values = values.get("sffg", values) if isinstance(values, Mapping) else values
    found = values.get("id") if isinstance(values, Mapping) else None
    if not isinstance(found, str | int):
        raise WeirError("the document names no graph: it begins with 'id: NAME'")
    return str(found)


def context(url: str, *, token: str | None, fingerprint: str | None, ca: str | None) -> Context:
    """A context of these, if they fit each other."""
    scheme = httpx.URL(url).scheme
    if scheme not in ("http", "https"):
        raise ConfigError(f"{url!r} is no address of a node; write one such as https://node.example:7400")
    known = fingerprint is not None or ca is not None
    if scheme == "https" and not known:
        raise ConfigError("nothing says by which certificate the server is known: give fingerprint= or ca=")
    if scheme == "http" and known:
        raise ConfigError("a certificate is of https: write https://…")
    return Context(url=url, token=token, fingerprint=fingerprint, ca=Path(ca) if ca else None)
