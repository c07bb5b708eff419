"""The next frontier and the deferred tasks, computed from results."""

from typing import Any

import pytest

from statewright import END, START, Send
from statewright.checkpoint import NO_ARG, DeferredTask, Task
from statewright.graph import STOP
from statewright.runtime.core.frontier import next_frontier, release_ready, simple_frontier

JOIN_AB = "'a' + 'b' -> 'c'"


def nodes(tasks: Any) -> list[str]:
    return [task.node for task in tasks]


def labels(tasks: Any) -> list[Any]:
    """Return the names of nodes and the arguments of Sends."""
    return [task.node if task.arg is NO_ARG else task.arg for task in tasks]


def held_nodes(held: Any) -> list[str]:
    return [deferred.task.node for deferred in held]


def frontier_after(program: Any, results: Any, *, joins: Any = None, due: Any = (), held: Any = ()) -> Any:
    return next_frontier(program, joins or {}, results, "after", due, held)


# -- order, ids


@pytest.mark.parametrize("simple", [True, False])
def test_nodes_are_in_order_of_declaration_before_sends_in_order_of_sender(make: Any, simple: bool) -> None:
    program = make.program(make.graph("z", "a", "w").add_edge(START, "z").add_edge(START, "a").add_edge(START, "w"))
    results = [
        make.result("z", targets=[Send("w", "z2"), "a", Send("w", "z1")], goto=True),
        make.result("a", targets=[Send("w", "a1"), "z"], goto=True),
    ]

    due = simple_frontier(program, results, "after") if simple else frontier_after(program, results)[0]

    assert labels(due) == ["z", "a", "z2", "z1", "a1"]


@pytest.mark.parametrize("simple", [True, False])
def test_a_node_due_twice_is_one_task_and_each_send_is_a_task(make: Any, simple: bool) -> None:
    program = make.program(make.graph("a", "b", "c").add_edge(START, "a").add_edge(START, "b").add_edge("a", "c"))
    results = [make.result("a", targets=["c", "c", Send("c", 1)]), make.result("b", targets=["c", Send("c", 1)])]

    due = simple_frontier(program, results, "after") if simple else frontier_after(program, results)[0]

    assert labels(due) == ["c", 1, 1]
    assert len({task.id for task in due}) == 3


def test_ids_of_tasks_depend_on_the_commit_and_the_position_only(make: Any) -> None:
    program = make.program(make.graph("a", "b").add_edge(START, "a").add_edge(START, "b"))
    results = [make.result("a", targets=["b", "a", Send("b", 1)])]

    first, repeated, other = (simple_frontier(program, results, origin) for origin in ("one", "one", "two"))

    assert [task.id for task in first or ()] == [task.id for task in repeated or ()]
    assert not {task.id for task in first or ()} & {task.id for task in other or ()}


def test_a_task_that_is_already_due_keeps_its_id_and_is_not_added_again(make: Any) -> None:
    program = make.program(make.graph("a", "b", "c").add_edge(START, "a").add_edge(START, "b").add_edge("a", "c"))
    waiting = Task("c", NO_ARG, "earlier", 4)

    due, _, _ = frontier_after(program, [make.result("a", targets=["c", "b"])], due=[waiting])

    assert nodes(due) == ["b", "c"]
    assert due[1] is waiting


# -- stop


@pytest.mark.parametrize("position", [0, 1])
def test_stop_clears_due_tasks_deferred_tasks_and_arrivals(make: Any, position: int) -> None:
    graph = make.graph("a", "b", "c").add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c")
    program = make.program(graph)
    results = [make.result("a", targets=["b", Send("c", 1)]), make.result("b", targets=["c"])]
    results[position].targets, results[position].goto = [STOP, "c"], True

    frontier = frontier_after(
        program, results, joins={JOIN_AB: frozenset("a")}, due=make.tasks("b"), held=[DeferredTask(make.task("c"))]
    )

    assert frontier == ((), (), {})


def test_a_stop_or_a_gathered_send_needs_the_full_frontier(make: Any) -> None:
    program = make.program(make.graph("a", "b").add_edge(START, "a").add_edge("a", "b"))

    assert simple_frontier(program, [make.result("a", targets=[STOP])], "after") is None
    assert simple_frontier(program, [make.result("a", targets=[Send("b", 1, gather=True)])], "after") is None


