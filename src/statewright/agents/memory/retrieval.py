"""Send the earlier turns nearest in meaning to the current question, and the last messages.

Similarity is computed from vectors in memory (`ByVectors`), or by the search of a store (`ByStore`).
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from statewright.agents.memory.conversation import Conversation, read_conversation
from statewright.agents.memory.limits import Limits, check_at_least, recent_start
from statewright.agents.memory.lru_cache import LRUCache
from statewright.agents.memory.strategy import NO_CONTEXT, MemoryContext
from statewright.errors import InvalidConfig, ModelError
from statewright.fingerprint import fingerprint
from statewright.messages import Message
from statewright.store import Namespace, Store

Vector = Sequence[float]
Vectors = Sequence[Vector]
Embed = Callable[[Sequence[str]], Vectors | Awaitable[Vectors]]
"""Texts to vectors, all of one length; a plain function, which is called on a thread, or a coroutine function."""
_KEPT: Final = 10_000
"""How many vectors are kept in memory."""


class VectorSearch:
    """Embeds each text once, and compares the vectors by the cosine of their angle."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._vectors: LRUCache[Vector] = LRUCache(_KEPT)

    async def nearest(self, query: str, texts: Sequence[str], count: int) -> list[int]:
        """The numbers of the texts that are nearest to the query, the nearest first; of equals the later ones."""
        wanted, *vectors = await self._vectors_of([query, *texts])
        scores = [(_dot_product(wanted, vector), n) for n, vector in enumerate(vectors)]
        return [n for _, n in sorted(scores, reverse=True)[:count]]

    async def _vectors_of(self, texts: Sequence[str]) -> list[Vector]:
        found = {text: self._vectors.get(text) for text in texts}
        new = [text for text, vector in found.items() if vector is None]
        vectors = {text: vector for text, vector in found.items() if vector is not None}
        for text, vector in zip(new, await self._embed_texts(new), strict=True):
            vectors[text] = vector
            self._vectors.put(text, vector)
        _check_dimensions(vectors.values())
        return [vectors[text] for text in texts]

    async def _embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        if not texts:
            return []
        if inspect.iscoroutinefunction(self._embed):
            answer = self._embed(texts)
        else:
            answer = await asyncio.to_thread(self._embed, texts)
        vectors = await answer if inspect.isawaitable(answer) else answer
        if len(vectors) != len(texts):
            raise ModelError(
                f"The embedding gave {len(vectors)} vectors for {len(texts)} texts. It has to give one for each."
            )
        return [_normalized(vector) for vector in vectors]


def _normalized(vector: Vector) -> Vector:
    numbers = [float(one) for one in vector]
    length = math.hypot(*numbers)
    return [one / length for one in numbers] if length else numbers


def _dot_product(first: Vector, second: Vector) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True))


def _check_dimensions(vectors: Iterable[Vector]) -> None:
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        raise ModelError(f"The embedding gave vectors of {lengths[0]} and of {lengths[1]} numbers. Give one length.")


# -- search in a store

_KNOWN: Final = 10_000
"""Of how many items it is remembered that they are in the store."""


class StoreSearch:
    """Puts each text into a store once, and asks the store.

    The items of a namespace may be more than the texts that are asked for, say those of messages that were removed;
    such are passed over.
    """

    def __init__(self) -> None:
        self._store: Store | None = None
        self._is_stored: LRUCache[bool] = LRUCache(_KNOWN)
        """What the store is known to hold, by namespace and key."""

    async def nearest(
        self, store: Store, namespace: Namespace, query: str, texts: Sequence[str], count: int
    ) -> list[int]:
        """The numbers of the texts that are nearest to the query, the nearest first."""
        return await asyncio.to_thread(self._nearest, store, namespace, query, texts, count)

    def _nearest(self, store: Store, namespace: Namespace, query: str, texts: Sequence[str], count: int) -> list[int]:
        if store is not self._store:
            self._store, self._is_stored = store, LRUCache(_KNOWN)
        by_key = {fingerprint(text): n for n, text in enumerate(texts)}
        for key, n in by_key.items():
            self._put(store, namespace, key, texts[n])
        return _search(store, namespace, query, by_key, count)

    def _put(self, store: Store, namespace: Namespace, key: str, text: str) -> None:
        place = f"{namespace} {key}"
        if self._is_stored.get(place):
            return
        if store.get(namespace, key) is None:
            store.put(namespace, key, {"text": text})
        self._is_stored.put(place, True)


