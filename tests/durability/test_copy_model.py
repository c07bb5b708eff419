"""Random histories survive a copy from SQLite to Postgres and back, and continue on both copies as on the original.

The histories, and the model that says what they are, are those of `test_saver_model`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.durability.test_saver_model import THREADS, Call, World, calls, check_equal, compaction_limits, limits
from tests.postgres_server import empty_database
from tests.work import FULL

from statewright import InMemorySaver
from statewright.storage.copy import copy_database
from statewright.storage.postgres import PostgresSaver, compaction
from statewright.storage.sqlite import SqliteDatabase, SqliteSaver
from statewright.testing import FakeClock


def continued(world: World, saver: Any) -> World:
    """A world on a copy, at the time and with the ids of the original one."""
    return World(saver, FakeClock(world.clock.now()), copy(world.counter))


@settings(
    max_examples=40 if FULL else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    limits=limits,
    earlier=st.lists(calls, min_size=3, max_size=15),
    later=st.lists(calls, max_size=5),
    compress=st.booleans(),
    key=st.sampled_from([None, b"k" * 32]),
)
def test_a_copied_history_equals_that_of_the_model(
    limits: Mapping[str, Any], earlier: Sequence[Call], later: Sequence[Call], compress: bool, key: bytes | None
) -> None:
    recent = {"RECENT": limits["LONGEST"] + 1, "LARGEST": limits["LARGEST"]}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(compaction_limits(limits))
        stack.enter_context(mock.patch.multiple(compaction, **recent))
        report_failure = stack.enter_context(mock.patch.object(compaction.logger, "warning"))
        original = stack.enter_context(SqliteDatabase(folder / "original.db", compress=compress))
        back = stack.enter_context(SqliteDatabase(folder / "back.db"))
        server = empty_database(key=key)
        model, world = World(InMemorySaver()), World(SqliteSaver(original))
        for call in earlier:
            assert world.do(call) == model.do(call)
        copy_database(original, server)
        copy_database(server, back)
        copies = [continued(model, PostgresSaver(server)), continued(model, SqliteSaver(back))]
        for copied in copies:
            check_equal(model, copied, THREADS)
        for call in later:
            expected = model.do(call)
            for copied in copies:
                assert copied.do(call) == expected
        for copied in copies:
            check_equal(model, copied, THREADS)
        server.write(lambda connection: None)  # waits for the compactions, which were queued before
        report_failure.assert_not_called()
