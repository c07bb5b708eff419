"""The states language in whole runs: decisions about open points (head), 1.5, 2.1, 2.3 and 2.4."""

from typing import Any

import pytest

from statewright.errors import InvalidConfig, RoutingError, StatewrightError, WorkflowError
from statewright.models import ScriptedModel
from statewright.workflow.states import load_workflow

Outputs = dict[str, Any]


def document(states: str, extra: str = "") -> str:
    """A document with these states, each performed by the assistant `a`."""
    states = states.replace("next:", "assistant_id: a, next:")
    return f"{extra}\nassistants: [{{id: a, system_prompt: p}}]\nstates:\n{states}"


def run(driver: Any, states: str, outs: Outputs, message: Any = None, *, extra: str = "", **options: Any) -> Any:
    app = load_workflow(document(states, extra)).compile(script=outs, **options)
    return driver.invoke(app, {"input": message})


def names(result: Any) -> str:
    return " ".join(visit["state"] for visit in result["visits"])


def prompts(result: Any, state: str) -> list[str]:
    return [visit["prompt"] for visit in result["visits"] if visit["state"] == state]


ITEMS = """
- {id: l, next: {state_id: p, iter_key: .}}
- {id: p, task: 'P {{task}}', next: {state_id: end}}
"""
CHOICE = """
- {id: s, next: {condition: {expression: "%s", then: yes_s, otherwise: no_s}}}
- {id: yes_s, next: {state_id: end}}
- {id: no_s, next: {state_id: end}}
"""
SWITCH = """
- {id: s, next: {switch: {cases: [{condition: "%s", state_id: one}, {condition: "%s", state_id: two}], default: other}}}
- {id: one, next: {state_id: end}}
- {id: two, next: {state_id: end}}
- {id: other, next: {state_id: end}}
"""
ONE = "- {id: s, task: '%s', next: {state_id: end}}"


def chosen_state(driver: Any, expression: str, output: str) -> str:
    outs = {"s": output, "yes_s": "y", "no_s": "n"}
    return names(run(driver, CHOICE % expression, outs)).removeprefix("s ")


# -- 2.1: parsing outputs


@pytest.mark.parametrize(
    ("output", "items"),
    [
        ('{"a": true}', [{"a": True}]),
        ("{'a': True}", [{"a": True}]),
        ("[1,2]", [1, 2]),
        ('"str"', ["str"]),
        ("123", [123]),
        ("1.5", [1.5]),
        ("true", [True]),
        ("True", [True]),
        ("null", [None]),
        ("None", [None]),
        ("(1,2)", [1, 2]),
        ("{1,2}", ["{1,2}"]),
        ('b"x"', ['b"x"']),
        ('Look:\n```json\n{"a": [1]}\n```\nDone.', [{"a": [1]}]),
        ('Look:\n~~~json\n{"a": [1]}\n~~~', [{"a": [1]}]),
        ('Look:\n```\n{"a": 1}\n```', [{"a": 1}]),
        ('It is {"a": 1}, I think.', [{"a": 1}]),
        ('First {"a": 1}, then {"b": 2}.', [{"a": 1}]),
        ('It is {"a": {"b": {"c": 1}}}, I think.', [{"a": {"b": {"c": 1}}}]),
        ('They are ["x", "y"], I think.', ["x", "y"]),
        ('{"a": NaN}', [{"a": None}]),
        ('{"a": 1}{"b": 2}', [{"a": 1}]),
        ("only words", ["only words"]),
    ],
)
def test_2_1_an_output_is_parsed_as_json_a_literal_fenced_or_embedded_in_prose(output: str, items: list[Any]) -> None:
    result = load_workflow(document(ITEMS)).compile(script={"l": output, "p": "ok"}).invoke({})
    assert [visit["item"] for visit in result["visits"][1:]] == items


