"""A memory strategy that sends the last messages, and the earlier turns that are most similar to the current question.

Similarity is computed here from embedding vectors (`VectorSearch`), or by a store with an index (`StoreSearch`).
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from statewright.agents.memory.conversation import Conversation, Limits, check_positive, read_conversation, recent_start
from statewright.agents.memory.strategy import NO_CONTEXT, MemoryContext
from statewright.data.fingerprint import fingerprint
from statewright.data.mappings import without_none
from statewright.errors import InvalidConfig, ModelError
from statewright.lru_cache import LRUCache
from statewright.messages import Message
from statewright.store import Namespace, Store

Vector = Sequence[float]
Vectors = Sequence[Vector]
Embed = Callable[[Sequence[str]], Vectors | Awaitable[Vectors]]
"""Returns an embedding vector for each text, all of the same length. A plain function is called on a worker thread."""
_MAX_CACHED_VECTORS: Final = 10_000


class VectorSearch:
    """A search by the cosine similarity of vectors, which are cached in memory."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._vectors: LRUCache[str, Vector] = LRUCache(_MAX_CACHED_VECTORS)

    async def nearest(self, query: str, texts: Sequence[str], count: int) -> list[int]:
        """Return the indices of the `count` texts that are most similar to the query, best first.

        If texts are equally similar, later texts come first.
        """
        query_vector, *vectors = await self._vectors_of([query, *texts])
        scores = [(_dot_product(query_vector, vector), index) for index, vector in enumerate(vectors)]
        return [index for _, index in sorted(scores, reverse=True)[:count]]

    async def _vectors_of(self, texts: Sequence[str]) -> list[Vector]:
        cached = {text: self._vectors.get(text) for text in texts}
        new = [text for text, vector in cached.items() if vector is None]
        vectors = without_none(cached)
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
                f"The function `embed` returned {len(vectors)} vectors for {len(texts)} texts. Return one for each."
            )
        return [_normalized(vector) for vector in vectors]


def _normalized(vector: Vector) -> Vector:
    """Return the vector with length 1, so that a dot product is a cosine similarity; zero vectors are unchanged."""
    numbers = [float(number) for number in vector]
    length = math.hypot(*numbers)
    return [number / length for number in numbers] if length else numbers


def _dot_product(first: Vector, second: Vector) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True))


def _check_dimensions(vectors: Iterable[Vector]) -> None:
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        raise ModelError(
            f"The function `embed` returned vectors of lengths {lengths[0]} and {lengths[1]}. Return vectors of equal "
            f"length."
        )


# -- search in a store

_MAX_CACHED_KEYS: Final = 10_000


class StoreSearch:
    """A search in a store, into which each text is put once, under its fingerprint.

    Other items in the namespace, such as the texts of messages that have been removed, are ignored.
    """

    def __init__(self) -> None:
        self._store: Store | None = None
        self._stored: LRUCache[str, bool] = LRUCache(_MAX_CACHED_KEYS)
        """The namespaces and keys of items that are known to be in the store."""

    async def nearest(
        self, store: Store, namespace: Namespace, query: str, texts: Sequence[str], count: int
    ) -> list[int]:
        """Return the indices of the `count` texts that are most similar to the query, best first."""
        return await asyncio.to_thread(self._nearest, store, namespace, query, texts, count)

    def _nearest(self, store: Store, namespace: Namespace, query: str, texts: Sequence[str], count: int) -> list[int]:
        if store is not self._store:
            self._store, self._stored = store, LRUCache(_MAX_CACHED_KEYS)
        index_by_key = {fingerprint(text): index for index, text in enumerate(texts)}
        for key, index in index_by_key.items():
            self._put(store, namespace, key, texts[index])
        return _search(store, namespace, query, index_by_key, count)

    def _put(self, store: Store, namespace: Namespace, key: str, text: str) -> None:
        item = f"{namespace} {key}"
        if self._stored.get(item):
            return
        if store.get(namespace, key) is None:
            store.put(namespace, key, {"text": text})
        self._stored.put(item, True)


