"""The states language, 2.6: items, chains of states, isolation, merging, and the end of a chain."""

from typing import Any

import pytest

from statewright.errors import RoutingError, WorkflowError
from statewright.models import ScriptedModel
from statewright.workflow.states import load_workflow

Outputs = dict[str, Any]


def document(states: str, extra: str = "") -> str:
    states = states.replace("next:", "assistant_id: a, next:")
    return f"{extra}\nassistants: [{{id: a, system_prompt: p}}]\nstates:\n{states}"


def run(driver: Any, states: str, outs: Outputs, message: Any = None) -> Any:
    return driver.invoke(load_workflow(document(states)).compile(script=outs), {"input": message})


def names(result: Any) -> str:
    return " ".join(visit["state"] for visit in result["visits"])


def prompts(result: Any, state: str) -> list[str]:
    return [visit["prompt"] for visit in result["visits"] if visit["state"] == state]


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


def model_prompts(states: str, outs: Outputs, message: Any = None, extra: str = "") -> dict[str, list[list[str]]]:
    """The messages of the requests to the model by state, in the order of the calls."""

    def answer(request: Any) -> str:
        output = outs[request.metadata["state"]]
        return output[str(request.metadata["call"].item)] if isinstance(output, dict) else output

    model = ScriptedModel(answer)
    text = document(states, f"enable_summarization_node: false\nmax_concurrency: 1\n{extra}")
    load_workflow(text).compile(models=model).invoke({"input": message})
    sent: dict[str, list[list[str]]] = {}
    for request in model.requests:
        sent.setdefault(request.metadata["state"], []).append([message.text for message in request.messages])
    return sent


ONE_STAGE = """
- {id: l, next: {state_id: p, iter_key: %s}}
- {id: p, task: 'P {{task}}', next: {state_id: m}}
- {id: m, next: {state_id: end}}
"""

# -- the items


@pytest.mark.parametrize(
    ("key", "output", "items"),
    [
        (".", '["a", "b"]', ["a", "b"]),
        ("unused", '["a", "b"]', ["a", "b"]),
        ("_", '["a", "b"]', ["a", "b"]),
        ("xs", '{"xs": ["a", "b"], "n": 2}', ["a", "b"]),
        ("xs", '{"xs": 5}', [5]),
        ("xs", '{"xs": null}', [None]),
        ("xs", '{"xs": {"a": 1}}', [{"a": 1}]),
        (".", '{"a": 1}', [{"a": 1}]),
        ("xs", "only words", ["only words"]),
        ("xs", "7", [7]),
        ("xs", "null", [None]),
        ("/d/xs", '{"d": {"xs": [1, 2]}}', [1, 2]),
        ("/d/0/xs", '{"d": [{"xs": [1, 2]}]}', [1, 2]),
        ("/d", '{"d": {"xs": 1}}', [{"xs": 1}]),
        ("/a~1b/m~0n", '{"a/b": {"m~n": [1]}}', [1]),
        ("/d/xs", '{"d": "{\\"xs\\": [1, 2]}"}', [1, 2]),
        ("/d/", '{"d": "[1, 2]"}', [1, 2]),
        ("/d/", '{"d": {"": [3]}}', [3]),
        (".", '[0, "", null, {}, false, []]', [0, "", None, {}, False, []]),
    ],
)
def test_2_6_iter_key_selects_the_items_of_an_output(key: str, output: str, items: list[Any]) -> None:
    outs = {"l": output, "p": "ok", "m": "ok"}
    result = load_workflow(document(ONE_STAGE % f"'{key}'")).compile(script=outs).invoke({})
    assert [visit["item"] for visit in result["visits"] if visit["state"] == "p"] == items
    assert names(result) == " ".join(["l", *["p"] * len(items), "m"])


def test_2_6_a_missing_key_is_an_error_that_lists_the_existing_keys(driver: Any) -> None:
    with pytest.raises(RoutingError, match=r"no key 'xs'.*ys, zs"):
        run(driver, ONE_STAGE % "xs", {"l": '{"ys": [1], "zs": 2}', "p": "ok", "m": "ok"})