def _search(store: Store, namespace: Namespace, query: str, by_key: Mapping[str, int], count: int) -> list[int]:
    """What the store finds of these keys, page by page."""
    found: list[int] = []
    offset, size = 0, max(2 * count, 10)
    while len(found) < count:
        page = store.search(namespace, query=query, limit=size, offset=offset)
        found.extend(by_key[item.key] for item in page if item.key in by_key)
        offset += size
        if len(page) < size:
            break
    return found[:count]


# -- the strategy


class Retrieval:
    """Sends the last messages, about `keep`, and the `top_k` earlier turns that are nearest in meaning to the question.

    The question is `context.query`, or else the last message of the user. Turns are found whole, since an answer means
    little without its question, and are sent in the order in which they were said.

    Vectors come from `embed` and are kept in memory; or the texts are put into a `store` that has an index, under
    `namespace` and the thread's id, and the store searches and keeps them. With neither, the store of the run is used.
    """

    def __init__(
        self,
        embed: Embed | None = None,
        *,
        top_k: int = 4,
        keep: int = 6,
        store: Store | None = None,
        namespace: Namespace = ("memory",),
    ) -> None:
        check_at_least(1, "Retrieval", top_k=top_k, keep=keep)
        if embed is not None and store is not None:
            raise InvalidConfig("Retrieval has embed and store. Give one of them: a store embeds by itself.")
        self._by_vectors = None if embed is None else VectorSearch(embed)
        self._by_store = StoreSearch()
        self._store = store
        self._namespace = namespace
        self._top_k = top_k
        self._keep = Limits(messages=keep)

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        conversation = read_conversation(messages)
        start = recent_start(conversation, self._keep)
        groups = [group for group in _groups(conversation, start) if _text(conversation, group)]
        query = context.query or _question(conversation)
        found = await self._nearest(query, conversation, groups, context) if groups and query else []
        chosen = [n for group in found for n in group]
        return [*conversation.head, *conversation.messages([*chosen, *range(start, len(conversation.units))])]

    async def _nearest(
        self, query: str, conversation: Conversation, groups: Sequence[range], context: MemoryContext
    ) -> list[range]:
        texts = [_text(conversation, group) for group in groups]
        if self._by_vectors is not None:
            found = await self._by_vectors.nearest(query, texts, self._top_k)
        else:
            store, namespace = self._given_store(context), self._own_namespace(context)
            found = await self._by_store.nearest(store, namespace, query, texts, self._top_k)
        return [groups[n] for n in found]

    def _given_store(self, context: MemoryContext) -> Store:
        store = self._store or context.store
        if store is None:
            raise InvalidConfig(
                "Retrieval has neither embed nor store, and the run has no store. "
                "Give Retrieval(embed=...), or a store with an index."
            )
        return store

    def _own_namespace(self, context: MemoryContext) -> Namespace:
        """The namespace of the thread. Labels hold no dots; threads whose ids differ in that only share one."""
        return (*self._namespace, context.thread_id.replace(".", "_")) if context.thread_id else self._namespace


def _groups(conversation: Conversation, start: int) -> list[range]:
    """The earlier units that are found together: those of a turn; of the present turn each alone."""
    groups: list[range] = []
    anchor = conversation.anchor
    for turn in conversation.turns():
        if turn.stop <= start and (anchor is None or anchor not in turn):
            groups.append(turn)
        else:
            groups += [range(n, n + 1) for n in turn if n < start and n != anchor]
    return groups


def _text(conversation: Conversation, group: range) -> str:
    return "\n".join(message.text for n in group for message in conversation.units[n] if message.text)


def _question(conversation: Conversation) -> str:
    """The text of the last message of the user."""
    anchor = conversation.anchor
    unit = () if anchor is None else conversation.units[anchor]
    return next((message.text for message in reversed(unit) if message.role == "user"), "")
