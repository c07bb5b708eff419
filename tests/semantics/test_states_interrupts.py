"""The states language, 2.11: pausing before a state, answers, and the saved state of a run."""

from pathlib import Path
from typing import Any

import pytest

from statewright import Command, InMemorySaver
from statewright.models import ScriptedModel
from statewright.storage.sqlite import SqliteSaver
from statewright.workflow.states import load_workflow

THREAD = {"configurable": {"thread_id": "t"}}
Outputs = dict[str, Any]


class Run:
    """A workflow on one thread, with a model that answers by state; `callers` names the states that called it."""

    def __init__(self, driver: Any, states: str, outs: Outputs, *, saver: Any = None, extra: str = "") -> None:
        states = states.replace("next:", "assistant_id: a, next:")
        top = (
            f"enable_summarization_node: false\nmax_concurrency: 1\n{extra}\nassistants: [{{id: a, system_prompt: p}}]"
        )
        self._workflow = load_workflow(f"{top}\nstates:\n{states}")
        self._outs = outs
        self._driver = driver
        self.saver = InMemorySaver() if saver is None else saver
        self.model = ScriptedModel(self._answer)
        self.compile()

    def compile(self) -> None:
        """Compile a new graph on the same saver, as another process would."""
        self.app = self._workflow.compile(models=self.model, checkpointer=self.saver)

    def _answer(self, request: Any) -> str:
        output, call = self._outs[request.metadata["state"]], request.metadata["call"]
        if isinstance(output, list):
            return output[min(call.number, len(output) - 1)]
        return output.replace("$item", str(call.item))

    @property
    def callers(self) -> str:
        return " ".join(request.metadata["state"] for request in self.model.requests)

    def start(self, message: Any = "hi") -> Any:
        return self._driver.invoke(self.app, {"input": message}, THREAD)

    def resume(self, *answer: Any, config: Any = THREAD) -> Any:
        return self._driver.invoke(self.app, Command(resume=answer[0]) if answer else None, config)

    @property
    def due(self) -> tuple[str, ...]:
        return self.app.get_state(THREAD).next


def names(result: Any) -> str:
    return " ".join(visit["state"] for visit in result["visits"])


def prompts(result: Any, state: str) -> list[str]:
    return [visit["prompt"] for visit in result["visits"] if visit["state"] == state]


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


LINE = """
- {id: s, next: {state_id: e}}
- {id: e, interrupt_before: true, task: 'E {{k}} {{task}}', next: {state_id: z}}
- {id: z, task: 'Z {{k}}', next: {state_id: end}}
"""
LINE_OUTS = {"s": '{"k":1}', "e": "e", "z": "z"}

# -- where a run pauses


def test_2_11_a_run_pauses_before_the_state_and_continues_without_an_answer(driver: Any) -> None:
    run = Run(driver, LINE, LINE_OUTS)
    paused = run.start()
    assert (run.callers, run.due, texts(paused)[-1]) == ("s", ("e",), '{"k":1}')
    result = run.resume()
    assert (names(result), run.callers, prompts(result, "e")) == ("s e z", "s e z", ['E 1 {"k":1}'])
    assert texts(result) == ["hi", '{"k":1}', "e", "z"]


def test_2_11_wait_for_user_confirmation_pauses_too(driver: Any) -> None:
    run = Run(driver, LINE.replace("interrupt_before", "wait_for_user_confirmation"), LINE_OUTS)
    run.start()
    assert run.due == ("e",)


def test_2_11_a_run_can_pause_before_its_first_state(driver: Any) -> None:
    run = Run(driver, "- {id: s, interrupt_before: true, task: 'S {{k}}', next: {state_id: end}}", {"s": "s"})
    run.start({"k": 0})
    assert (run.callers, run.due) == ("", ("s",))
    result = run.resume('{"k": 5}')
    assert (names(result), prompts(result, "s"), result["context"]) == ("s", ["S 5"], {"k": 5})