def test_2_6_a_json_pointer_to_a_missing_value_is_an_error(driver: Any) -> None:
    with pytest.raises(RoutingError, match=r"/d/xs.*does not exist"):
        run(driver, ONE_STAGE % "/d/xs", {"l": '{"d": {"ys": [1]}}', "p": "ok", "m": "ok"})


def test_2_6_iter_key_selects_from_the_result_not_from_the_context(driver: Any) -> None:
    result = run(driver, ONE_STAGE % "xs", {"l": "words", "p": "ok", "m": "ok"}, {"xs": [1, 2]})
    assert prompts(result, "p") == ["P words"]


# -- the context of a branch


def test_2_6_the_keys_of_an_item_are_added_to_the_context_of_its_branch(driver: Any) -> None:
    states = ONE_STAGE.replace("P {{task}}", "P {{n}} {{u}} {{v}}")
    outs = {"l": '{"xs": [{"n": 1, "u": 5}, {"n": 2}], "v": 9}', "p": "ok", "m": "ok"}
    result = run(driver, states % "xs", outs, {"u": 0})
    assert prompts(result, "p") == ["P 1 5 9", "P 2 0 9"]
    assert result["context"] == {"u": 5, "v": 9, "xs": [{"n": 1, "u": 5}, {"n": 2}], "n": 2}


def test_2_6_the_context_of_a_branch_includes_the_writes_of_the_previous_state(driver: Any) -> None:
    states = ONE_STAGE.replace("P {{task}}", "P {{raw}}").replace("iter_key: %s", "iter_key: xs, output_key: raw")
    outs = {"l": '{"xs": [1]}', "p": "ok", "m": "ok"}
    assert prompts(run(driver, states, outs), "p") == [f"P {outs['l']}"]


def test_2_6_include_in_iterator_context_limits_the_context_of_the_whole_chain(driver: Any) -> None:
    states = """
- {id: l, next: {state_id: p, iter_key: xs, include_in_iterator_context: [u]}}
- {id: p, task: 'P {{u}} {{v}} {{xs}} {{n}}', next: {state_id: q, iter_key: xs}}
- {id: q, task: 'Q {{u}} {{v}} {{n}} {{w}}', next: {state_id: m}}
- {id: m, task: 'M {{u}} {{v}} {{n}} {{w}}', next: {state_id: end}}
"""
    outs = {"l": '{"xs": [{"n": 1}, {"n": 2}]}', "p": '{"w": $n}', "q": "ok", "m": "ok"}
    result = run(driver, states, outs, {"u": 1, "v": 2})
    assert prompts(result, "p") == ["P 1 {{v}} {{xs}} 1", "P 1 {{v}} {{xs}} 2"]
    assert prompts(result, "q") == ["Q 1 {{v}} 1 1", "Q 1 {{v}} 2 2"]
    assert prompts(result, "m") == ["M 1 2 2 2"]


def test_2_6_the_model_gets_the_item_at_every_stage_of_the_chain() -> None:
    states = """
- {id: l, next: {state_id: p, iter_key: .}}
- {id: p, task: P, next: {state_id: q, iter_key: .}}
- {id: q, task: Q, next: {state_id: m}}
- {id: m, task: M, next: {state_id: end}}
"""
    sent = model_prompts(states, {"l": '["x", {"n": 1}]', "p": "p", "q": "q", "m": "m"})
    assert [call[-1] for call in sent["p"]] == ["P\n\nCurrent task: x", 'P\n\nCurrent task: {"n": 1}']
    assert [call[-1] for call in sent["q"]] == ["Q\n\nCurrent task: x", 'Q\n\nCurrent task: {"n": 1}']
    assert [call[-1] for call in sent["m"]] == ["M"]


# -- chains

