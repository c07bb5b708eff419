"""The section `[graphs]`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.project.conftest import read, read_problems, read_warnings


def test_a_graph_may_be_a_string(folder: Path) -> None:
    graphs = read(
        '[graphs]\na = "flows.mail:graph"\nb = "mail.py:app"\nc = "triage.yaml"\nd = "flows"\n', folder
    ).graphs
    assert [(graph.name, graph.target, graph.file) for graph in graphs.values()] == [
        ("a", "flows.mail:graph", None),
        ("b", "mail.py:app", None),
        ("c", None, folder / "triage.yaml"),
        ("d", "flows", None),
    ]
    assert graphs["b"].at == (3, 1)


def test_a_graph_may_be_a_table(folder: Path) -> None:
    text = '[graphs.mail]\npath = "mail:graph"\ndescription = "Mails"\non_failure = "tell"\nversion = "3"\n'
    mail = read(text, folder).graphs["mail"]
    assert (mail.description, mail.on_failure, mail.version, mail.at) == ("Mails", "tell", "3", (1, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[graphs]\na = 1", "In 'graphs.a' (line 2, column 1): It must be a string or a table, but is a number."),
        ("[graphs.a]", "It has neither a path nor a file."),
        ('[graphs.a]\npath = "a:b"\nfile = "triage.yaml"', "It has both a path and a file."),
        ('[graphs.a]\nfile = "triage.yaml"\nversion = "1"', "The version of a file is computed from its content."),
        (
            '[graphs]\na = "no place:"',
            "'no place:' is not a reference to a Python graph. Write it as 'module:graph'",
        ),
        ('[graphs.a]\npath = "triage.yaml"', "is not a reference to a Python graph. Move it to 'file'."),
        (
            '[graphs.a]\nfile = "mail.py:graph"',
            "does not end in .yaml, .yml or .json. Move the reference to a Python graph to 'path'.",
        ),
        ('[graphs.a]\npath = "a:b"\ndiscription = "x"', "Did you mean 'description'?"),
        ('[graphs]\na = "a:b"\n[workflows.a]\nfile = "triage.yaml"', "[workflows.a] has the same name."),
    ],
)
def test_problems_name_the_line(folder: Path, text: str, message: str) -> None:
    (problem,) = read_problems(text, folder)
    assert message in problem
    assert "(line " in problem


def test_a_missing_file_is_a_warning(folder: Path) -> None:
    assert read_warnings('[graphs]\na = "none.json"', folder) == [
        "In 'graphs.a' (line 2, column 1): File 'none.json' does not exist. Its path is relative to this file."
    ]
