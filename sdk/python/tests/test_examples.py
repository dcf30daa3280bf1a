"""The examples that are written with the SDK."""

import os
import subprocess

from lab import ROOT, WEIR


def test_the_scaling_app_scales_out_and_in() -> None:
    run = [str(ROOT / "examples/scylla/run")]
    done = subprocess.run(run, env={**os.environ, "WEIR": str(WEIR)}, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("a second function at n2 takes the half", "two functions run, and both have packets", "== done"):
        assert line in done.stdout
