"""Keys, tokens, contexts and streams, without a server."""

import base64
import json
import subprocess
from pathlib import Path

import httpx
import pytest
from lab import WEIR

from weir import ConfigError, Context, Contexts, Key
from weir.contexts import choose
from weir.keys import audience
from weir.sse import Message, Parser


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://Node.Example./v1", "node.example:443"),
        ("http://10.0.0.1:7400", "10.0.0.1:7400"),
        ("http://[0:0::1]:7400", "[::1]:7400"),
        ("http://[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
    ],
)
def test_a_token_is_for_the_host_and_port_that_are_asked(url: str, expected: str) -> None:
    assert audience(httpx.URL(url)) == expected


def test_a_key_of_weirs_is_read_and_has_the_fingerprint_that_weir_says(tmp_path: Path) -> None:
    file = tmp_path / "alice"
    said = subprocess.run([WEIR, "key", "new", str(file)], capture_output=True, text=True, check=True).stdout
    key = Key.load(file)
    assert key.fingerprint == said.strip()
    token = key.sign("GET", httpx.URL("http://n:1/v1/graphs?x=a%20b"), now=1000)
    header, claims, signature = (base64.urlsafe_b64decode(part + "==") for part in token.split("."))
    assert json.loads(header) == {"alg": "EdDSA", "typ": "JWT"}
    values = json.loads(claims)
    assert len(values.pop("jti")) >= 16
    assert values == {"sub": key.fingerprint, "aud": "n:1", "req": "GET /v1/graphs?x=a%20b", "iat": 1000, "exp": 1060}
    key._key.public_key().verify(signature, token.rpartition(".")[0].encode())


def test_a_new_key_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    key = Key.generate()
    key.save(tmp_path / "k")
    assert (tmp_path / "k").stat().st_mode & 0o777 == 0o600
    assert Key.load(tmp_path / "k").public_key == key.public_key
    with pytest.raises(FileExistsError):
        key.save(tmp_path / "k")


def test_what_is_no_key_is_refused_with_what_would_be_right(tmp_path: Path) -> None:
    Key.generate().save(tmp_path / "k")
    with pytest.raises(ConfigError, match="public key; give the private one"):
        Key.load(tmp_path / "k.pub")
    with pytest.raises(ConfigError, match="No such file"):
        Key.load(tmp_path / "none")
    with pytest.raises(ConfigError, match="BEGIN OPENSSH PRIVATE KEY"):
        Key.from_openssh(b"hello")
    for options, why in [(["-t", "ed25519", "-N", "secret"], "passphrase"), (["-t", "rsa", "-N", ""], "only ssh-ed25519")]:
        file = tmp_path / options[1]
        subprocess.run(["ssh-keygen", "-q", "-f", str(file), *options], check=True)
        with pytest.raises(ConfigError, match=why):
            Key.load(file)


def test_contexts_are_those_of_weir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("WEIR_CONTEXT", raising=False)
    monkeypatch.delenv("WEIR_NODE", raising=False)
    assert choose() == Context(url="http://127.0.0.1:7400")
    command = [str(WEIR), "context", "add", "lab", "https://n:1", "--token", "a: \"b'", "--fingerprint", "sha256:" + "ab" * 32]
    subprocess.run(command, check=True, capture_output=True)
    assert choose().token == "a: \"b'"
    assert Contexts.load().current == "lab"
    with pytest.raises(ConfigError, match="there is no context 'lap'; there are: lab"):
        choose("lap")
    monkeypatch.setenv("WEIR_NODE", "http://other:2")
    assert choose().url == "http://other:2"
    (tmp_path / "weir/contexts.yaml").write_text("contexts: {a: {url: x, kye: y}}")
    with pytest.raises(ConfigError, match="kye"):
        choose("a")


def test_lines_of_a_stream_become_messages() -> None:
    parser = Parser()
    lines = ["id: 7", "event: applied", "data: a", "data: b", "", ": still here", "", "data:c", ""]
    found = [message for line in lines if (message := parser.line(line))]
    assert found == [Message("applied", "a\nb", "7"), Message("message", "c", "7")]