def test_2_11_a_state_in_a_loop_pauses_each_time(driver: Any) -> None:
    states = """
- {id: s, interrupt_before: true, next: {condition: {expression: again, then: s, otherwise: end}}}
"""
    run = Run(driver, states, {"s": ['{"again": true}', '{"again": true}', '{"again": false}']})
    run.start()
    for done in (1, 2):
        run.resume()
        assert (run.callers.split(), run.due) == (["s"] * done, ("s",))
    assert names(run.resume()) == "s s s"
    assert run.due == ()


PARALLEL = """
- {id: r, next: {state_ids: [b, c]}}
- {id: b, interrupt_before: true, task: 'B {{k}}', next: {state_id: j}}
- {id: c, task: 'C {{k}}', next: {state_id: j}}
- {id: j, task: 'J {{k}}', next: {state_id: end}}
"""
PARALLEL_OUTS = {"r": "r", "b": "b", "c": "c", "j": "j"}


def test_2_11_siblings_of_a_paused_state_wait_too(driver: Any) -> None:
    run = Run(driver, PARALLEL, PARALLEL_OUTS)
    run.start()
    assert (run.callers, sorted(run.due)) == ("r", ["b", "c"])
    assert names(run.resume()) == "r b c j"


def test_2_11_two_paused_states_of_one_superstep_pause_once(driver: Any) -> None:
    run = Run(driver, PARALLEL.replace("{id: c,", "{id: c, interrupt_before: true,"), PARALLEL_OUTS)
    run.start()
    assert (names(run.resume()), run.due) == ("r b c j", ())


def test_2_11_an_answer_reaches_all_siblings_and_is_added_once(driver: Any) -> None:
    run = Run(driver, PARALLEL, PARALLEL_OUTS)
    run.start()
    result = run.resume('{"k": 7}')
    assert [prompts(result, state) for state in "bcj"] == [["B 7"], ["C 7"], ["J 7"]]
    assert texts(result) == ["hi", "r", '{"k": 7}', "b", "c", "j"]


ITERATION = """
- {id: l, next: {state_id: p, iter_key: xs%s}}
- {id: p, interrupt_before: true, task: 'P {{task}} {{k}}', next: {state_id: q, iter_key: xs}}
- {id: q, task: 'Q {{task}} {{k}}', next: {state_id: m}}
- {id: m, task: 'M {{k}}', next: {state_id: end}}
"""
ITERATION_OUTS = {"l": '{"xs": ["a", "b"]}', "p": "p-$item", "q": "q-$item", "m": "m"}


def test_2_11_all_branches_of_an_iteration_pause_together(driver: Any) -> None:
    run = Run(driver, ITERATION % "", ITERATION_OUTS)
    run.start()
    assert (run.callers, run.due) == ("l", ("p", "p"))
    result = run.resume()
    assert names(result) == "l p p q q m"
    assert [prompt[:3] for prompt in prompts(result, "p")] == ["P a", "P b"]


def test_2_11_an_answer_before_an_iteration_does_not_change_the_items(driver: Any) -> None:
    run = Run(driver, ITERATION % "", ITERATION_OUTS)
    run.start()
    result = run.resume('{"k": 7}')
    assert [prompts(result, state) for state in "pqm"] == [["P a 7", "P b 7"], ["Q a 7", "Q b 7"], ["M 7"]]
    assert texts(result) == ["hi", ITERATION_OUTS["l"], '{"k": 7}', "p-a", "q-a", "p-b", "q-b", "m"]


def test_2_11_branches_that_get_only_some_keys_see_the_answer(driver: Any) -> None:
    run = Run(driver, ITERATION % ", include_in_iterator_context: [u]", ITERATION_OUTS)
    run.start()
    result = run.resume('{"k": 7}')
    assert prompts(result, "p") == ["P a 7", "P b 7"]


def test_2_11_a_pause_within_a_chain_does_not_change_the_items(driver: Any) -> None:
    states = (
        (ITERATION % "").replace("interrupt_before: true, ", "").replace("{id: q,", "{id: q, interrupt_before: true,")
    )
    run = Run(driver, states, ITERATION_OUTS)
    run.start()
    assert (run.callers, run.due) == ("l p p", ("q", "q"))
    result = run.resume("go on")
    assert [prompt[:3] for prompt in prompts(result, "q")] == ["Q a", "Q b"]
    assert run.callers == "l p p q q m"