# -- joins


def join_program(make: Any) -> Any:
    graph = make.graph("a", "b", "c", "d").add_edge(START, "a").add_edge(START, "b").add_edge("c", "d")
    return make.program(graph.add_edge(["a", "b"], "c"))


@pytest.mark.parametrize(
    ("rounds", "due_after"),
    [
        ([["a"], ["b"]], [[], ["c"]]),
        ([["b"], ["a"]], [[], ["c"]]),
        ([["a", "b"]], [["c"]]),
        ([["a"], ["a"], ["b"]], [[], [], ["c"]]),
        ([["a", "a"]], [[]]),
        ([["a"], ["b"], ["a"]], [[], ["c"], []]),
        ([["a", "b"], ["b"], ["a"]], [["c"], [], ["c"]]),
    ],
)
def test_a_join_is_due_once_after_all_starts_have_run(make: Any, rounds: Any, due_after: Any) -> None:
    program, joins, seen = join_program(make), {}, []
    other_task = make.task("d", arg="other")  # so that the run is not complete
    for arrivals in rounds:
        due, _, joins = frontier_after(program, [make.result(node) for node in arrivals], joins=joins, due=[other_task])
        seen.append([task.node for task in due if task is not other_task])

    assert seen == due_after


def test_arrivals_are_cleared_when_the_run_is_complete(make: Any) -> None:
    program, other_task = join_program(make), make.task("d", arg="other")

    complete, unfinished = (frontier_after(program, [make.result("a")], due=due) for due in ([], [other_task]))

    assert complete == ((), (), {})
    assert unfinished[2] == {JOIN_AB: frozenset("a")}


def test_the_previous_arrivals_are_not_changed(make: Any) -> None:
    joins = {JOIN_AB: frozenset("a")}

    due, _, after = frontier_after(join_program(make), [make.result("b")], joins=joins)

    assert nodes(due) == ["c"]
    assert after == {}
    assert joins == {JOIN_AB: frozenset("a")}


@pytest.mark.parametrize(
    ("targets", "due", "arrived"),
    [
        (["c"], [], {JOIN_AB: frozenset("a")}),
        (["d"], ["d"], {}),
        (["c", "d"], ["d"], {JOIN_AB: frozenset("a")}),
        ([Send("c", 1)], ["c"], {}),
    ],
    ids=["to the end of the join", "to another node", "to both", "a Send is not an arrival"],
)
def test_a_goto_to_the_end_of_a_join_is_an_arrival(make: Any, targets: Any, due: Any, arrived: Any) -> None:
    other_task = make.task("d", arg="other")

    tasks, _, joins = frontier_after(
        join_program(make), [make.result("a", targets=targets, goto=True)], due=[other_task]
    )

    assert [task.node for task in tasks if task is not other_task] == due
    assert joins == arrived


def test_a_goto_from_outside_the_join_is_not_an_arrival(make: Any) -> None:
    due, _, joins = frontier_after(join_program(make), [make.result("d", targets=["c"], goto=True)])

    assert (nodes(due), joins) == (["c"], {})


def test_a_node_due_by_a_join_and_an_edge_is_one_task(make: Any) -> None:
    graph = make.graph("a", "b", "c").add_edge(START, "a").add_edge(START, "b").add_edge("a", "c")
    program = make.program(graph.add_edge(["a", "b"], "c"))

    assert nodes(frontier_after(program, [make.result("a", targets=["c"]), make.result("b")])[0]) == ["c"]


def test_a_join_to_end_adds_no_task(make: Any) -> None:
    graph = make.graph("a", "b").add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], END)

    assert frontier_after(make.program(graph), [make.result("a"), make.result("b")]) == ((), (), {})


def test_a_goto_to_the_end_of_two_joins_is_an_arrival_at_both(make: Any) -> None:
    graph = make.graph("a", "b", "c", "e")
    for name in "abe":
        graph.add_edge(START, name)
    program = make.program(graph.add_edge(["a", "b"], "c").add_edge(["a", "e"], "c"))
    results = [make.result("a", targets=["c"], goto=True), make.result("e")]

    assert nodes(frontier_after(program, results)[0]) == ["c"]


