"""The wheel, in an environment that has nothing but what it asks for: `make wheel` (several minutes)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.wheel
def test_the_wheel_installs_and_runs_the_demo(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    run(tmp_path, clean, sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("tarbox-*.whl")
    version = (ROOT / "src/tarbox/version.py").read_text().split('"')[-2]
    assert wheel.name == f"tarbox-{version}-py3-none-any.whl"
    venv.create(tmp_path / "clean", with_pip=True)
    python = tmp_path / "clean" / "bin" / "python"
    install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
    run(tmp_path, clean, str(python), *install, str(wheel))
    place = run(tmp_path, clean, str(python), "-c", "import tarbox; print(tarbox.__file__)").strip()
    assert Path(place).is_relative_to(tmp_path / "clean")
    program = str(python.with_name("tarbox"))
    assert run(tmp_path, clean, program, "--version").strip() == f"tarbox {version}"
    shown = run(tmp_path, clean, program, "demo", "-o", "demo")
    assert re.search(r"Trained demo/run in \d+ s", shown)
    assert "predicted" in shown
    assert "codex-m" in run(tmp_path, clean, program, "reproduce")


def run(folder: Path, environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
