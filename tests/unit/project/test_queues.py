"""The section `[queues]`, and the queues of graphs and of the server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.project.conftest import read, read_problems

from statewright.project import QueueSettings


def test_queues_have_limits_and_tags(folder: Path) -> None:
    text = (
        '[queues.gpu]\nmax_running = 2\ntags = ["video", "image"]\n[queues.mail]\nstarts_per_minute = 600\n[queues.x]'
    )
    project = read(text, folder)
    assert project.queues == {
        "gpu": QueueSettings(max_running=2, tags=("video", "image")),
        "mail": QueueSettings(starts_per_minute=600),
        "x": QueueSettings(),
    }
    assert project.queues_by_tag == {"video": "gpu", "image": "gpu"}


def test_a_graph_may_name_its_queue(folder: Path) -> None:
    graphs = read('[graphs.a]\npath = "a:graph"\nqueue = "gpu"\n[graphs.b]\nfile = "triage.yaml"\n', folder).graphs
    assert (graphs["a"].queue, graphs["b"].queue) == ("gpu", None)


def test_a_process_serves_all_queues_unless_the_file_lists_some(folder: Path) -> None:
    assert read("[serve]\n", folder).serving.queues is None
    serving = read('[serve]\nqueues = ["gpu", "mail"]\nmax_losses = 3\n', folder).serving
    assert (serving.queues, serving.max_losses) == (("gpu", "mail"), 3)


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("[queues.gpu]\nmax_running = 0", "queues.gpu.max_running", "It must be a whole number from 1 to 1000000"),
        ("[queues.gpu]\nmax_runing = 1", "queues.gpu.max_runing", "Did you mean 'max_running'?"),
        ('[queues.gpu]\ntags = "video"', "queues.gpu.tags", "It must be a list of strings"),
        ('[queues."a b"]', 'queues."a b"', "'a b' is not a valid name of a queue. Use 1 to 63 letters"),
        ("[queues]\ngpu = 1", "queues.gpu", "It must be a table"),
        ('[serve]\nqueues = ["a b"]', "serve.queues.0", "'a b' is not a valid name of a queue."),
        ("[serve]\nqueues = []", "serve.queues", "It is an empty list. List at least one queue"),
        ("[serve]\nmax_losses = 0", "serve.max_losses", "It must be a whole number of at least 1"),
        ('[graphs.a]\npath = "a:b"\nqueue = "a b"', "graphs.a.queue", "'a b' is not a valid name of a queue."),
        (
            '[queues.a]\ntags = ["x"]\n[queues.b]\ntags = ["x"]',
            "queues.b.tags",
            "[queues.a] lists the tag 'x', too. Remove it there.",
        ),
    ],
)
def test_problems_name_the_key(folder: Path, text: str, path: str, expected: str) -> None:
    (problem,) = read_problems(text, folder)
    assert f"In '{path}' (line " in problem
    assert expected in problem