# -- subscriptions


@pytest.mark.parametrize(
    ("writes", "due"),
    [
        ({"x": 1}, ["w", "v"]),
        ({"y": 1}, ["v"]),
        ({"log": [1]}, []),
        ({}, []),
        ([("y", 1), ("x", 1)], ["w", "v"]),
    ],
)
def test_subscribers_of_a_written_field_are_due_in_order_of_declaration(make: Any, writes: Any, due: list[str]) -> None:
    graph = make.graph("w", "a", "v", w={"on": ["x"]}, v={"on": ["y", "x"]}).add_edge(START, "a")

    assert nodes(frontier_after(make.program(graph), [make.result("a", writes)])[0]) == due


def test_a_node_due_by_a_subscription_and_an_edge_is_one_task(make: Any) -> None:
    graph = make.graph("a", "w", w={"on": ["x"]}).add_edge(START, "a").add_edge("a", "w")

    assert nodes(frontier_after(make.program(graph), [make.result("a", {"x": 1}, ["w"])])[0]) == ["w"]


# -- deferred tasks


def waiting_program(make: Any, edges: dict[str, str], joins: dict[str, str]) -> Any:
    """Return a program with edges such as `{"a": "bc"}` and the joins of nodes."""
    names = dict.fromkeys("".join([*edges, *edges.values()]))
    ordered = sorted(names)
    graph = make.graph(*ordered, **{name: {"join": join} for name, join in joins.items()})
    for start, ends in edges.items():
        for end in ends:
            graph.add_edge(start, end)
    for name in ordered:
        graph.add_edge(START, name)
    return make.program(graph)


@pytest.mark.parametrize(
    ("edges", "joins", "due", "held", "released"),
    [
        ({"a": "b", "b": "z"}, {"z": "reachable"}, "a", "z", ""),
        ({"a": "b", "b": "z"}, {"z": "reachable"}, "b", "z", ""),
        ({"a": "b", "c": "z"}, {"z": "reachable"}, "a", "z", "z"),
        ({"a": "b", "b": "z"}, {"z": "reachable"}, "", "z", "z"),
        ({"a": "b", "c": "z"}, {"z": "idle"}, "a", "z", ""),
        ({"a": "b", "b": "z"}, {"z": "idle"}, "", "z", "z"),
        ({"a": "yz"}, {"y": "reachable", "z": "reachable"}, "", "yz", "yz"),
        ({"a": "y", "y": "z"}, {"y": "reachable", "z": "reachable"}, "", "yz", "y"),
        ({"a": "z", "z": "y"}, {"y": "reachable", "z": "reachable"}, "", "yz", "z"),
        ({"a": "y", "y": "b", "b": "z"}, {"y": "reachable", "z": "reachable"}, "", "yz", "y"),
        ({"a": "yz"}, {"y": "idle", "z": "idle"}, "", "yz", "yz"),
        ({"a": "y", "y": "z"}, {"y": "idle", "z": "idle"}, "", "yz", "y"),
        ({"a": "yz"}, {"y": "idle", "z": "reachable"}, "", "yz", "z"),
        ({"a": "y", "y": "z"}, {"y": "idle", "z": "reachable"}, "", "yz", "y"),
        ({"a": "y", "y": "z", "z": "y"}, {"y": "reachable", "z": "reachable"}, "", "yz", "y"),
        ({"a": "y", "y": "z", "z": "y"}, {"y": "idle", "z": "idle"}, "", "yz", "y"),
        ({"x": "y", "y": "z", "z": "x"}, {"x": "reachable", "y": "reachable", "z": "reachable"}, "", "xyz", "x"),
        ({"x": "y", "y": "z", "z": "x"}, {"y": "reachable", "z": "reachable"}, "", "yz", "y"),
        ({"x": "y", "y": "xz"}, {"x": "reachable", "y": "reachable", "z": "reachable"}, "", "xyz", "x"),
        ({"a": "y", "y": "yz"}, {"y": "reachable"}, "", "y", "y"),
    ],
    ids=[
        "two steps away from what is due",
        "one step away",
        "out of reach of what is due",
        "nothing is due",
        "idle waits for any due task",
        "idle and nothing is due",
        "two unconnected nodes start together",
        "the first reaches the second",
        "the second reaches the first",
        "reached through a node that does not wait",
        "idle nodes start together",
        "idle nodes in order of reach",
        "reachable starts before idle",
        "an idle node that reaches another starts first",
        "a cycle starts in order of declaration",
        "a cycle of idle nodes",
        "a cycle of three",
        "a cycle through a node that does not wait",
        "a node after a cycle waits for it",
        "a node that reaches itself does not block itself",
    ],
)
def test_deferred_tasks_are_released_when_no_task_can_reach_them(
    make: Any, edges: Any, joins: Any, due: str, held: str, released: str
) -> None:
    program = waiting_program(make, edges, joins)
    waiting = [DeferredTask(Task(name, NO_ARG, "before", position)) for position, name in enumerate(held)]

    frontier, remaining = release_ready(program, list(make.tasks(*due, origin="due")), waiting)

    assert "".join(nodes(frontier)) == "".join(sorted(due + released))
    assert "".join(held_nodes(remaining)) == "".join(name for name in held if name not in released)


