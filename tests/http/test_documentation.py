"""What docs/http.md shows is what the server says."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
TRANSCRIPTS = re.findall(r"^\$ (curl (?:[^'\n]|'[^']*')*)\n((?:(?!\$|```)[^\n]*\n)+)", PAGE, re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize(("command", "shown"), TRANSCRIPTS)
def test_transcripts_of_the_page(address: str, command: str, shown: str) -> None:
    command = command.replace("http://localhost:8000", address).replace("localhost:8000", address)
    printed = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout
    assert printed.replace("\r", "").strip() == shown.strip()


@pytest.mark.parametrize("session", re.findall(r"```python\n(>>> .*?)```", PAGE, re.DOTALL))
def test_python_of_the_page(address: str, session: str) -> None:
    text = session.replace("http://localhost:8000", address)
    test = doctest.DocTestParser().get_doctest(text, {}, "docs/http.md", None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = doctest.DocTestRunner()
        runner.run(test)
    assert runner.tries > 3
    assert runner.failures == 0


def test_the_page_has_transcripts() -> None:
    assert len(re.findall(r"```python\n>>> ", PAGE)) == 2
    assert len([command for command, _ in TRANSCRIPTS if "/sparql" in command]) >= 4
