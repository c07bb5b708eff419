"""What of the conversation is nearest to the question at hand, and its last messages."""

from __future__ import annotations

from collections.abc import Sequence

from statewright.agents.memory.by_store import ByStore
from statewright.agents.memory.by_vectors import ByVectors, Embed
from statewright.agents.memory.conversation import Conversation, read_conversation
from statewright.agents.memory.limits import Limits, check_at_least, recent_start
from statewright.agents.memory.strategy import NO_CONTEXT, MemoryContext
from statewright.errors import InvalidConfig
from statewright.messages import Message
from statewright.store import Namespace, Store


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
        self._by_vectors = None if embed is None else ByVectors(embed)
        self._by_store = ByStore()
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
