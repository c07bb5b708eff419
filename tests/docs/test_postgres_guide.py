"""The code of the guide about Postgres runs on Postgres, too, and not only on a file."""

from __future__ import annotations

import pytest
from tests.docs.test_documents import BLOCK, ROOT
from tests.postgres_server import execute, new_schema_url, shared_url

GUIDE = (ROOT / "docs/guide/postgres.md").read_text(encoding="utf-8")


def test_the_code_runs_on_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEWRIGHT_DATABASE", new_schema_url("of_the_guide"))
    names: dict[str, object] = {"__name__": "document"}
    for block in BLOCK.findall(GUIDE):
        exec(compile(block, "docs/guide/postgres.md", "exec", dont_inherit=True), names)
    assert execute(shared_url(), "SELECT count(*) FROM of_the_guide.threads") == [(1,)]