CHAIN = """
- {id: l, next: {state_id: p, iter_key: xs}}
- {id: p, task: 'P {{n}} {{w}} {{k}}', next: {state_id: q, iter_key: xs%s}}
- {id: q, task: 'Q {{n}} {{w}} {{k}} {{task}}', next: {state_id: r, iter_key: xs}}
- {id: r, task: 'R {{n}} {{w}} {{k}} {{z}}', next: {state_id: m}}
- {id: m, task: 'M {{n}} {{w}} {{k}} {{z}}', next: {state_id: end}}
"""
CHAIN_OUTS = {
    "l": '{"xs": [{"n": 1}, {"n": 2}], "k": 0}',
    "p": {'{"n": 1}': '{"w": 1, "k": "p1"}', '{"n": 2}': '{"w": 2}'},
    "q": {'{"n": 1}': '{"z": 1}', '{"n": 2}': '{"z": 2}'},
    "r": "r",
    "m": "m",
}


def test_2_6_branches_are_isolated_for_the_whole_chain(driver: Any) -> None:
    result = run(driver, CHAIN % "", CHAIN_OUTS)
    assert names(result) == "l p p q q r r m"
    assert prompts(result, "p") == ["P 1 {{w}} 0", "P 2 {{w}} 0"]
    assert [prompt[:8] for prompt in prompts(result, "q")] == ["Q 1 1 p1", "Q 2 2 0 "]
    assert prompts(result, "r") == ["R 1 1 p1 1", "R 2 2 0 2"]


def test_2_6_values_of_the_last_iteration_win_and_other_values_stay(driver: Any) -> None:
    result = run(driver, CHAIN % "", CHAIN_OUTS)
    assert prompts(result, "m") == ["M 2 2 p1 2"]


def test_2_6_an_early_stage_of_a_later_item_wins_over_later_stages_of_earlier_items(driver: Any) -> None:
    outs = {**CHAIN_OUTS, "p": '{"k": "p$n"}', "r": {'{"n": 1}': '{"k": "r1"}', '{"n": 2}': "nothing"}}
    assert run(driver, CHAIN % "", outs)["context"]["k"] == "p2"


def test_2_6_messages_of_branches_follow_earlier_messages_in_item_order(driver: Any) -> None:
    outs = {"l": '{"xs": ["a", "b"]}', "p": "p-$item", "q": "q-$item", "r": "r-$item", "m": "m"}
    messages = texts(run(driver, CHAIN % "", outs, "hi"))
    assert messages == ["hi", outs["l"], "p-a", "q-a", "r-a", "p-b", "q-b", "r-b", "m"]


def test_2_6_a_branch_does_not_see_messages_of_other_branches() -> None:
    outs: Outputs = {"l": '{"xs": ["a", "b"]}', "p": {"a": "pa", "b": "pb"}, "q": {"a": "qa", "b": "qb"}}
    sent = model_prompts(CHAIN % "", {**outs, "r": "r", "m": "m"}, "hi")
    assert [call[:-1] for call in sent["r"]] == [["hi", outs["l"], "pa", "qa"], ["hi", outs["l"], "pb", "qb"]]


def test_2_6_override_task_makes_the_raw_output_the_item_of_the_next_stage(driver: Any) -> None:
    result = run(driver, CHAIN % ", override_task: true", {**CHAIN_OUTS, "p": '{"w":  $n}', "q": "q"})
    assert [prompt.rpartition("}} ")[2] for prompt in prompts(result, "q")] == [
        'Q 1 1 0 {"w":  1}',
        'Q 2 2 0 {"w":  2}',
    ]
    assert [visit["item"] for visit in result["visits"] if visit["state"] == "r"] == ['{"w":  1}', '{"w":  2}']


def test_2_6_only_the_first_stage_writes_the_keys_of_an_item(driver: Any) -> None:
    outs = {**CHAIN_OUTS, "p": '{"n": "new"}', "q": "q", "r": "r"}
    result = run(driver, CHAIN % "", outs)
    assert [prompt[:7] for prompt in prompts(result, "q")] == ["Q new {", "Q new {"]
    assert result["context"]["n"] == "new"


def test_2_6_a_different_iter_key_within_a_chain_is_an_error(driver: Any) -> None:
    states = (CHAIN % "").replace("state_id: r, iter_key: xs", "state_id: r, iter_key: ys")
    with pytest.raises(WorkflowError, match="finish_iteration"):
        load_workflow(document(states))