def test_2_11_a_pause_at_a_join_runs_no_predecessor_again(driver: Any) -> None:
    states = PARALLEL.replace("interrupt_before: true, ", "").replace("{id: j,", "{id: j, interrupt_before: true,")
    run = Run(driver, states, PARALLEL_OUTS)
    run.start()
    assert (run.callers, run.due) == ("r b c", ("j",))
    result = run.resume('{"k": 1}')
    assert (names(result), prompts(result, "j"), run.callers) == ("r b c j", ["J 1"], "r b c j")


# -- answers


def test_2_11_an_answer_becomes_a_user_message(driver: Any) -> None:
    run = Run(driver, LINE, LINE_OUTS)
    run.start()
    result = run.resume("do it well")
    messages = [(message.role, message.text) for message in result["messages"]]
    assert messages == [
        ("user", "hi"), ("assistant", '{"k":1}'), ("user", "do it well"), ("assistant", "e"), ("assistant", "z"),
    ]  # fmt: skip
    assert result["context"] == {"k": 1}
    assert names(result) == "s e z"


def test_2_11_an_answer_that_is_a_map_merges_into_the_context(driver: Any) -> None:
    run = Run(driver, LINE, LINE_OUTS)
    run.start()
    result = run.resume('{"k": 2, "new": 3}')
    assert prompts(result, "e")[0].startswith("E 2 ")
    assert result["context"] == {"k": 2, "new": 3}
    assert '{"k": 2, "new": 3}' in texts(result)


def test_2_3_task_is_still_the_previous_output_after_an_answer(driver: Any) -> None:
    run = Run(driver, LINE, LINE_OUTS)
    run.start()
    assert prompts(run.resume("do it well"), "e") == ['E 1 {"k":1}']


def test_2_11_an_answer_does_not_change_a_route_that_was_taken(driver: Any) -> None:
    states = """
- {id: s, next: {condition: {expression: 'k == 1', then: y, otherwise: n}}}
- {id: y, interrupt_before: true, next: {state_id: end}}
- {id: n, next: {state_id: end}}
"""
    run = Run(driver, states, {"s": '{"k": 1}', "y": "y", "n": "n"})
    run.start()
    assert names(run.resume('{"k": 2}')) == "s y"


# -- saved state


def test_a_run_continues_in_another_graph_without_repeating_states(driver: Any) -> None:
    run = Run(driver, ITERATION % "", ITERATION_OUTS)
    run.start()
    run.compile()
    result = run.resume('{"k": 7}')
    assert (names(result), run.callers) == ("l p p q q m", "l p p q q m")
    assert prompts(result, "m") == ["M 7"]
    assert run.app.get_state(THREAD).values["context"] == result["context"]


def test_only_failed_states_run_again(driver: Any) -> None:
    run = Run(driver, PARALLEL.replace("interrupt_before: true, ", ""), {**PARALLEL_OUTS, "j": "j"})
    outputs = dict(run._outs)
    run._outs = {name: output for name, output in outputs.items() if name != "c"}
    with pytest.raises(KeyError):
        run.start()
    run._outs = outputs
    run.compile()
    result = run.resume()
    assert names(result) == "r b c j"
    assert sorted(run.callers.split()) == ["b", "c", "c", "j", "r"]


def test_every_checkpoint_has_the_context_of_its_superstep(driver: Any) -> None:
    states = "- {id: s, next: {state_id: e}}\n- {id: e, next: {state_id: end}}"
    run = Run(driver, states, {"s": '{"k":1}', "e": '{"k":2}'})
    run.start({"k": 0})
    history = list(run.app.get_state_history(THREAD))
    assert [state.values["context"] for state in history] == [{"k": 2}, {"k": 1}, {"k": 0}]
    assert [len(state.values["visits"]) for state in history] == [2, 1, 0]


