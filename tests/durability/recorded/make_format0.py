"""Makes `format0.db`, the recorded file of format 0. Nothing but SQLite and MessagePack is used here:

    python tests/durability/recorded/make_format0.py

The format is described in `src/statewright/storage/sqlite/from_format_0.py`. The threads are such as the graphs in
`make_format1.py` would have left, had there been a prototype that ran them.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import ormsgpack

FILE = Path(__file__).with_name("format0.db")
MARK = 0x53_57_72_74
TABLES = (
    "CREATE TABLE checkpoints (thread TEXT NOT NULL, namespace TEXT NOT NULL, branch TEXT NOT NULL, id TEXT NOT NULL, "
    "parent TEXT, step INTEGER NOT NULL, source TEXT NOT NULL, run TEXT NOT NULL, created_at TEXT NOT NULL, "
    "body BLOB NOT NULL, PRIMARY KEY (thread, namespace, id))",
    "CREATE TABLE writes (thread TEXT NOT NULL, namespace TEXT NOT NULL, checkpoint TEXT NOT NULL, task TEXT NOT NULL, "
    "kind TEXT NOT NULL, body BLOB NOT NULL)",
    "CREATE INDEX writes_by_checkpoint ON writes (thread, namespace, checkpoint)",
)
AT = "2025-06-01T12:00:{:02}.500000+00:00"
OBJECT, MESSAGE = 1, 40
"""Tags of extensions."""
ASSISTANT = 2


def packed(value: Any) -> bytes:
    return ormsgpack.packb(value, None, ormsgpack.OPT_NON_STR_KEYS)


def made(path: Path) -> sqlite3.Connection:
    """A new file of format 0."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA page_size=1024")
    connection.execute(f"PRAGMA application_id={MARK}")
    for table in TABLES:
        connection.execute(table)
    return connection


def add_checkpoint(connection: sqlite3.Connection, body: Mapping[str, Any], *columns: Any) -> None:
    """Add a row; columns are thread, namespace, branch, id, parent, step, source, run and created_at."""
    connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*columns, packed(body)))


def add_write(connection: sqlite3.Connection, body: Any, *columns: str) -> None:
    """Add a row; columns are thread, namespace, checkpoint, task and kind."""
    connection.execute("INSERT INTO writes VALUES (?, ?, ?, ?, ?, ?)", (*columns, packed(body)))


def ident(number: int) -> str:
    return f"{number:032x}"