@pytest.mark.parametrize("flag", ["clear_context_store: true", "clear_context_store: keep_current"])
def test_2_6_clear_context_store_applies_to_its_branch(driver: Any, flag: str) -> None:
    result = run(driver, CHAIN % f", {flag}", CHAIN_OUTS)
    begins = ["Q {{n}} 1 p1", "Q {{n}} 2 {{"] if "keep" in flag else ["Q {{n}} {{w}}"] * 2
    assert [prompt[: len(begin)] for prompt, begin in zip(prompts(result, "q"), begins, strict=True)] == begins


def test_2_6_keep_current_in_branches_keeps_their_new_values_after_the_merge(driver: Any) -> None:
    states = """
- {id: l, next: {state_id: p, iter_key: xs}}
- {id: p, next: {state_id: m, clear_context_store: keep_current}}
- {id: m, next: {state_id: end}}
"""
    outs = {"l": '{"xs": ["a", "b"]}', "p": {"a": '{"ra": 1}', "b": '{"rb": 2}'}, "m": "m"}
    assert run(driver, states, outs, {"u": 1})["context"] == {"ra": 1, "rb": 2}


def test_2_6_the_merge_keeps_the_messages_of_all_iterations(driver: Any) -> None:
    states = """
- {id: l, next: {state_id: p, iter_key: xs}}
- {id: p, next: {state_id: m, clear_prior_messages: true}}
- {id: m, next: {state_id: end}}
"""
    messages = texts(run(driver, states, {"l": '{"xs": ["a", "b"]}', "p": "p-$item", "m": "m"}, "hi"))
    assert messages[-3:] == ["p-a", "p-b", "m"]


# -- the end of a chain


def test_2_6_an_empty_list_skips_the_chain(driver: Any) -> None:
    result = run(driver, CHAIN % "", {**CHAIN_OUTS, "l": '{"xs": []}'})
    assert names(result) == "l m"


@pytest.mark.parametrize(
    ("transition", "visits"),
    [
        ("condition: {expression: 'true', then: m, otherwise: o}", "l o"),
        ("switch: {cases: [{condition: 'true', state_id: m}], default: o}", "l o"),
        ("state_ids: [m, o]", "l m o"),
        ("state_id: end", "l"),
        ("state_id: end, iter_key: xs", "l"),
    ],
)
def test_2_6_after_an_empty_list_all_conditions_at_the_exit_are_false(
    driver: Any, transition: str, visits: str
) -> None:
    states = f"""
- {{id: l, next: {{state_id: p, iter_key: xs}}}}
- {{id: p, next: {{state_id: q, iter_key: xs}}}}
- {{id: q, next: {{{transition}}}}}
- {{id: m, next: {{state_id: end}}}}
- {{id: o, next: {{state_id: end}}}}
"""
    assert names(run(driver, states, {"l": '{"xs": []}', "p": "p", "q": "q", "m": "m", "o": "o"})) == visits


def test_2_6_end_within_a_chain_ends_its_branches(driver: Any) -> None:
    states = """
- {id: l, next: {state_id: p, iter_key: xs}}
- {id: p, next: {state_id: end, iter_key: xs}}
"""
    result = run(driver, states, {"l": '{"xs": ["a", "b"]}', "p": '{"k": "$item"}'})
    assert (names(result), result["context"]) == ("l p p", {"xs": ["a", "b"], "k": "b"})


EXIT = """
- {{id: l, next: {{state_id: p, iter_key: xs}}}}
- {{id: p, next: {{{transition}}}}}
- {{id: m, task: 'M {{{{k}}}} {{{{a}}}}', next: {{state_id: {after}}}}}
- {{id: o, task: 'O {{{{k}}}} {{{{a}}}}', next: {{state_id: {after}}}}}
- {{id: z, task: 'Z {{{{k}}}} {{{{m}}}} {{{{o}}}}', next: {{state_id: end}}}}
"""
EXIT_OUTS: Outputs = {
    "l": '{"xs": ["a", "b", "c"]}',
    "p": {"a": '{"k": "a", "a": 1}', "b": '{"k": "b", "go": true}', "c": '{"k": "c"}'},
    "m": '{"k": "m", "m": 1}',
    "o": '{"k": "o", "o": 1}',
    "z": "z",
}
CONDITION = "condition: {expression: go, then: m, otherwise: o}"


