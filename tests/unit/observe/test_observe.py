"""The public names of the package."""

from __future__ import annotations

import subprocess
import sys

from statewright import observe


def test_all_public_names_exist() -> None:
    assert sorted(observe.__all__) == list(observe.__all__)
    assert all(hasattr(observe, name) for name in observe.__all__)


def test_importing_the_package_loads_no_optional_library() -> None:
    code = (
        "import sys, statewright.observe\n"
        "print([name for name in ('prometheus_client', 'opentelemetry', 'structlog') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "[]\n"
