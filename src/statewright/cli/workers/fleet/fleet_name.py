"""The name of a fleet on a cluster, which one supervisor has.

It is the name of a small actor without resources, which Ray ends with the supervisor. So a second supervisor with the
same name is refused, and one that replaces a killed supervisor is not. The process of the actor imports this module, so
it imports little itself.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Final

from statewright.cli.console.failure import UsageError

NAME_SECONDS: Final = 15.0
"""Seconds to wait for the name of a fleet: Ray needs some to notice that the previous supervisor has ended."""
ACTOR_SECONDS: Final = 120.0
"""Seconds that Ray has to start the process of the actor."""


class FleetName:
    """An actor that does nothing. Its name is that of the fleet."""

    def exists(self) -> bool:
        """Return True. The call fails if another actor has got the name."""
        return True


def claim_name(ray: Any, name: str, seconds: float = NAME_SECONDS) -> Any:
    """Claim the name of a fleet on the cluster for this process, and return the actor that holds it.

    Raises UsageError if another supervisor has the name for longer than some seconds.
    """
    # The actor survives the loss of its node, but not the end of this process.
    actor_class = ray.remote(FleetName).options(name=f"fleet {name}", num_cpus=0, max_restarts=-1)
    until = time.monotonic() + seconds
    while True:
        # Ray looks for the name before it creates an actor, and may still find another one while it does.
        with suppress(ValueError, ray.exceptions.RayActorError):
            actor = actor_class.remote()
            _wait_for(ray, actor)
            return actor
        if time.monotonic() >= until:
            raise UsageError(
                f"The fleet {name!r} has a supervisor on this cluster already. Stop it, or give this fleet another "
                f"name with --fleet NAME."
            )
        time.sleep(0.5)


def _wait_for(ray: Any, actor: Any) -> None:
    try:
        ray.get(actor.exists.remote(), timeout=ACTOR_SECONDS)
    except ray.exceptions.GetTimeoutError:
        raise UsageError(
            f"The Ray cluster has not started an actor without resources within {ACTOR_SECONDS:g} seconds. Check its "
            f"nodes with: ray status"
        ) from None
