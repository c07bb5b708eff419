"""Recording of real runs, for `replay` by a later version of the graph.

    with record(app, "refund.replay") as recorded:
        recorded.invoke({"order": 7}, thread_id="t")
        recorded.invoke(Command(resume="yes"), thread_id="t")

A recording is a `with` block because it is seldom a single call: a run is interrupted and resumed, a thread goes on,
a test awaits coroutines. The block receives the graph itself, with the same methods (`ainvoke`, `stream`, `batch`,
`iter`, `send_event`, `update_state`), so a test uses `recorded` in place of `app`. The file is written atomically when
the block ends without an error; a block that raises leaves the last recording as it is. Use `pytest.raises` inside the
block to record a run that fails.

The recorder listens to events like an instrument, those of subgraphs included, and changes nothing: a value that
cannot be recorded raises at the end of the block, not in a node. Two recordings of the same calls are the same bytes,
if nodes are deterministic and calls begin in the same order; `names` replaces the random ids. Only one fact depends on
timing: which concurrent tasks had completed when one of them failed, or when the run was cancelled.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from copy import copy
from pathlib import Path

from statewright.runtime import CompiledGraph
from statewright.serde.serde import Serde
from statewright.testing.replay.file import replay_serde
from statewright.testing.replay.recorder import Recorder


@contextmanager
def record(app: CompiledGraph, file: str | os.PathLike[str], *, serde: Serde | None = None) -> Generator[CompiledGraph]:
    """Record the runs of a graph in a block; the file is written when the block ends without an error.

    Values are stored as in checkpoints, with the types that the state declares. For other types pass a `serde` with
    their codecs; the records are registered with it too, so it must not be that of a saver. Raises SerdeError for
    values that cannot be stored, and InvalidConfig if nothing ran.
    """
    recorder = Recorder(replay_serde(app, serde))
    recorded = copy(app)
    # The listeners of a graph are set when it is compiled. A copy receives more, so that `app` is not changed.
    recorded._listeners = (*app._listeners, *recorder.listeners)  # pyright: ignore[reportPrivateUsage]
    yield recorded
    recorder.write(Path(file))
