"""What is generated is up to date, and the wheel holds what it should."""

import subprocess
import sys
import zipfile
from pathlib import Path

SDK = Path(__file__).resolve().parent.parent


def test_models_and_blocking_client_are_what_the_generator_makes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SDK / "tools/generate.py"), str(tmp_path)], check=True)
    for name in ("models.py", "client.py"):
        kept = (SDK / "src/weir" / name).read_text()
        assert kept == (tmp_path / name).read_text(), f"{name} is not up to date: python sdk/python/tools/generate.py"


def test_the_wheel_has_the_package_and_says_that_it_has_types(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], check=True, cwd=SDK)
    (wheel,) = tmp_path.glob("weir-*-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"weir/py.typed", "weir/client.py", "weir/models.py"} <= set(names)
    assert not [name for name in names if "test" in name]