def test_a_node_deferred_twice_is_one_task_with_its_first_id(make: Any) -> None:
    program = waiting_program(make, {"a": "bz", "b": "cz", "c": "z"}, {"z": "reachable"})
    _, held, _ = frontier_after(program, [make.result("a", targets=["b", "z"])])
    due, held_later, _ = next_frontier(program, {}, [make.result("b", targets=["c", "z"])], "later", (), held)

    assert nodes(due) == ["c"]
    assert [deferred.task.id for deferred in held_later] == [deferred.task.id for deferred in held]


def test_a_deferred_task_keeps_its_id(make: Any) -> None:
    program = waiting_program(make, {"a": "bz", "b": "z"}, {"z": "reachable"})
    _, held, _ = frontier_after(program, [make.result("a", targets=["b", "z"])])
    due, remaining, _ = next_frontier(program, {}, [make.result("b")], "later", (), held)

    assert [task.id for task in due] == [held[0].task.id]
    assert remaining == ()


def test_sends_to_a_deferred_node_are_deferred_separately(make: Any) -> None:
    program = waiting_program(make, {"a": "bz", "b": "c"}, {"z": "idle"})
    _, held, _ = frontier_after(program, [make.result("a", targets=["b", Send("z", 1), Send("z", 2)], goto=True)])
    due, remaining, _ = frontier_after(program, [make.result("b")], held=held)

    assert held_nodes(held) == ["z", "z"]
    assert labels(due) == [1, 2]
    assert remaining == ()


def test_a_deferred_send_does_not_replace_the_task_of_its_node(make: Any) -> None:
    program = waiting_program(make, {"a": "bz", "b": "c"}, {"z": "idle"})
    _, held, _ = frontier_after(program, [make.result("a", targets=["b", Send("z", 1)], goto=True)])
    due, _, _ = next_frontier(program, {}, [make.result("b", targets=["z"])], "later", (), held)

    assert labels(due) == ["z", 1]


def test_a_send_and_a_gathered_send_to_a_deferred_node_have_different_ids(make: Any) -> None:
    program = waiting_program(make, {"a": "z"}, {"z": "idle"})

    due, _, _ = frontier_after(program, [make.result("a", targets=[Send("z", 1), gather(2, "z")], goto=True)])

    assert labels(due) == [1, [2]]
    assert len({task.id for task in due}) == 2


def test_an_idle_node_waits_for_sends(make: Any) -> None:
    program = waiting_program(make, {"a": "bz"}, {"z": "idle"})

    due, held, _ = frontier_after(program, [make.result("a", targets=["z", Send("b", 1)], goto=True)])

    assert labels(due) == [1]
    assert held_nodes(held) == ["z"]


# -- gathering


def gather(arg: Any, node: str = "g") -> Send:
    return Send(node, arg, gather=True)


