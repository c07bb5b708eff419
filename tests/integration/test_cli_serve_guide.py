"""The commands of the guide to serving, run as the guide gives them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.integration.cli_server import serving

GUIDE = Path(__file__).parents[2] / "docs/guide/serving.md"


def test_the_commands_of_the_guide_work_from_an_empty_folder_to_an_approved_mail(tmp_path: Path) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    code, commands = (re.findall(rf"^```{kind}\n(.*?)^```", text, re.M | re.S)[0] for kind in ("python", "sh"))
    (tmp_path / "mail.py").write_text(code, encoding="utf-8")
    with serving(tmp_path, "dev", "mail.py", "--port", "0", "--no-reload") as server:
        result = subprocess.run(
            ["bash", "-c", commands],
            env={**os.environ, "STATEWRIGHT_URL": server.url, "PATH": _search_path(tmp_path)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert "Send this to Ada?" in result.stdout
        assert '"text": "Dear Ada, thank you."' in result.stdout
        assert "WORKFLOW_COMPLETED" in result.stdout
        output = server.output.replace(f" --url {server.url}", "").replace(server.url, "http://127.0.0.1:8123")
        assert [line for line in _expected_output(text) if line not in output] == []


def _expected_output(text: str) -> list[str]:
    """The output of the server that the guide shows."""
    block = re.search(r"^\$ statewright dev mail.py\n(.*?)^```", text, re.M | re.S)
    assert block is not None
    return block[1].splitlines()


def _search_path(folder: Path) -> str:
    """A search path on which `statewright` is the version under test."""
    script = folder / "bin" / "statewright"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m statewright "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return f"{script.parent}:{os.environ['PATH']}"
