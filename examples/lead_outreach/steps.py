"""`outreach.json`, compiled with the scripted model, so that `statewright dev` can serve it offline."""

from __future__ import annotations

from pathlib import Path

import handlers  # noqa: F401  # its functions register themselves  # pyright: ignore[reportUnusedImport]
from office import writer

from statewright.workflow.steps import compile_steps

app = compile_steps((Path(__file__).parent / "outreach.json").read_text(encoding="utf-8"), models=writer)