def test_a_replay_of_any_checkpoint_gives_the_same_result(driver: Any) -> None:
    run = Run(driver, ITERATION.replace("interrupt_before: true, ", "") % "", ITERATION_OUTS)
    first = run.start({"k": 1})
    for state in list(run.app.get_state_history(THREAD)):
        if state.next:
            replayed = run.resume(config=state.config)
            assert (names(replayed), replayed["context"], texts(replayed)) == (
                names(first),
                first["context"],
                texts(first),
            )


def test_a_fork_with_another_answer_does_not_change_the_first_branch(driver: Any) -> None:
    run = Run(driver, LINE, LINE_OUTS)
    run.start()
    paused = run.app.get_state(THREAD).config
    first = run.resume('{"k": "one"}')
    side = run.app.fork(paused, branch="side")
    other = run._driver.invoke(run.app, Command(resume='{"k": "two"}'), side)
    assert [prompts(result, "z") for result in (first, other)] == [["Z one"], ["Z two"]]
    assert [result["context"] for result in (first, other)] == [{"k": "one"}, {"k": "two"}]
    assert run.app.get_state(THREAD).values["context"] == {"k": "one"}
    assert "one" not in str(texts(other))


def test_each_invocation_on_a_thread_begins_with_a_fresh_context(driver: Any) -> None:
    states = "- {id: s, task: 'S {{u}} {{k}} {{task}}', next: {state_id: e}}\n- {id: e, next: {state_id: end}}"
    run = Run(driver, states, {"s": '{"k":1}', "e": "e"})
    run.start('{"u": 1}')
    result = run.start("again")
    assert names(result) == "s e"
    assert prompts(result, "s") == ["S {{u}} {{k}} again"]
    assert result["context"] == {"k": 1}
    assert texts(result) == ["again", '{"k":1}', "e"]


def test_an_invocation_after_a_pause_at_the_first_state_begins_with_a_fresh_context(driver: Any) -> None:
    run = Run(driver, "- {id: s, interrupt_before: true, task: 'S {{k}}', next: {state_id: end}}", {"s": '{"d": 1}'})
    for answer in ('{"k": 1}', None, '{"k": 2}'):
        run.start()
        result = run.resume(*([answer] if answer else []))
        assert prompts(result, "s") == [f"S {answer[6] if answer else '{{k}}'}"]
        assert texts(result) == ["hi", *([answer] if answer else []), '{"d": 1}']


def test_threads_of_one_graph_are_isolated(driver: Any) -> None:
    run = Run(driver, LINE, LINE_OUTS)
    one, two = ({"configurable": {"thread_id": name}} for name in ("one", "two"))
    for config, message in ((one, "1"), (two, "2")):
        run._driver.invoke(run.app, {"input": message}, config)
    results = [run.resume(f'{{"k": "{answer}"}}', config=config) for config, answer in ((one, "x"), (two, "y"))]
    assert [prompts(result, "z") for result in results] == [["Z x"], ["Z y"]]
    assert [texts(result)[0] for result in results] == ["1", "2"]


@pytest.mark.parametrize("answer", [{"k": 2}, '{"k": 2}'])
def test_an_answer_can_be_a_map_or_json(driver: Any, answer: Any) -> None:
    run = Run(driver, LINE, LINE_OUTS)
    run.start()
    assert run.resume(answer)["context"] == {"k": 2}


def test_head_branches_are_stored_without_copies_of_the_context(driver: Any, tmp_path: Path) -> None:
    states = """
- {id: l, next: {state_id: p, iter_key: xs}}
- {id: p, interrupt_before: true, next: {state_id: m}}
- {id: m, interrupt_before: true, next: {state_id: end}}
"""
    outs = {"l": f'{{"xs": {list(range(200))}}}', "p": '{"r": $item}', "m": "m"}
    limits = "messages_limit_before_summarization: 10000\ntokens_limit_before_summarization: 1000000"
    with SqliteSaver(tmp_path / "threads.db") as saver:
        run = Run(driver, states, outs, saver=saver, extra=limits)
        run.start({"big": "x" * 100_000})
        run.resume()
        assert run.resume()["context"]["r"] == 199
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2_000_000