def test_2_6_a_condition_at_the_end_is_evaluated_per_branch_and_targets_run_once(driver: Any) -> None:
    result = run(driver, EXIT.format(transition=CONDITION, after="end"), EXIT_OUTS)
    assert names(result) == "l p p p m o"
    assert [prompts(result, state) for state in "mo"] == [["M c 1"], ["O c 1"]]
    assert [visit["item"] for visit in result["visits"][-2:]] == [None, None]


def test_2_6_a_target_that_no_branch_chooses_does_not_run(driver: Any) -> None:
    result = run(driver, EXIT.format(transition=CONDITION, after="z"), {**EXIT_OUTS, "p": '{"k": "$item"}'})
    assert names(result) == "l p p p o z"


def test_2_6_the_chosen_targets_join(driver: Any) -> None:
    result = run(driver, EXIT.format(transition=CONDITION, after="z"), EXIT_OUTS)
    assert names(result) == "l p p p m o z"
    assert prompts(result, "z") == ["Z o 1 1"]


def test_2_6_a_switch_at_the_end_is_evaluated_per_branch(driver: Any) -> None:
    transition = (
        "switch: {cases: [{condition: k == 'a', state_id: m}, {condition: k == 'b', state_id: end}], default: o}"
    )
    result = run(driver, EXIT.format(transition=transition, after="end"), EXIT_OUTS)
    assert names(result) == "l p p p m o"
    assert [prompts(result, state) for state in "mo"] == [["M c 1"], ["O c 1"]]


def test_2_6_state_ids_at_the_end_each_run_once_after_the_merge(driver: Any) -> None:
    result = run(driver, EXIT.format(transition="state_ids: [m, o]", after="z"), EXIT_OUTS)
    assert names(result) == "l p p p m o z"
    assert [prompts(result, state) for state in "moz"] == [["M c 1"], ["O c 1"], ["Z o 1 1"]]


def test_2_6_merged_results_can_be_split_again(driver: Any) -> None:
    states = """
- {id: l, next: {state_id: p, iter_key: xs}}
- {id: p, next: {state_id: l2}}
- {id: l2, next: {state_id: q, iter_key: xs}}
- {id: q, task: 'Q {{task}} {{k}}', next: {state_id: m}}
- {id: m, next: {condition: {expression: again, then: l, otherwise: end}}}
"""
    outs = {
        "l": '{"xs": [1, 2]}', "p": '{"k": $item}', "l2": '{"xs": [3, 4]}', "q": "q",
        "m": ['{"again": true}', '{"again": false}'],
    }  # fmt: skip
    result = run(driver, states, outs)
    assert names(result) == "l p p l2 q q m l p p l2 q q m"
    assert prompts(result, "q") == ["Q 3 2", "Q 4 2"] * 2


# -- iterations within iterations

NESTED = """
- {id: l, next: {state_id: p, iter_key: xs}}
- {id: p, finish_iteration: true, task: 'P {{task}}', next: {state_id: q, iter_key: ys}}
- {id: q, task: 'Q {{task}} {{k}} {{n}} {{y}}', next: {state_id: q2, iter_key: ys}}
- {id: q2, task: 'Q2 {{task}} {{k}} {{q}}', next: {state_id: m}}
- {id: m, task: 'M {{k}} {{q}}', next: {state_id: end}}
"""


def nested(first: str, second: str) -> Outputs:
    outs: Outputs = {"l": '{"xs": ["a", "b"]}', "p": {"a": first, "b": second}}
    return {**outs, "q": '{"q": "$item"}', "q2": "q2-$item", "m": "m"}


def test_2_6_finish_iteration_splits_each_branch_again(driver: Any) -> None:
    result = run(driver, NESTED, nested('{"ys": [1, 2], "k": "a"}', '{"ys": [3], "k": "b"}'))
    assert names(result) == "l p p q q q q2 q2 q2 m"
    assert [prompt.split()[1:3] for prompt in prompts(result, "q")] == [["1", "a"], ["2", "a"], ["3", "b"]]
    assert prompts(result, "q2") == ["Q2 1 a 1", "Q2 2 a 2", "Q2 3 b 3"]
    assert prompts(result, "m") == ["M b 3"]
    assert texts(result)[2:6] == ['{"q": "1"}', "q2-1", '{"q": "2"}', "q2-2"]


