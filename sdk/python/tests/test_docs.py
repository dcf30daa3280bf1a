"""The tutorial, as it is written: what a block prints stands behind `#>`."""

import re
from pathlib import Path

import pytest
from lab import ROOT, URL, Domain

from weir import Client

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.S | re.M)


def blocks(file: Path) -> list[str]:
    """The blocks of code of a page."""
    return BLOCK.findall(file.read_text())


def expected(block: str) -> list[str]:
    """What a block says that it prints."""
    return [found.strip() for found in re.findall(r"^\s*#>(.*)$", block, re.M)]


def run(block: str, names: dict[str, object], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Runs a block and gives the lines that it prints."""
    exec(compile(block, "tutorial", "exec"), names)
    return [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]


def test_the_tutorial_does_what_it_says(domain: Domain, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"url": URL, "token": domain.token, "fingerprint": domain.pin}
    found = blocks(ROOT / "docs/sdk.md")
    assert len(found) >= 5
    for block in found:
        assert run(block, names, capsys) == expected(block), block