def test_2_1_json_precedes_literals(driver: Any) -> None:
    result = run(driver, ITEMS, {"l": '["\\u0041"]', "p": "ok"})
    assert result["visits"][1]["item"] == "A"


@pytest.mark.parametrize("output", ["[" * 5000 + "]" * 5000, '["' + "x" * 3_000_000 + '"]', "9" * 10_000])
def test_2_1_an_output_too_deep_or_too_long_to_parse_is_text(output: str) -> None:
    result = load_workflow(document(ITEMS)).compile(script={"l": output, "p": "ok"}).invoke({})
    assert [visit["item"] for visit in result["visits"][1:]] == [output]


# -- 2.2: the initial context


@pytest.mark.parametrize(
    ("message", "context"),
    [
        ('{"u": 1}', {"u": 1}),
        ({"u": 1}, {"u": 1}),
        ('Please do {"u": 1}.', {"u": 1}),
        ("just words", {}),
        ('["a", {"b": 1}]', {}),
        (None, {}),
    ],
)
def test_2_2_an_input_map_initializes_the_context(driver: Any, message: Any, context: dict[str, Any]) -> None:
    assert run(driver, ONE % "t", {"s": "ok"}, message)["context"] == context


def test_2_2_input_is_added_to_the_history_and_files_to_the_context(driver: Any) -> None:
    app = load_workflow(document(ONE % "t")).compile(script={"s": "ok"})
    result = driver.invoke(app, {"input": "words", "files": ["a.txt", "b.txt"]})
    assert [(message.role, message.text) for message in result["messages"]] == [("user", "words"), ("assistant", "ok")]
    assert result["context"] == {"file_names": ["a.txt", "b.txt"]}


# -- 2.3: templates


def test_2_3_1_templates_in_tasks_are_resolved_unless_disabled(driver: Any) -> None:
    states = """
- {id: s, task: 'A {{u}}', next: {state_id: e}}
- {id: e, task: 'B {{u}}', resolve_dynamic_values_in_prompt: false, next: {state_id: end}}
"""
    result = run(driver, states, {"s": "1", "e": "2"}, {"u": 1})
    assert [visit["prompt"] for visit in result["visits"]] == ["A 1", "B {{u}}"]


@pytest.mark.parametrize(
    ("task", "prompt"),
    [
        ("{{my-key}}", "dashed"),
        ("{{a.b}}", "whole"),
        ("{{d.items}}", "[1, 2]"),
        ('{{d.items[1]}} {{d["items"]}}', "2 [1, 2]"),
        ("{{missing}} {{u}} {{a.c.d}}", "{{missing}} 1 {{a.c.d}}"),
        ("{{u} {{u}}", "{{u} 1"),
        ("{{t}} {{f}} {{n}}", "true false null"),
        ("{{d}}", '{"items": [1, 2], "ü": "é"}'),
        ('{{d.items | join}} {{d.items|length}} {{word|upper}} {{none|default("-")}}', "12 2 WORD -"),
        ("{{sly}}", "{{u}} {% for x in y %}"),
        ("{% if u == 1 %}one{% else %}other{% endif %}", "one"),
    ],
)
def test_2_3_2_to_2_3_5_placeholders(task: str, prompt: str) -> None:
    values = {
        "u": 1, "my-key": "dashed", "a.b": "whole", "a": {"b": 0}, "d": {"items": [1, 2], "ü": "é"}, "word": "word",
        "t": True, "f": False, "n": None, "sly": "{{u}} {% for x in y %}",
    }  # fmt: skip
    states = f"- id: s\n  task: |-\n    {task}\n  assistant_id: a\n  next: {{state_id: end}}"
    text = f"assistants: [{{id: a, system_prompt: p}}]\nstates:\n{states}"
    (visit,) = load_workflow(text).compile(script={"s": "ok"}).invoke({"input": values})["visits"]
    assert visit["prompt"] == prompt