def test_2_6_keys_of_inner_items_are_not_added_to_the_context(driver: Any) -> None:
    result = run(driver, NESTED, {**nested('{"ys": [{"y": 1}]}', '{"ys": []}'), "q": "q", "q2": "q2"})
    assert prompts(result, "q") == ['Q {"y": 1} {{k}} {{n}} {{y}}']
    assert "y" not in result["context"]


@pytest.mark.parametrize(
    ("first", "second", "visits", "last"),
    [
        ('{"ys": [], "k": "a"}', '{"ys": [], "k": "b"}', "l p p m", "M b {{q}}"),
        ('{"ys": [], "k": "a"}', '{"ys": [3], "k": "b"}', "l p p q q2 m", "M b 3"),
        ('{"ys": [1], "k": "a"}', '{"ys": [], "k": "b"}', "l p p q q2 m", "M b 1"),
    ],
)
def test_2_6_a_branch_without_inner_items_waits_for_the_others(
    driver: Any, first: str, second: str, visits: str, last: str
) -> None:
    result = run(driver, NESTED, nested(first, second))
    assert (names(result), prompts(result, "m")) == (visits, [last])


def test_2_6_the_merge_of_a_thousand_branches_is_in_item_order() -> None:
    outs = {"l": str(list(range(1000))), "p": '{"k": $item}', "m": "m"}
    result = load_workflow(document(ONE_STAGE % ".")).compile(script=outs).invoke({})
    assert result["context"] == {"k": 999}
    assert prompts(result, "p") == [f"P {number}" for number in range(1000)]


def test_2_6_the_result_is_independent_of_timing() -> None:
    import asyncio

    class Slow:
        """Answers later items sooner."""

        async def complete(self, request: Any) -> Any:
            state, call = request.metadata["state"], request.metadata["call"]
            if state == "p":
                await asyncio.sleep((3 - call.item) / 200)
            outputs = {"l": '{"xs": [1, 2, 3]}', "p": f'{{"k": {call.item}}}', "m": "m"}
            return await ScriptedModel([outputs[state]]).complete(request)

    text = document(ONE_STAGE % "xs", "enable_summarization_node: false")
    result = load_workflow(text).compile(models=Slow()).invoke({"input": "hi"})
    assert result["context"]["k"] == 3
    assert texts(result) == ["hi", '{"xs": [1, 2, 3]}', '{"k": 1}', '{"k": 2}', '{"k": 3}', "m"]


def test_2_6_a_failing_branch_fails_the_run(driver: Any) -> None:
    def answer(request: Any) -> Any:
        state, call = request.metadata["state"], request.metadata["call"]
        return ValueError("no") if call.item == 2 else {"l": "[1, 2, 3]"}.get(state, state)

    model = ScriptedModel(answer)
    app = load_workflow(document(ONE_STAGE % ".", "enable_summarization_node: false")).compile(models=model)
    with pytest.raises(ValueError, match="no"):
        driver.invoke(app, {})
    assert "m" not in {request.metadata["state"] for request in model.requests}


def test_1_1_max_concurrency_limits_concurrent_branches() -> None:
    import asyncio

    class Counting:
        def __init__(self, limit: int) -> None:
            self.limit = limit
            self.running = self.peak = 0

        async def complete(self, request: Any) -> Any:
            self.running += 1
            self.peak = max(self.peak, self.running)
            while request.metadata["state"] == "p" and self.peak < self.limit:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.001)
            self.running -= 1
            outputs = {"l": str(list(range(9)))}
            return await ScriptedModel([outputs.get(request.metadata["state"], "ok")]).complete(request)

    for limit in (1, 3):
        counting = Counting(limit)
        text = document(ONE_STAGE % ".", f"enable_summarization_node: false\nmax_concurrency: {limit}")
        asyncio.run(load_workflow(text).compile(models=counting).ainvoke({}))
        assert counting.peak == limit
