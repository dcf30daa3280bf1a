"""TLS by the certificate authority of a domain.

A server is known by the pin of its authority, which it prints at its start, so it may be reached under any name or address. The chain
that it shows has the authority's certificate: that one is taken for the only root if its SHA-256 is the pin.
"""

import hashlib
import re
import socket
import ssl
import struct
from pathlib import Path

import httpx
from OpenSSL import SSL, crypto

from .errors import ConfigError, UnreachableError

SERVER_NAME = "server.weir.internal"
"""The name that the certificate of each server of a domain has."""
TIMEOUT = 10.0


def _digits(pin: str) -> str:
    digits = pin.removeprefix("sha256:").lower()
    if not re.fullmatch("[0-9a-f]{64}", digits):
        raise ConfigError(f"{pin!r} is no pin; it is sha256: and 64 hexadecimal digits, as the server prints at its start")
    return digits


def chain(host: str, port: int) -> list[bytes]:
    """The certificates that a server shows, in DER. Nothing is said to it."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT) as sock:
            # A socket of pyOpenSSL's does not wait by itself if it has a time limit.
            sock.settimeout(None)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(TIMEOUT), 0))
            connection = SSL.Connection(context, sock)
            connection.set_tlsext_host_name(SERVER_NAME.encode())
            connection.set_connect_state()
            connection.do_handshake()
            shown = connection.get_peer_cert_chain() or []
            return [crypto.dump_certificate(crypto.FILETYPE_ASN1, c) for c in shown]
    except OSError as error:
        raise UnreachableError(f"{host}:{port} cannot be reached: {error}") from error
    except SSL.Error as error:
        raise UnreachableError(f"{host}:{port} does not speak TLS: {error}") from error


def pinned(url: httpx.URL, pin: str) -> ssl.SSLContext:
    """A context that takes the server of that pin, and no other."""
    digits = _digits(pin)
    certificates = chain(url.host, url.port or 443)
    for place, certificate in enumerate(certificates):
        if hashlib.sha256(certificate).hexdigest() != digits:
            continue
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=certificate)
        if place == 0:
            # A certificate that stands alone: it is the pin's own, whatever its name.
            context.check_hostname = False
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context
    raise UnreachableError(
        f"{url.host}:{url.port or 443} shows a certificate of another authority than sha256:{digits}; it is another"
        " server, or one whose authority is new: it prints its pin at its start"
    )


def rooted(file: str | Path) -> ssl.SSLContext:
    """A context that takes servers whose certificate leads to one of that file (PEM), and is for the address that is asked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=str(file))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificates {file} are of no use: {error}") from error
    return context
