"""The part that all executors share: the calls of one function are packed into chunks, and their results delivered.

A dispatcher keeps a window of chunks in flight, about two for each worker: one is being executed, and one waits, so
that the worker is never idle. Further calls are taken from their source when there is room, so that a fan-out of a
million calls never exists as a whole.

*Losses.* If a worker dies, nothing shows which call of the chunk has killed it, or whether the machine failed. The
chunk is sent again as two halves. A call that kills its worker is alone after a few halvings, and then fails with
WorkerDied when its resubmissions are used up; every other call succeeds. A call may therefore be executed more than
once, as after any crash.

*Cancellation.* Calls that were not sent are dropped. A chunk in flight is cancelled once none of its calls is needed;
its worker is killed. Calls of that chunk which are still needed are sent again.

*Threads.* Nothing here takes a lock: all methods are called on one thread, the home of the dispatcher. Executors
report the end of chunks on threads of their own, so `post` has to pass the report to the home thread.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from statewright.errors import WorkerDied
from statewright.executors.chunks import ChunkSizes
from statewright.executors.exceptions import unpack_error
from statewright.executors.port import ChunkRequest, Executor, SharedValue, pickling_error, restoring_error
from statewright.executors.worker import ChunkReplies, Reply, SeparateItems


class RemoteItem:
    """One call of the function of a dispatcher."""

    __slots__ = ("argument", "chunk", "is_lone", "is_separate", "key", "losses", "on_begin")

    def __init__(
        self, key: Any, argument: Any, *, is_lone: bool = False, on_begin: Callable[[], object] | None = None
    ) -> None:
        self.key = key
        """Identifies the call for its sender."""
        self.argument = argument
        self.is_lone = is_lone
        """True if the call must not share a chunk, because its duration is limited."""
        self.on_begin = on_begin
        """Called on the home thread once a worker has begun the call, if it is alone in its chunk."""
        self.is_separate = False
        """True if it is pickled without the other calls of its chunk, because these could not be restored together."""
        self.losses = 0
        """The number of workers that have died with this call alone."""
        self.chunk: Chunk | None = None
        """The chunk in which it was sent, while that is in flight."""


class Chunk:
    """Calls that were sent together."""

    __slots__ = ("items", "request")

    def __init__(self, items: list[RemoteItem]) -> None:
        self.items = items
        self.request: ChunkRequest | None = None


ItemResult = tuple[Any, BaseException | None, Sequence[Any]]
"""The value that a call has returned, the error that it has raised, and its effects."""


class Dispatcher:
    """Sends the calls of one function to an executor, and delivers their results."""

    def __init__(
        self,
        executor: Executor,
        function: SharedValue,
        *,
        name: str,
        resources: Mapping[str, float],
        take: Callable[[int], list[RemoteItem]],
        unsent: Callable[[], int],
        deliver: Callable[[RemoteItem, ItemResult], object],
        post: Callable[[Callable[[], object]], object],
        shared: Callable[[], Iterable[SharedValue]] = tuple,
        drop: Callable[[RemoteItem], object] = lambda item: None,
        sizes: ChunkSizes | None = None,
    ) -> None:
        """`take` returns at most the given number of calls; `unsent` returns how many are left; `deliver` gets results.

        `post` schedules a function on the home thread. `name` is the name of the function in errors. `shared` returns
        the values that calls may refer to. `drop` gets the calls that are not sent again because sending has stopped.
        """
        self._executor = executor
        self._function = function
        self._name = name
        self._resources = resources
        self._take = take
        self._unsent = unsent
        self._deliver = deliver
        self._post = post
        self._shared = shared
        self._drop = drop
        self._sizes = sizes or ChunkSizes()
        self._repeated: deque[list[RemoteItem]] = deque()
        """Groups of calls that have to be sent again."""
        self._in_flight: set[Chunk] = set()
        self._is_stopped = False

    @property
    def has_in_flight(self) -> bool:
        return bool(self._in_flight or self._repeated)

    def feed(self) -> None:
        """Send calls while there is room."""
        try:
            workers = self._executor.capacity(self._resources)
        except Exception as error:  # the connection to the workers is lost
            self._fail_unsent(error)
            return
        while not self._is_stopped and len(self._in_flight) < workers * 2:
            items = self._next_items(workers)
            if not items:
                return
            if items[0].is_lone and len(self._in_flight) >= workers:
                self._repeated.appendleft(items)  # sent now, it would only wait behind another call
                return
            self._send(items)

    def _next_items(self, workers: int) -> list[RemoteItem]:
        if self._repeated:
            return self._repeated.popleft()
        items = self._take(self._sizes.next_size(workers, self._unsent()))
        if len(items) > 1 and any(item.is_lone for item in items):
            groups = [[item] for item in items if item.is_lone]
            groups += [group] if (group := [item for item in items if not item.is_lone]) else []
            self._repeated.extend(groups)
            return self._repeated.popleft()
        return items

    def _send(self, items: list[RemoteItem]) -> None:
        payload = self._pickle(items)
        if payload is None:
            return
        chunk = Chunk(items)
        self._sizes.record_size(len(items), len(payload))
        begin = items[0].on_begin if len(items) == 1 else None
        chunk.request = ChunkRequest(
            function=self._function,
            payload=payload,
            resources=self._resources,
            shared=(self._function, *self._shared()),
            on_begin=(lambda: None) if begin is None else lambda: self._post(begin),
            on_end=lambda outcome: self._post(lambda: self._finish(chunk, outcome)),
        )
        for item in items:
            item.chunk = chunk
        self._in_flight.add(chunk)
        try:
            self._executor.submit(chunk.request)
        except Exception as error:
            self._in_flight.discard(chunk)
            for item in items:
                item.chunk = None
                self._deliver(item, (None, error, ()))

    def _fail_unsent(self, error: Exception) -> None:
        """Deliver an error for each call that was not sent: without a result, its caller would wait forever."""
        while items := self._repeated.popleft() if self._repeated else self._take(1):
            for item in items:
                self._deliver(item, (None, error, ()))

    def _pickle(self, items: list[RemoteItem]) -> bytes | None:
        """Return the calls as bytes. Those that cannot be pickled are removed and fail; return None if none is left."""
        dumps = self._executor.dumps
        is_separate = any(item.is_separate for item in items)
        with suppress(Exception):
            if not is_separate:
                return dumps([item.argument for item in items])
        pickled: list[bytes] = []
        for item in tuple(items):
            try:
                pickled.append(dumps(item.argument))
            except Exception as error:
                items.remove(item)
                self._deliver(item, (None, pickling_error(f"The input of {self._name}", error), ()))
        if not items:
            return None
        return pickle.dumps(SeparateItems(pickled)) if is_separate else dumps([item.argument for item in items])

    def _finish(self, chunk: Chunk, outcome: bytes | BaseException) -> None:
        """Deliver the results of a chunk, or send its calls again if it was lost."""
        if chunk not in self._in_flight:
            return
        self._in_flight.discard(chunk)
        chunk.request = None  # a cycle, which would keep the calls until the garbage collector finds it
        for item in chunk.items:
            item.chunk = None
        if isinstance(outcome, WorkerDied):
            self._repeat(chunk.items, outcome)
        elif isinstance(outcome, BaseException):
            for item in chunk.items:
                self._deliver(item, (None, outcome, ()))
        else:
            self._deliver_replies(chunk, outcome)
        self.feed()

    def _deliver_replies(self, chunk: Chunk, data: bytes) -> None:
        try:
            seconds, replies = cast(ChunkReplies, pickle.loads(data))
            if replies is not None and len(replies) != len(chunk.items):
                raise ValueError(f"{len(replies)} replies to {len(chunk.items)} calls")
        except Exception as error:  # the worker has another version of Statewright
            failure = restoring_error(f"The results of {self._name}", "here", error)
            for item in chunk.items:
                self._deliver(item, (None, failure, ()))
            return
        if replies is None:
            self._separate(chunk.items)
            return
        self._sizes.record_cost(len(chunk.items), seconds)
        for item, reply in zip(chunk.items, replies, strict=True):
            try:
                result = (pickle.loads(reply), None, ()) if isinstance(reply, bytes) else self._result_of(reply)
            except Exception as error:  # e.g. of a class that can be imported in the worker only
                result = None, restoring_error(f"The result of {self._name}", "here", error), ()
            self._deliver(item, result)

    def _result_of(self, reply: Reply) -> ItemResult:
        effects: list[Any] = []
        failure: BaseException | None = None
        for data in reply.effects:
            try:
                effects.append(pickle.loads(data))
            except Exception as error:
                failure = restoring_error(f"An effect of {self._name}", "here", error)
        if reply.error is not None:
            failure = unpack_error(reply.error)
        if failure is not None:
            return None, failure, effects
        try:
            return pickle.loads(cast(bytes, reply.value)), None, effects
        except Exception as error:
            return None, restoring_error(f"The result of {self._name}", "here", error), effects

    def _separate(self, items: list[RemoteItem]) -> None:
        """Resend calls that a worker could not restore together, so that only the faulty ones fail."""
        if self._is_stopped:
            for item in items:
                self._drop(item)
            return
        for item in items:
            item.is_separate = True
        self._repeated.append(items)

    def _repeat(self, items: list[RemoteItem], loss: WorkerDied) -> None:
        """Send the calls of a lost chunk again, in halves; a single call only a limited number of times."""
        if self._is_stopped:
            for item in items:
                self._drop(item)
            return
        if len(items) > 1:
            middle = len(items) // 2
            self._repeated.append(items[:middle])
            self._repeated.append(items[middle:])
            return
        for item in items:
            item.losses += 1
            if item.losses > self._executor.max_resubmissions:
                self._deliver(item, (None, WorkerDied(loss.cause, item.losses), ()))
            else:
                self._repeated.append([item])

    def cancel(self, items: Collection[RemoteItem]) -> None:
        """Stop some calls. Their results are not delivered any more."""
        for group in tuple(self._repeated):
            group[:] = [item for item in group if item not in items]
            if not group:
                self._repeated.remove(group)
        for chunk in dict.fromkeys(item.chunk for item in items):
            if chunk is None or chunk not in self._in_flight:
                continue
            # A running function can be stopped only by killing its worker. The other calls of the chunk are sent again
            # at once, since the cancelled one might never end.
            self._in_flight.discard(chunk)
            for item in chunk.items:
                item.chunk = None
            if chunk.request is not None:
                self._executor.cancel(chunk.request)
            others = [item for item in chunk.items if item not in items]
            if others:
                self._repeated.appendleft(others)
        self.feed()

    def stop_sending(self) -> None:
        """Send no further calls; those in flight continue."""
        self._is_stopped = True
        while self._repeated:
            for item in self._repeated.popleft():
                self._drop(item)

    def cancel_all(self) -> None:
        """Stop all calls. No further result is delivered."""
        self._is_stopped = True
        self._repeated.clear()
        chunks, self._in_flight = self._in_flight, set()
        for chunk in chunks:
            if chunk.request is not None:
                self._executor.cancel(chunk.request)
