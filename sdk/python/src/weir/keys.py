"""Logins: tokens that are signed for each request with an Ed25519 key of OpenSSH's, or a secret that is sent as it is.

docs/access.md, "Other programs", has the form.
"""

import base64
import hashlib
import ipaddress
import json
import secrets
import time
from collections.abc import Generator
from pathlib import Path

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from .errors import ConfigError

LIFETIME = 60
"""How long a token is good, in seconds."""


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def audience(url: httpx.URL) -> str:
    """For which server a token is: the host and port that are asked, in lower case."""
    port = url.port or (443 if url.scheme == "https" else 80)
    host = url.host.rstrip(".").lower()
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"{host}:{port}"
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return f"{mapped}:{port}" if mapped else f"[{address}]:{port}"
    return f"{address}:{port}"


class Key:
    """A private Ed25519 key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def generate(cls) -> "Key":
        """A new one."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, file: str | Path) -> "Key":
        """Reads a private key's file, as `ssh-keygen -t ed25519` and `weir key new` write them."""
        try:
            return cls.from_openssh(Path(file).read_bytes())
        except OSError as error:
            raise ConfigError(f"cannot read the key {file}: {error.strerror}") from error
        except ConfigError as error:
            raise ConfigError(f"the key {file} is of no use: {error}") from error

    @classmethod
    def from_openssh(cls, text: bytes) -> "Key":
        """The key of a private key's text."""
        if text.startswith(b"ssh-"):
            raise ConfigError("it is a public key; give the private one, from the file of the same name without .pub")
        try:
            key = load_ssh_private_key(text, password=None)
        except TypeError as error:
            raise ConfigError("it has a passphrase, which is not asked for here; make one without: ssh-keygen -t ed25519 -N ''") from error
        except (ValueError, UnsupportedAlgorithm) as error:
            raise ConfigError(
                f"it is no private key of OpenSSH's ({error}); one begins with: -----BEGIN OPENSSH PRIVATE KEY-----"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError("only ssh-ed25519 is taken; make one with: ssh-keygen -t ed25519")
        return cls(key)

    @property
    def public_key(self) -> str:
        """The line of the `.pub` file, which an operator adds with `client.keys.add`."""
        return self._key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

    @property
    def fingerprint(self) -> str:
        """The fingerprint, as `ssh-keygen -l` prints it."""
        blob = base64.b64decode(self.public_key.split()[1])
        return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).rstrip(b"=").decode()

    def save(self, file: str | Path) -> None:
        """Writes the private key to a new file, and the public one to the same name with `.pub`."""
        text = self._key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        path = Path(file)
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(text)
        path.with_name(path.name + ".pub").write_text(self.public_key + "\n")

    def sign(self, method: str, url: httpx.URL, now: int | None = None) -> str:
        """A token for one request."""
        now = int(time.time()) if now is None else now
        claims = {
            "sub": self.fingerprint,
            "aud": audience(url),
            "req": f"{method} {url.raw_path.decode('ascii')}",
            "iat": now,
            "exp": now + LIFETIME,
            "jti": secrets.token_urlsafe(16),
        }
        parts = [json.dumps(p, separators=(",", ":")).encode() for p in ({"alg": "EdDSA", "typ": "JWT"}, claims)]
        message = ".".join(_base64(p) for p in parts)
        return f"{message}.{_base64(self._key.sign(message.encode()))}"


class Login(httpx.Auth):
    """Puts a token into each request: signed with a key, or a secret."""

    def __init__(self, login: Key | str | None) -> None:
        self._login = login

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Called by httpx for each request."""
        if isinstance(self._login, Key):
            request.headers["Authorization"] = "Bearer " + self._login.sign(request.method, request.url)
        elif self._login is not None:
            request.headers["Authorization"] = "Bearer " + self._login
        yield request