def _search(store: Store, namespace: Namespace, query: str, index_by_key: Mapping[str, int], count: int) -> list[int]:
    """Search the store, page by page, until `count` items with these keys are found; return their indices."""
    indices: list[int] = []
    offset, page_size = 0, max(2 * count, 10)
    while len(indices) < count:
        page = store.search(namespace, query=query, limit=page_size, offset=offset)
        indices.extend(index_by_key[item.key] for item in page if item.key in index_by_key)
        offset += page_size
        if len(page) < page_size:
            break
    return indices[:count]


# -- the strategy


class Retrieval:
    """Sends about the last `keep` messages, and the `top_k` earlier turns that are most similar to the question.

    The question is `context.query`, or else the last user message. Turns are selected as a whole, because an answer
    means little without its question, and are sent in their original order.

    `embed` computes vectors, which are cached in memory. Alternatively, the texts are put into `store`, which must have
    an index, under `namespace` and the thread's id, and the store searches them. Without `embed` and `store`, the store
    of the run is used in this way.
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
        check_positive("Retrieval", top_k=top_k, keep=keep)
        if embed is not None and store is not None:
            raise InvalidConfig("Retrieval has both embed and store. Pass only one of them: a store has its own index.")
        self._by_vectors = None if embed is None else VectorSearch(embed)
        self._by_store = StoreSearch()
        self._store = store
        self._namespace = namespace
        self._top_k = top_k
        self._keep = Limits(messages=keep)

    async def select(self, messages: Sequence[Message], *, context: MemoryContext = NO_CONTEXT) -> list[Message]:
        conversation = read_conversation(messages)
        start = recent_start(conversation, self._keep)
        groups = [group for group in _searchable_groups(conversation, start) if _group_text(conversation, group)]
        query = context.query or next((message.text for message in reversed(messages) if message.role == "user"), "")
        nearest = await self._nearest(query, conversation, groups, context) if groups and query else []
        selected = [index for group in nearest for index in group]
        return [*conversation.head, *conversation.messages([*selected, *range(start, len(conversation.units))])]

    async def _nearest(
        self, query: str, conversation: Conversation, groups: Sequence[range], context: MemoryContext
    ) -> list[range]:
        """Return the `top_k` groups of units whose texts are most similar to the query."""
        texts = [_group_text(conversation, group) for group in groups]
        if self._by_vectors is not None:
            indices = await self._by_vectors.nearest(query, texts, self._top_k)
        else:
            store, namespace = self._resolve_store(context), self._own_namespace(context)
            indices = await self._by_store.nearest(store, namespace, query, texts, self._top_k)
        return [groups[index] for index in indices]

    def _resolve_store(self, context: MemoryContext) -> Store:
        store = self._store or context.store
        if store is None:
            raise InvalidConfig(
                "Retrieval has neither embed nor store, and the run has no store. "
                "Pass Retrieval(embed=...), or a store with an index."
            )
        return store

    def _own_namespace(self, context: MemoryContext) -> Namespace:
        """Return the namespace of the thread. Dots in its id are replaced, because labels cannot contain dots."""
        return (*self._namespace, context.thread_id.replace(".", "_")) if context.thread_id else self._namespace


def _searchable_groups(conversation: Conversation, start: int) -> list[range]:
    """Return the groups of units before the index `start` that can be selected, as ranges of unit indices.

    A group is a whole turn. In a turn that is sent in part, or that has the last user message, each unit is a group.
    """
    groups: list[range] = []
    last_user_unit = conversation.last_user_unit
    for turn in conversation.turns():
        if turn.stop <= start and (last_user_unit is None or last_user_unit not in turn):
            groups.append(turn)
        else:
            groups += [range(index, index + 1) for index in turn if index < start and index != last_user_unit]
    return groups


def _group_text(conversation: Conversation, group: range) -> str:
    return "\n".join(message.text for index in group for message in conversation.units[index] if message.text)