def digest(*parts: object) -> str:
    return blake2b("\x1f".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def task(node: str, origin: str, position: int = 0, **more: Any) -> dict[str, Any]:
    return {"node": node, "from": origin, "at": position, **more}


def body(state: Mapping[str, Any], tasks: Sequence[Any] = (), *nodes: str, **more: Any) -> dict[str, Any]:
    info = {"nodes": list(nodes), **more.pop("info", {})}
    return {"state": state, "next": tasks, "waiting": [], "arrived": {}, "info": info, **more}


def message(text: str, name: str) -> ormsgpack.Ext:
    return ormsgpack.Ext(MESSAGE, packed([text, ASSISTANT, name]))


def mood(name: str) -> ormsgpack.Ext:
    return ormsgpack.Ext(OBJECT, packed(["recorded.Mood", name]))


# -- the threads


def chat_state(count: int, goal: int) -> dict[str, Any]:
    """The state of the loop after so many turns; of its messages the one of turn 5 is replaced in turn 15."""
    messages = [message(f"better {n}" if n == 5 and count > 15 else f"text {n}", f"m{n}") for n in range(0, count, 5)]
    words = ["in", *(f"w{n}" for n in range(count))]
    last = {"last": f"turn {count - 1}"} if count else {}
    return {"count": count, "goal": goal, "mood": mood("GLAD"), "messages": messages, "words": words, **last}


def add_long(connection: sqlite3.Connection) -> None:
    """A chain of 18 turns, and a fork of turn 3 that has turned once and goes on."""
    for step in range(19):
        tasks, nodes = ([task("turn", ident(1 + step))] if step < 18 else []), (["turn"] if step else ["__start__"])
        parent = ident(step) if step else None
        columns = ("long", "", "main", ident(1 + step), parent, step, "step" if step else "start", "first run")
        add_checkpoint(connection, body(chat_state(step, 18), tasks, *nodes), *columns, AT.format(step))
    forked = body(chat_state(3, 18), [task("turn", ident(4))], "turn", info={"why": {"who": "a prototype", 1: [None]}})
    add_checkpoint(connection, forked, "long", "", "other", "fork A", ident(4), 3, "fork", "fork", AT.format(30))
    changed = {**chat_state(3, 6), "mood": mood("CROSS")}
    del changed["last"]
    edited = body(changed, [task("turn", ident(4))], "__start__", graph="2")
    add_checkpoint(connection, edited, "long", "", "other", ident(40), "fork A", 4, "edit", "edit", AT.format(31))
    turned = {**chat_state(4, 6), "mood": mood("CROSS")}
    last = body(turned, [task("turn", ident(41))], "turn", graph="2")
    add_checkpoint(connection, last, "long", "", "other", ident(41), ident(40), 5, "step", "second run", AT.format(32))


def add_ask(connection: sqlite3.Connection) -> None:
    """Two open questions, an answer, a landed result, a step that was done, an attempt that failed."""
    begun = body({"log": ["in"], "total": 0}, [task("plan", ident(50))], "__start__")
    add_checkpoint(connection, begun, "ask", "", "main", ident(50), None, 0, "start", "asking", AT.format(40))
    due = [task(name, ident(51), place) for place, name in enumerate(("review", "beside", "pay"))]
    planned = body({"log": ["in", "plan"], "total": 0}, due, "plan")
    add_checkpoint(connection, planned, "ask", "", "main", ident(51), ident(50), 1, "step", "asking", AT.format(41))
    review, beside, pay = (digest("task", ident(51), place) for place in range(3))
    good, send = digest("interrupt", review, "ordinal", 0), digest("interrupt", review, "key", "send")
    amount = digest("interrupt", pay, "ordinal", 0)
    plain: dict[str, Any] = {"kind": "question", "event": None, "due": None}
    told: list[tuple[str, str, Any]] = [
        (beside, "result", {"writes": {"log": ["beside"], "total": 1}, "targets": [], "goto": False}),
        (review, "question", {"id": good, "value": "Is it good?", "schema": None, **plain}),
        (pay, "step", {"name": "charge", "nth": 0, "given": GIVEN_42, "value": "receipt 42"}),
        (pay, "attempts", 1),
        (pay, "error", "ConnectionError: the first time"),
        (pay, "question", {"id": amount, "value": {"pay": 42}, "schema": None, **plain}),
        (review, "answer", {"question": good, "value": "fine"}),
        (review, "question", {"id": send, "value": "Send it?", "schema": "str", **plain}),
    ]
    for own, kind, content in told:
        add_write(connection, content, "ask", "", ident(51), own, kind)


GIVEN_42 = digest("builtins.tuple(", "int:42", ")")
"""The fingerprint of the arguments of a step."""


def add_timer(connection: sqlite3.Connection) -> None:
    """A task that sleeps."""
    begun = body({"log": ["in"], "total": 0}, [task("wait", ident(60))], "__start__")
    add_checkpoint(connection, begun, "timer", "", "main", ident(60), None, 0, "start", "waiting", AT.format(42))
    own = digest("task", ident(60), 0)
    timer = {"id": digest("interrupt", own, "ordinal", 0), "kind": "timer", "value": None, "event": None}
    timer |= {"due": "2025-06-01T15:00:42.500000+02:00", "schema": None}
    add_write(connection, timer, "timer", "", ident(60), own, "question")


def add_remembers(connection: sqlite3.Connection) -> None:
    """A run that has called a subgraph which remembers."""
    place, caller = AT.format(43), ident(70)
    outer = ({"log": ["one"]}, {"log": ["one"], "seen": 1}, {"log": ["one", "seen 1"], "seen": 1})
    begun = body(outer[0], [task("inner", caller)], "__start__")
    add_checkpoint(connection, begun, "remembers", "", "main", caller, None, 0, "start", "first", place)
    parent = {"parent_task": digest("task", caller, 0)}
    inner = (
        body({"visits": 0}, [task("visit", ident(71))], "__start__", info=parent),
        body({"visits": 1}, [task("show", ident(72))], "visit", info=parent, report=[["visits", 1]]),
        body({"visits": 1, "seen": 1}, [], "show", info=parent, report=[["visits", 1]]),
    )
    for step, one in enumerate(inner):
        columns = (ident(71 + step), ident(70 + step) if step else None, step, "step" if step else "start", "first")
        add_checkpoint(connection, one, "remembers", "inner", "main", *columns, place)
    called = body(outer[1], [task("after", ident(74))], "inner")
    add_checkpoint(connection, called, "remembers", "", "main", ident(74), caller, 1, "step", "first", place)
    add_checkpoint(
        connection,
        body(outer[2], [], "after"),
        "remembers",
        "",
        "main",
        ident(75),
        ident(74),
        2,
        "step",
        "first",
        place,
    )


def add_join(connection: sqlite3.Connection) -> None:
    """A run that has stopped at a breakpoint, while a task is held and one of two has reached a join."""
    due = [task(name, ident(80), place) for place, name in enumerate(("short", "long"))]
    begun = body({"log": ["in"], "total": 0}, due, "__start__")
    add_checkpoint(connection, begun, "join", "", "main", ident(80), None, 0, "start", "joining", AT.format(44))
    waits = {
        "waiting": [{"task": task("end", ident(81), 1), "gather": False, "by": ""}],
        "arrived": {"'short' + 'longer' -> 'join'": ["short"]},
    }
    stopped = body({"log": ["in", "short", "long"], "total": 0}, [task("longer", ident(81))], "short", "long") | waits
    add_checkpoint(connection, stopped, "join", "", "main", ident(81), ident(80), 1, "step", "joining", AT.format(45))
    add_write(connection, None, "join", "", ident(81), "", "paused")


def main(path: Path = FILE) -> None:
    path.unlink(missing_ok=True)
    with closing(made(path)) as connection:
        connection.execute("BEGIN")
        for add in (add_long, add_ask, add_timer, add_remembers, add_join):
            add(connection)
        connection.execute("COMMIT")


if __name__ == "__main__":
    main()
