"""Random workflows of states behave like a plain interpreter of the language, with any driver and any interruption.

The interpreter below is written from the specification and shares nothing with the implementation: it keeps tokens,
lets a token wait while another can still reach its state, and gives each branch a log of its entries. Logs are merged
in the order of the branches, each entry once.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.work import FULL

from statewright import InMemorySaver
from statewright.models import ScriptedModel
from statewright.workflow.states import load_workflow

END = "end"
KEYS = ("a", "b", "c")
TASK = " ".join(f"{{{{{key}}}}}" for key in KEYS)

# -- workflows


@dataclass(frozen=True)
class Spec:
    """A state, and the form of its model's answers."""

    id: str
    kind: str
    """`one`, `all`, `choice` or `each`: state_id, state_ids, a condition, iter_key."""
    targets: tuple[str, ...]
    writes: tuple[str, ...] = ()
    count: int = 0
    """The number of items of its result."""
    maps: bool = False
    bare: bool = False
    """True if the items are the whole result."""
    finishes: bool = False
    flags: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Its targets without the end and without duplicates."""
        return tuple(dict.fromkeys(target for target in self.targets if target != END))

    def document(self) -> dict[str, Any]:
        first, *_ = self.targets
        transitions: dict[str, dict[str, Any]] = {
            "one": {"state_id": first},
            "all": {"state_ids": list(self.targets)},
            "choice": {"condition": {"expression": "go", "then": first, "otherwise": self.targets[-1]}},
            "each": {"state_id": first, "iter_key": "xs"},
        }
        transition = transitions[self.kind] | {
            flag: True for flag in self.flags if flag in ("append_to_context", "override_task")
        }
        if "output_key" in self.flags:
            transition["output_key"] = "raw"
        if "silent" in self.flags:
            transition["include_in_llm_history"] = False
        state = {"id": self.id, "assistant_id": "m", "task": TASK, "next": transition}
        return state | ({"finish_iteration": True} if self.finishes else {})


def answer(spec: Spec, item: Any, authors: Sequence[str]) -> str:
    """The answer of the model of a state; it depends on the messages of its branch."""
    chance = crc32(f"{spec.id}|{json.dumps(item)}|{','.join(authors)}".encode())
    if spec.bare:
        return json.dumps(list(range(spec.count)))
    result: dict[str, Any] = dict.fromkeys(spec.writes, f"{spec.id}-{chance % 97}")
    if spec.kind == "choice":
        result["go"] = bool(chance & 8) and authors.count(spec.id) < 2 and len(authors) < 12
    if spec.kind == "each":
        result["xs"] = [{"a": f"{spec.id}{n}", "n": n} if spec.maps else n for n in range(spec.count)]
    return json.dumps(result)


@st.composite
def workflows(draw: st.DrawFn) -> list[Spec]:
    ids = [f"s{number}" for number in range(draw(st.integers(4, 8)))]
    return [draw(specs(ids, position)) for position in range(len(ids))]


@st.composite
def specs(draw: st.DrawFn, ids: list[str], position: int) -> Spec:
    ahead = [*ids[position + 1 : position + 4], *([END] if position > 1 or position == len(ids) - 1 else [])]
    kind = draw(st.sampled_from(("each", "all", "choice", "each", "one")))
    targets: tuple[str, ...] = (draw(st.sampled_from(ahead)),)
    if kind == "all":
        targets = tuple(draw(st.lists(st.sampled_from(ahead), min_size=1, max_size=3, unique=True)))
    if kind == "choice":  # the first target may lead back: a model chooses it at most twice
        targets = (draw(st.sampled_from([*ids, END])), *targets)
    flags = ["append_to_context", "output_key"]
    # A choice cannot be silent, because the model counts loops by messages.
    flags += {"choice": [], "each": ["silent", "override_task"]}.get(kind, ["silent"])
    finishes = kind == "each" and draw(st.booleans())
    bare = kind == "each" and draw(st.booleans())
    return Spec(
        ids[position],
        kind,
        targets,
        tuple(draw(st.lists(st.sampled_from(KEYS), max_size=2, unique=True))),
        draw(st.sampled_from((2, 1, 3, 0))),
        draw(st.booleans()),
        bare,
        finishes,
        tuple(draw(st.lists(st.sampled_from(flags), max_size=1))),
    )


# -- the interpreter


@dataclass(frozen=True)
class Inner:
    """The iteration that a token is in."""

    id: int
    base: tuple[int, ...]
    item: Any
    is_first: bool


@dataclass(frozen=True)
class Token:
    state: str
    log: tuple[int, ...] = ()
    path: tuple[int, ...] = ()
    inner: Inner | None = None
    ended: int | None = None
    """The iteration that the token has left."""


@dataclass(frozen=True)
class Entry:
    """One visit of a state."""

    spec: Spec
    item: Any
    prompt: str
    output: str
    log: tuple[int, ...]
    path: tuple[int, ...]
    fills: bool


@dataclass
class Interpreter:
    specs: dict[str, Spec]
    entries: list[Entry] = field(default_factory=list)
    layers: list[list[int]] = field(default_factory=list)
    ends: dict[int, list[int]] = field(default_factory=dict)

    def run(self) -> None:
        live = [Token(next(iter(self.specs)))]
        while live:
            assert len(self.entries) < 5000, "the model of a loop must end it"
            due = list(self._due(live))
            starting = {id(token) for group in due for token in group}
            live = [token for token in live if id(token) not in starting]
            begun = len(self.entries)
            for group in due:
                live.extend(self._perform(group))
            self.layers.append(list(range(begun, len(self.entries))))

    # tokens that start

    def _due(self, live: list[Token]) -> Iterator[list[Token]]:
        inside = [token for token in live if token.inner is not None]
        waiting = {token.state for token in live if token.inner is None}
        for state in self.specs:
            if state in waiting and not self._must_wait(state, waiting, {token.state for token in inside}):
                yield [token for token in live if token.inner is None and token.state == state]
        for token in inside:
            yield [token]

    def _must_wait(self, state: str, waiting: set[str], inside: set[str]) -> bool:
        order = list(self.specs)
        if any(state in self._reach(other) for other in inside):
            return True
        for other in waiting - {state}:
            in_loop = other in self._reach(state)
            if state in self._reach(other) and not (in_loop and order.index(state) < order.index(other)):
                return True
        return False

    def _reach(self, state: str) -> set[str]:
        reached: set[str] = set()
        ahead = list(self.specs[state].names)
        while ahead:
            target = ahead.pop()
            if target not in reached:
                reached.add(target)
                ahead.extend(self.specs[target].names)
        return reached

    # visits

    def _perform(self, tokens: list[Token]) -> Iterator[Token]:
        token = self._merged(tokens)
        spec, inner = self.specs[token.state], token.inner
        item = inner.item if inner is not None else None
        fills = inner is not None and inner.is_first and isinstance(item, dict)
        context = self.context(token.log) | (item if fills else {})
        prompt = " ".join(_shown(context[key]) if key in context else f"{{{{{key}}}}}" for key in KEYS)
        output = answer(spec, item, [name for name, _ in self.history(token.log)])
        number = len(self.entries)
        log = (*token.log, number)
        self.entries.append(Entry(spec, item, prompt, output, log, token.path, fills))
        yield from self._next_tokens(spec, replace(token, log=log), number, json.loads(output))

    def _merged(self, tokens: list[Token]) -> Token:
        logs: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = []
        for token in tokens:
            if token.ended is None:
                logs.append((token.path, 0, token.log))
                continue
            ends = sorted(self.ends[token.ended], key=lambda number: self.entries[number].path)
            logs.extend((token.path, position, self.entries[number].log) for position, number in enumerate(ends))
        log = tuple(dict.fromkeys(number for _, _, entries in sorted(logs) for number in entries))
        return replace(tokens[0], log=log, path=min(token.path for token in tokens), ended=None)

    def _next_tokens(self, spec: Spec, token: Token, number: int, result: Any) -> Iterator[Token]:
        inner = token.inner
        if spec.kind != "each":
            go = spec.kind == "choice" and result["go"]
            yield from self._left(spec, self._chosen(spec, go=go), token, number)
        elif inner is not None and not spec.finishes:
            item = self.entries[number].output if "override_task" in spec.flags else inner.item
            yield from self._stage(spec, [replace(token, inner=replace(inner, item=item, is_first=False))], number)
        else:
            items: list[Any] = result if isinstance(result, list) else result["xs"]
            base, identity = (token.path, number) if inner is None else (inner.base, inner.id)
            tokens = [
                replace(token, path=(*token.path, position), inner=Inner(identity, base, item, inner is None))
                for position, item in enumerate(items)
            ]
            yield from self._stage(spec, tokens, number) if items else self._skipped(spec, token, number)

    def _chosen(self, spec: Spec, *, go: bool) -> tuple[str, ...]:
        if spec.kind == "choice":
            return (spec.targets[0] if go else spec.targets[-1],)
        return spec.targets

    def _stage(self, spec: Spec, tokens: list[Token], number: int) -> Iterator[Token]:
        for token in tokens:
            if spec.targets[0] != END:
                yield replace(token, state=spec.targets[0])
            elif token.inner is not None:
                self.ends.setdefault(token.inner.id, []).append(number)

    def _skipped(self, spec: Spec, token: Token, number: int) -> Iterator[Token]:
        while spec.kind == "each" and spec.targets[0] != END:
            spec = self.specs[spec.targets[0]]
        yield from self._left(spec, self._chosen(spec, go=False), token, number)

    def _left(self, spec: Spec, targets: tuple[str, ...], token: Token, number: int) -> Iterator[Token]:
        inner, path = token.inner, token.path
        if inner is not None:
            path = inner.base
            self.ends.setdefault(inner.id, []).append(number)
        for target in targets:
            if target != END:
                forks = len(spec.names) > 1 and (spec.kind == "all" or inner is not None)
                here = (*path, spec.names.index(target)) if forks else path
                yield Token(target, token.log, here, None, inner.id if inner is not None else None)

    # logs

    def context(self, log: Sequence[int]) -> dict[str, Any]:
        context: dict[str, Any] = {}
        for entry in (self.entries[number] for number in log):
            if entry.fills:
                context |= entry.item
            result = json.loads(entry.output)
            added = dict(result) if isinstance(result, dict) else {}
            if "output_key" in entry.spec.flags:
                added["raw"] = entry.output
            for key, value in added.items():
                before = context.get(key)
                if "append_to_context" in entry.spec.flags:
                    value = [*before, value] if isinstance(before, list) else [before, value] if before else [value]
                context[key] = value
        return context

    def history(self, log: Sequence[int]) -> list[tuple[str, str]]:
        entries = (self.entries[number] for number in log)
        return [(entry.spec.id, entry.output) for entry in entries if "silent" not in entry.spec.flags]

    def whole(self) -> tuple[int, ...]:
        """The merged log of all branches."""
        inherited = {number for entry in self.entries for number in entry.log[:-1]}
        heads = [entry for number, entry in enumerate(self.entries) if number not in inherited]
        ordered = sorted(heads, key=lambda entry: entry.path)
        return tuple(dict.fromkeys(number for entry in ordered for number in entry.log))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# -- the comparison


def text_of(flow: list[Spec], pauses: frozenset[str] = frozenset()) -> str:
    states = [spec.document() | ({"interrupt_before": True} if spec.id in pauses else {}) for spec in flow]
    return json.dumps(
        {
            "enable_summarization_node": False,
            "messages_limit_before_summarization": 10_000,
            "recursion_limit": 500,
            "assistants": [{"id": "m", "system_prompt": "p"}],
            "states": states,
        },
        indent=1,
    )


def model_of(flow: list[Spec]) -> ScriptedModel:
    by_id = {spec.id: spec for spec in flow}

    def complete(request: Any) -> str:
        call = request.metadata["call"]
        return answer(by_id[request.metadata["state"]], call.item, [message.name for message in call.history])

    return ScriptedModel(complete)


def plain(result: Any) -> dict[str, Any]:
    """The compared parts of a result."""
    visits = [(visit["state"], visit["item"], visit["prompt"], visit["output"]) for visit in result["visits"]]
    messages = [(message.name, message.text) for message in result["messages"]]
    return {"visits": visits, "context": result["context"], "messages": messages}


def interpreted(flow: list[Spec]) -> tuple[dict[str, Any], list[int]]:
    """The result of the interpreter, and the lengths of its layers."""
    interpreter = Interpreter({spec.id: spec for spec in flow})
    interpreter.run()
    whole = interpreter.whole()
    visits = [(entry.spec.id, entry.item, entry.prompt, entry.output) for entry in interpreter.entries]
    result = {"visits": visits, "context": interpreter.context(whole), "messages": interpreter.history(whole)}
    return result, [len(layer) for layer in interpreter.layers]


def layered(visits: list[Any], lengths: list[int]) -> list[list[Any]]:
    """The visits by superstep, sorted within each, because their order there does not matter."""
    layers: list[list[Any]] = []
    for length in lengths:
        layers.append(sorted(visits[:length], key=str))
        visits = visits[length:]
    return [*layers, visits]


QUICK = settings(
    max_examples=150 if FULL else 50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@QUICK
@given(flow=workflows())
def test_a_workflow_has_the_result_of_the_interpreter(flow: list[Spec]) -> None:
    expected, lengths = interpreted(flow)
    workflow = load_workflow(text_of(flow))
    actual = plain(workflow.compile(models=model_of(flow)).invoke({}))

    assert layered(actual.pop("visits"), lengths) == layered(expected.pop("visits"), lengths)
    assert actual == expected

    on_a_loop = plain(asyncio.run(workflow.compile(models=model_of(flow)).ainvoke({})))
    assert {**actual, "visits": on_a_loop["visits"]} == on_a_loop


@settings(QUICK, max_examples=60)
@given(flow=workflows(), chosen=st.sets(st.integers(0, 6), min_size=1))
def test_pauses_do_not_change_the_result_or_repeat_states(flow: list[Spec], chosen: set[int]) -> None:
    straight = plain(load_workflow(text_of(flow)).compile(models=model_of(flow)).invoke({}))
    pauses = frozenset(spec.id for position, spec in enumerate(flow) if position in chosen)
    workflow, saver, model = load_workflow(text_of(flow, pauses)), InMemorySaver(), model_of(flow)
    thread: Any = {"configurable": {"thread_id": "t"}}

    result = workflow.compile(models=model, checkpointer=saver).invoke({}, thread)
    while workflow.compile(models=model, checkpointer=saver).get_state(thread).next:
        result = workflow.compile(models=model, checkpointer=saver).invoke(None, thread)

    assert plain(result) == straight
    assert len(model.requests) == len(straight["visits"])


@pytest.mark.parametrize(
    ("log", "merged"),
    [([(0, 1), (0, 2)], (0, 1, 2)), ([(0, 1, 3), (0, 2, 3, 4)], (0, 1, 3, 2, 4))],
)
def test_the_interpreter_merges_each_entry_once(log: list[tuple[int, ...]], merged: tuple[int, ...]) -> None:
    tokens = [Token("s", entries, (position,)) for position, entries in enumerate(log)]
    assert Interpreter({})._merged(tokens).log == merged
