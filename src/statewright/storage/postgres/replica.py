"""A replica of a Postgres database, for reads that may be a little old.

Whatever the replica cannot do, the primary does: it may have been lost, be starting, not have the tables yet, or have
cancelled a read that was in the way of the changes it receives. A replica that was lost is left alone for some time,
because each attempt to connect may take as long as its timeout.
"""

from __future__ import annotations

import logging
import time
from typing import Final, TypeVar

from statewright.errors import StatewrightError
from statewright.storage.database import Job
from statewright.storage.postgres.connecting import ConnectionLost
from statewright.storage.postgres.connection import PostgresError
from statewright.storage.postgres.readers import Readers

T = TypeVar("T")
PAUSE: Final = 30.0
"""Seconds after which a replica that was lost is used again."""
logger = logging.getLogger(__name__)


class ReplicaUnavailable(Exception):  # a request to use the primary, not an error
    """The replica cannot answer a read."""


class Replica:
    """Reads on a replica. `location` is its address in messages."""

    def __init__(self, readers: Readers, location: str) -> None:
        self._readers = readers
        self._location = location
        self._lost_until = 0.0

    def query(self, read: Job[T]) -> T:
        """Call a function with a session of the replica. Raises ReplicaUnavailable if the primary should do that."""
        if time.monotonic() < self._lost_until:
            raise ReplicaUnavailable
        try:
            with self._readers.session() as session:
                return read(session)
        except ConnectionLost as error:
            self._lost_until = time.monotonic() + PAUSE
            logger.warning("The replica %s was lost: %s. The primary is used instead.", self._location, error)
            raise ReplicaUnavailable from error
        except (PostgresError, StatewrightError) as error:  # such as a checkpoint that it does not have yet
            raise ReplicaUnavailable from error

    def close(self) -> None:
        """End the sessions."""
        self._readers.close()