def test_2_3_a_template_within_a_value_is_not_rendered(driver: Any) -> None:
    states = "- {id: s, next: {state_id: e}}\n- {id: e, task: '{{text}}', next: {state_id: end}}"
    hostile = '{"text": "{{ u.__class__ }} {{u}} {% if u %}{% endif %}", "u": 5}'
    result = run(driver, states, {"s": hostile, "e": "ok"})
    assert prompts(result, "e") == ["{{ u.__class__ }} {{u}} {% if u %}{% endif %}"]


def test_2_3_task_is_the_input_in_the_first_state_and_then_the_previous_raw_output(driver: Any) -> None:
    states = """
- {id: s, task: 'S {{task}}', next: {state_id: e}}
- {id: e, task: 'E {{task}}', next: {state_id: end}}
"""
    result = run(driver, states, {"s": '{"a":  1}', "e": "ok"}, "the input")
    assert [visit["prompt"] for visit in result["visits"]] == ["S the input", 'E {"a":  1}']


def test_2_3_a_context_key_named_task_wins_outside_iterations(driver: Any) -> None:
    states = """
- {id: s, task: 'S {{task}}', next: {state_id: l}}
- {id: l, next: {state_id: p, iter_key: xs}}
- {id: p, task: 'P {{task}}', next: {state_id: m}}
- {id: m, task: 'M {{task}}', next: {state_id: end}}
"""
    outs = {"s": "1", "l": '{"xs": [7]}', "p": "ok", "m": "ok"}
    result = run(driver, states, outs, {"task": "mine"})
    assert [prompts(result, state) for state in "spm"] == [["S mine"], ["P 7"], ["M mine"]]


def test_2_3_in_an_iteration_task_is_the_key_of_the_item_or_the_item(driver: Any) -> None:
    states = """
- {id: l, next: {state_id: p, iter_key: .}}
- {id: p, task: 'P {{task}}', next: {state_id: q, iter_key: .}}
- {id: q, task: 'Q {{task}}', next: {state_id: end}}
"""
    result = run(driver, states, {"l": '[{"task": "wash"}, {"x": 1}]', "p": '{"task": "other"}', "q": "ok"})
    assert prompts(result, "p") == ["P wash", 'P {"x": 1}']
    assert prompts(result, "q") == ["Q wash", 'Q {"x": 1}']


# -- 2.4: conditions and switch


@pytest.mark.parametrize(
    ("expression", "output", "target"),
    [
        ("count > 10", '{"count": "15"}', "yes_s"),
        ("count > 999", '{"count": "1e3"}', "yes_s"),
        ("count is None", '{"count": "None"}', "yes_s"),
        ("len(count) == 2", '{"count": "[1,2]"}', "yes_s"),
        ("len(count) == 2 and count[0] == 1", '{"count": "(1,2)"}', "yes_s"),
        ("ok", '{"ok": "FALSE"}', "no_s"),
        ("ok == true", '{"ok": "True "}', "yes_s"),
        ("ok == 'yes'", '{"ok": "yes"}', "yes_s"),
        ("n == '07'", '{"n": "07"}', "yes_s"),
        ("a == '123'", '{"a": "123"}', "no_s"),
        ("ok == 'true'", '{"ok": "true"}', "no_s"),
        ("x.lower() == '5'", '{"x": "5"}', "no_s"),
        ("a['b'] == '5'", '{"a": {"b": "5"}}', "yes_s"),
        ("a.b == '5'", '{"a": {"b": "5"}}', "yes_s"),
        ("v == null", '{"v": null}', "yes_s"),
        ("'result' in keys", '{"result": 1}', "yes_s"),
        ("'keys' in keys and len(keys) == 1", '{"keys": []}', "yes_s"),
        ("sum > 35", '{"sum": 36}', "yes_s"),
        ("sum([sum, 1]) == 37", '{"sum": 36}', "yes_s"),
        ("words.contains('b')", '{"words": "abc"}', "yes_s"),
        ("words.contains('b')", '{"words": ["a", "b"]}', "yes_s"),
        ("words.contains('d')", '{"words": "abc"}', "no_s"),
        ("n", '{"n": 1}', "yes_s"),
        ("n", '{"n": []}', "no_s"),
        ("a == 1 or b", '{"a": 1}', "yes_s"),
        ("b or a == 1", '{"a": 1}', "no_s"),
        ("user == 'Al'", '{"other": 1}', "no_s"),
        ("1 / 0 == 1", "{}", "no_s"),
        ("1 == 1", "only words", "yes_s"),
        ("len(keys) == 0", "[1, 2]", "yes_s"),
    ],
)
def test_2_4_conditions(expression: str, output: str, target: str, driver: Any) -> None:
    assert chosen_state(driver, expression, output) == target


