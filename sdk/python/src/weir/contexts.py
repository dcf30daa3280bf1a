"""Contexts, as `weir context` keeps them: which server, and as whom it is asked."""

import os
from pathlib import Path
from typing import Self

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import ConfigError
from .keys import Key

DEFAULT = "http://127.0.0.1:7400"


class Context(BaseModel):
    """A server, and as whom it is asked."""

    model_config = ConfigDict(extra="forbid")

    url: str
    """Its address."""
    key: Path | None = None
    """The file of the key that signs."""
    token: str | None = None
    """A secret in place of a key."""
    ca: Path | None = None
    """The file of the certificates that the server's has to lead to."""
    fingerprint: str | None = None
    """The pin of the server's authority, or of its certificate."""

    def login(self) -> Key | str | None:
        """As whom the server is asked."""
        return Key.load(self.key) if self.key else self.token


class Contexts(BaseModel):
    """All contexts."""

    model_config = ConfigDict(extra="forbid")

    current: str | None = None
    """The one that counts if none is named."""
    contexts: dict[str, Context] = {}
    """By name."""

    @staticmethod
    def file() -> Path:
        """Where they are kept (XDG Base Directory Specification)."""
        config = os.environ.get("XDG_CONFIG_HOME", "")
        folder = Path(config) if config.startswith("/") else Path.home() / ".config"
        return folder / "weir" / "contexts.yaml"

    @classmethod
    def load(cls) -> Self:
        """Those of the user; none if there is no file."""
        file = cls.file()
        try:
            return cls.model_validate(yaml.safe_load(file.read_text()) or {})
        except FileNotFoundError:
            return cls()
        except (OSError, yaml.YAMLError, ValidationError) as error:
            raise ConfigError(f"{file} is of no use: {error}") from error

    def get(self, name: str) -> Context:
        """The one of that name."""
        try:
            return self.contexts[name]
        except KeyError:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise ConfigError(f"there is no context '{name}'; there are: {known}") from None


def choose(name: str | None = None) -> Context:
    """The context of that name; else as `weir` chooses: WEIR_NODE, WEIR_CONTEXT, the current one, a node on this machine."""
    if name is None and (url := os.environ.get("WEIR_NODE")):
        return Context(url=url)
    contexts = Contexts.load()
    name = name or os.environ.get("WEIR_CONTEXT") or contexts.current
    return contexts.get(name) if name else Context(url=DEFAULT)