def test_gathered_sends_are_one_task_in_order_of_senders(make: Any) -> None:
    program = waiting_program(make, {"a": "g", "b": "g", "c": "d"}, {})
    _, held, _ = frontier_after(program, [make.result("b", targets=["c", "a", gather("b1"), gather("b2")], goto=True)])
    due, remaining, _ = frontier_after(program, [make.result("a", targets=[gather("a1")], goto=True)], held=held)

    assert labels(due) == [["a1", "b1", "b2"]]
    assert remaining == ()


def test_gathered_sends_wait_while_their_node_can_be_reached(make: Any) -> None:
    program = waiting_program(make, {"a": "b", "b": "g", "c": "d"}, {})

    reachable = frontier_after(program, [make.result("a", targets=["b", gather(1)], goto=True)])
    unreachable = frontier_after(program, [make.result("a", targets=["c", gather(1)], goto=True)])

    assert (labels(reachable[0]), held_nodes(reachable[1])) == (["b"], ["g"])
    assert (labels(unreachable[0]), held_nodes(unreachable[1])) == (["c", [1]], [])


def test_one_gathered_send_is_a_list(make: Any) -> None:
    program = waiting_program(make, {"a": "g"}, {})

    assert labels(frontier_after(program, [make.result("a", targets=[gather("only")], goto=True)])[0]) == [["only"]]


def test_plain_and_gathered_sends_to_one_node_are_separate_tasks(make: Any) -> None:
    program = waiting_program(make, {"a": "g"}, {})
    targets = [gather(1), Send("g", 2), gather(3), "g"]

    due, _, _ = frontier_after(program, [make.result("a", targets=targets, goto=True)])

    assert labels(due) == ["g", 2, [1, 3]]
    assert len({task.id for task in due}) == 3


def test_sends_of_start_are_gathered_before_sends_of_nodes(make: Any) -> None:
    program = waiting_program(make, {"a": "g"}, {})
    held = [DeferredTask(make.task("g", "from a"), gather=True, sender="a")]
    held.append(DeferredTask(make.task("g", "from start", position=1), gather=True, sender=START))

    assert labels(release_ready(program, [], held)[0]) == [["from start", "from a"]]


def test_a_gathered_task_has_the_id_of_one_of_its_sends(make: Any) -> None:
    program = waiting_program(make, {"a": "g", "b": "g"}, {})
    held = [
        DeferredTask(make.task("g", sender, position=position), gather=True, sender=sender)
        for position, sender in enumerate("ba")
    ]

    (task,), _ = release_ready(program, [], held)

    assert task.arg == ["a", "b"]
    assert task.id in {deferred.task.id for deferred in held}


def test_gathered_sends_are_gathered_by_node(make: Any) -> None:
    program = waiting_program(make, {"a": "gh"}, {})
    targets = [gather(1, "h"), gather(2, "g"), gather(3, "h")]

    due, _, _ = frontier_after(program, [make.result("a", targets=targets, goto=True)])

    assert [(task.node, task.arg) for task in due] == [("g", [2]), ("h", [1, 3])]


def test_a_cycle_of_gathering_nodes_starts_in_order_of_declaration(make: Any) -> None:
    program = waiting_program(make, {"a": "g", "g": "h", "h": "g"}, {})
    held = [
        DeferredTask(make.task("h", 1), gather=True, sender="a"),
        DeferredTask(make.task("g", 2), gather=True, sender="a"),
    ]

    due, remaining = release_ready(program, [], held)

    assert [(task.node, task.arg) for task in due] == [("g", [2])]
    assert held_nodes(remaining) == ["h"]


def test_an_error_handler_reaches_the_successors_of_its_node(make: Any) -> None:
    graph = make.graph("a", "b", "z", a={"error_handler": lambda state, error: None}, z={"join": "reachable"})
    graph.add_edge(START, "a").add_edge(START, "b").add_edge("a", "z")
    program = make.program(graph)
    handler = make.task(program.nodes["a"].handler, arg="failed")

    _, held = release_ready(program, [handler], [DeferredTask(make.task("z"))])

    assert held_nodes(held) == ["z"]
