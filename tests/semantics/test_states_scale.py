"""Large workflows: loading, compiling and drawing take work in proportion to the number of states."""

from collections.abc import Callable

import pytest
from tests.work import FULL, check_linear, count_work

from statewright.workflow.states import load_workflow

SIZE = 100 if FULL else 30
"""The work is counted for this number of states, and for twice and four times as many."""

QUIET = "enable_summarization_node: false\n"
HEAD = QUIET + "assistants: [{id: a, system_prompt: p}]\nstates:\n"


def next_state(position: int, count: int) -> str:
    """The next state of a chain."""
    return f"s{position + 1}" if position + 1 < count else "end"


def chain(count: int, form: str, head: str = HEAD) -> str:
    """States that follow each other; `form` has `{i}` for the number of the state and `{to}` for the next one."""
    lines = (form.replace("{i}", str(i)).replace("{to}", next_state(i, count)) for i in range(count))
    return head + "".join(f"- {{id: s{i}, {line}}}\n" for i, line in enumerate(lines))


def items_of(name: str, count: int, form: str) -> str:
    return f"{QUIET}{name}:\n" + "".join(f"- {{{form.replace('{i}', str(i))}}}\n" for i in range(count)) + "states:\n"


def fan_out(count: int) -> str:
    targets = ", ".join(f"s{i}" for i in range(count))
    states = chain(count, "assistant_id: a, next: {state_id: last}", "")
    return (
        f"{HEAD}- {{id: root, assistant_id: a, next: {{state_ids: [{targets}]}}}}\n{states}"
        "- {id: last, assistant_id: a, next: {state_id: end}}\n"
    )


def switch(count: int) -> str:
    cases = "".join(f"      - {{condition: 'x == {i}', state_id: s{i}}}\n" for i in range(count))
    states = chain(count, "assistant_id: a, next: {state_id: end}", "")
    return (
        f"{HEAD}- id: root\n  assistant_id: a\n  next:\n    switch:\n      default: end\n      cases:\n{cases}{states}"
    )


SHAPES: dict[str, Callable[[int], str]] = {
    "a chain": lambda n: chain(n, "assistant_id: a, task: 'Do {{x{i}}}', next: {state_id: {to}}"),
    "a chain of iteration": lambda n: chain(n, "assistant_id: a, next: {state_id: {to}, iter_key: k}"),
    "a fan-out": fan_out,
    "conditions": lambda n: chain(
        n, "assistant_id: a, next: {condition: {expression: 'x == {i}', then: {to}, otherwise: s{i}}}"
    ),
    "cases of a switch": switch,
    "a tool for each state": lambda n: chain(
        n, "tool_id: t{i}, next: {state_id: {to}}", items_of("tools", n, "id: t{i}, tool: f{i}")
    ),
    "an assistant for each state": lambda n: chain(
        n, "assistant_id: a{i}, next: {state_id: {to}}", items_of("assistants", n, "id: a{i}, system_prompt: p")
    ),
    "a custom node for each state": lambda n: chain(
        n,
        "custom_node_id: n{i}, next: {state_id: {to}}",
        items_of("custom_nodes", n, "id: n{i}, custom_node_id: result_finalizer_node"),
    ),
    "unreachable states": lambda n: chain(n, "assistant_id: a, next: {state_id: end}"),
    "breakpoints": lambda n: chain(n, "assistant_id: a, interrupt_before: true, next: {state_id: {to}}"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_loading_takes_work_in_proportion_to_the_number_of_states(shape: str) -> None:
    def prepare(count: int) -> Callable[[], object]:
        text = SHAPES[shape](count)
        return lambda: load_workflow(text)

    check_linear(prepare, SIZE)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.sampled(5)
def test_compiling_takes_work_in_proportion_to_the_number_of_states(shape: str) -> None:
    def prepare(count: int) -> Callable[[], object]:
        workflow = load_workflow(SHAPES[shape](count))
        return lambda: workflow.compile(script={})

    check_linear(prepare, SIZE)


WIDE = ("a fan-out", "cases of a switch", "unreachable states")
"""Shapes whose text drawings have a row for each bend of a line, as long as the layer is wide."""


@pytest.mark.parametrize("form", ["ascii", "mermaid", "dot", "svg"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.sampled(5)
def test_drawing_takes_work_in_proportion_to_the_number_of_states(shape: str, form: str) -> None:
    if form == "ascii" and shape in WIDE:
        pytest.skip("The size of the drawing is quadratic: see the next test.")

    def prepare(count: int) -> Callable[[], object]:
        drawing = load_workflow(SHAPES[shape](count)).compile().get_graph()
        return getattr(drawing, f"draw_{form}")

    check_linear(prepare, SIZE)


@pytest.mark.parametrize("shape", WIDE)
def test_a_text_drawing_takes_work_in_proportion_to_its_size(shape: str) -> None:
    def work_per_character(count: int) -> float:
        drawing = load_workflow(SHAPES[shape](count)).compile().get_graph()
        return count_work(drawing.draw_ascii) / len(drawing.draw_ascii())

    assert work_per_character(4 * SIZE) <= 1.2 * work_per_character(SIZE)