def test_2_4_the_context_is_not_in_scope(driver: Any) -> None:
    outs = {"s": "{}", "yes_s": "y", "no_s": "n"}
    assert names(run(driver, CHOICE % "role == 'admin'", outs, {"role": "admin"})) == "s no_s"


@pytest.mark.parametrize(
    ("first", "second", "output", "target"),
    [
        ("n > 1", "n > 0", '{"n": 2}', "one"),
        ("n > 1", "n > 0", '{"n": 1}', "two"),
        ("n > 1", "n > 0", '{"n": 0}', "other"),
        ("missing.lower() == 'a'", "n == 1", '{"n": 1}', "two"),
        ("n > 1", "n > 0", "no map", "other"),
        ("1 / 0", "true", "no map", "two"),
    ],
)
def test_2_4_the_first_true_case_decides_and_a_failing_case_is_false(
    driver: Any, first: str, second: str, output: str, target: str
) -> None:
    outs = {"s": output, "one": "1", "two": "2", "other": "3"}
    assert names(run(driver, SWITCH % (first, second), outs)) == f"s {target}"


def test_2_4_after_a_join_a_condition_sees_the_result_of_its_own_state(driver: Any) -> None:
    states = """
- {id: r, next: {state_ids: [b, c]}}
- {id: b, next: {state_id: j}}
- {id: c, next: {state_id: j}}
- {id: j, next: {condition: {expression: 'n == 3', then: yes_s, otherwise: no_s}}}
- {id: yes_s, next: {state_id: end}}
- {id: no_s, next: {state_id: end}}
"""
    outs = {"r": "1", "b": '{"n": 1}', "c": '{"n": 2}', "j": '{"n": "3"}', "yes_s": "y", "no_s": "n"}
    assert names(run(driver, states, outs)) == "r b c j yes_s"


# -- 1.5.1 and decisions about open points


def test_1_5_1_a_condition_wins_over_state_id_with_a_warning(driver: Any) -> None:
    states = (CHOICE % "n == 1").replace("next: {condition", "next: {state_id: no_s, condition")
    workflow = load_workflow(document(states))
    assert any("state_id" in problem.message for problem in workflow.problems)
    result = driver.invoke(workflow.compile(script={"s": '{"n": 1}', "yes_s": "y", "no_s": "n"}), {})
    assert names(result) == "s yes_s"


def test_1_5_1_end_in_state_ids_ends_that_branch(driver: Any) -> None:
    states = "- {id: r, next: {state_ids: [end, b]}}\n- {id: b, next: {state_id: end}}"
    assert names(run(driver, states, {"r": "r", "b": "b"})) == "r b"


@pytest.mark.parametrize(
    "transition",
    [
        "{state_ids: [s, s]}",
        "{state_ids: []}",
        "{}",
        "{state_id: s, iter_key: ''}",
        "{iter_key: x}",
        "{state_ids: [s], iter_key: x}",
        "{state_id: s, state_ids: [s]}",
        "{iter_key: x, condition: {expression: 'a', then: s, otherwise: end}}",
        "{condition: {expression: 'valid ==', then: s, otherwise: end}}",
    ],
)
def test_1_5_1_invalid_transitions_are_refused(transition: str) -> None:
    with pytest.raises(WorkflowError):
        load_workflow(document(f"- {{id: s, next: {transition}}}"))


def test_1_5_1_a_switch_without_cases_warns_and_takes_the_default(driver: Any) -> None:
    states = "- {id: s, next: {switch: {cases: [], default: e}}}\n- {id: e, next: {state_id: end}}"
    workflow = load_workflow(document(states))
    assert any("cases" in problem.message for problem in workflow.problems)
    assert names(driver.invoke(workflow.compile(script={"s": "1", "e": "2"}), {})) == "s e"


def test_head_mode_autonomous_is_refused_with_an_explanation() -> None:
    with pytest.raises(WorkflowError, match="Autonomous"):
        load_workflow(document(ONE % "t", "mode: Autonomous"))


def test_head_max_items_limits_fan_out(driver: Any) -> None:
    outs = {"l": "[1,2,3]", "p": "ok"}
    assert names(run(driver, ITEMS, outs, max_items=3)) == "l p p p"
    with pytest.raises(RoutingError, match=r"'l' returned 3 items .* at most 2 .*max_items"):
        run(driver, ITEMS, outs, max_items=2)


def test_head_more_than_a_thousand_items_are_refused_by_default() -> None:
    app = load_workflow(document(ITEMS)).compile(script={"l": str([0] * 1001), "p": "ok"})
    with pytest.raises(RoutingError, match=r"1001 items .* at most 1000"):
        app.invoke({})


def test_head_the_defaults_are_max_concurrency_10_and_recursion_limit_50() -> None:
    definition = load_workflow(document(ONE % "t")).definition
    assert (definition.max_concurrency, definition.recursion_limit) == (10, 50)


def test_head_a_scripted_state_needs_no_tool_and_no_model(driver: Any) -> None:
    states = "- {id: s, tool_id: t, next: {state_id: e}}\n- {id: e, assistant_id: a, next: {state_id: end}}"
    text = f"assistants: [{{id: a, assistant_id: elsewhere}}]\ntools: [{{id: t, tool: nowhere}}]\nstates:\n{states}"
    result = driver.invoke(load_workflow(text).compile(script={"s": '{"x": 1}', "e": "done"}), {})
    assert (result["context"], result["result"]) == ({"x": 1}, "done")


def test_head_a_missing_model_is_reported_when_it_is_called(driver: Any) -> None:
    app = load_workflow(document("- {id: s, next: {state_id: e}}\n- {id: e, next: {state_id: end}}")).compile(
        script={"s": "1"}
    )
    with pytest.raises(StatewrightError, match="'e' needs a model"):
        driver.invoke(app, {})


def test_head_a_script_may_only_name_existing_states() -> None:
    with pytest.raises(InvalidConfig, match="'q'"):
        load_workflow(document(ONE % "t")).compile(script={"q": "1"})


def test_1_5_a_model_gets_a_dash_in_place_of_a_missing_task(driver: Any) -> None:
    model = ScriptedModel(["ok"])
    app = load_workflow(document("- {id: s, next: {state_id: end}}", "enable_summarization_node: false"))
    driver.invoke(app.compile(models=model), {})
    assert [message.text for message in model.requests[0].messages] == ["-"]


def test_4_1_reserved_markers_in_an_output_are_plain_values(driver: Any) -> None:
    states = "- {id: s, next: {state_id: e}}\n- {id: e, next: {state_id: end}}"
    outs = {"s": '{"u": "__DELETE_KEY__", "__keep_only_new__": true}', "e": "ok"}
    assert run(driver, states, outs, {"u": 1, "k": 2})["context"] == {
        "u": "__DELETE_KEY__",
        "k": 2,
        "__keep_only_new__": True,
    }
