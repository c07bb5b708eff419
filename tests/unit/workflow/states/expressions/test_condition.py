"""Conditions of section 2.4: their scope, the conversion of values, and that they never raise."""

from typing import Any

import pytest

from statewright.workflow.states.expressions import holds, make_condition_scope, parse_expression


def check(text: str, result: Any) -> bool:
    return holds(parse_expression(text), result)


@pytest.mark.parametrize(
    ("text", "result", "expected"),
    [
        ("variable > 100", {"variable": 101}, True),
        ("variable > 100", {"variable": 100}, False),
        ("count > 10", {"count": 11}, True),
        ("count > 10 and status == 'active'", {"count": 11, "status": "active"}, True),
        ("count > 10 and status == 'active'", {"count": 11, "status": "off"}, False),
        ("status == 'success'", {"status": "success"}, True),
        ("'result' in keys", {"result": None}, True),
        ("'result' in keys", {"other": 1}, False),
        ("'error' in message.lower()", {"message": "An ERROR came"}, True),
        ("score >= 90", {"score": 90}, True),
        ("error_count == 0 and status == 'complete'", {"error_count": 0, "status": "complete"}, True),
        ("error_count > 0 and error_count < 5", {"error_count": 4}, True),
        ("error_count >= 5", {"error_count": 4}, False),
        ("'email' in type.lower()", {"type": "Email"}, True),
        ("'sms' in type.lower()", {"type": "Email"}, False),
        ("success == True", {"success": True}, True),
        ("success==True", {"success": False}, False),
        ("valid == true", {"valid": True}, True),
        ("validation_passed == true", {"validation_passed": "True"}, True),
        ("requires_approval == True", {"requires_approval": "TRUE"}, True),
        ("be_found == True", {}, False),
        ("action != 'no_change'", {"action": "changed"}, True),
        ("language == 'Node.js' or language == 'Vue.js'", {"language": "Vue.js"}, True),
        ("migration_type == 'Lift and Shift Plus'", {"migration_type": "Lift and Shift"}, False),
        ("len(issues)<=35", {"issues": [1]}, True),
        ("len(issues)<=35", {"issues": "a text that is longer than thirty-five"}, False),
        ("action in ['opened', 'updated', 'reopened']", {"action": "opened"}, True),
        ("has_ws_label == True and priority == 'high'", {"has_ws_label": "true", "priority": "high"}, True),
        ("has_ws_label or 'critical' in label_names", {"has_ws_label": False, "label_names": ["critical"]}, True),
        ("len(target_labels) > 0", {"target_labels": []}, False),
        ("sum > 35", {"sum": 36}, True),
        ("priority == 'high' and count > 5", {"priority": "high", "count": "6"}, True),
        ("x == 1", {"x": 1}, True),
        ("'@' in email and '.' in email", {"email": "a@b.c"}, True),
        ("phone is not None and phone.startswith('555')", {"phone": None}, False),
    ],
)
def test_4_3_common_expressions_are_evaluated(text: str, result: Any, expected: bool):
    assert check(text, result) is expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("True ", True),
        ("15", 15),
        ("-15", -15),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("07", "07"),
        ("None", None),
        ("[1,2]", [1, 2]),
        ("(1,2)", [1, 2]),
        ("{'a': 1}", {"a": 1}),
        ("'quoted'", "quoted"),
        ("yes", "yes"),
        ("", ""),
        ("1 apple", "1 apple"),
        ("2024-01-01", "2024-01-01"),
        ("{1, 2}", "{1, 2}"),
        ("b'x'", "b'x'"),
        ("1j", "1j"),
        ("9" * 5000, "9" * 5000),
        ("[" * 500 + "]" * 500, "[" * 500 + "]" * 500),
        ("1" + " " * 20_000, "1" + " " * 20_000),
        ("__import__('os')", "__import__('os')"),
        (15, 15),
        (None, None),
        (["15"], ["15"]),
        ({"deep": "15"}, {"deep": "15"}),
    ],
)
def test_2_4_strings_in_the_result_are_converted(text: Any, value: Any):
    converted = make_condition_scope({"x": text})["x"]

    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("text", "result", "expected"),
    [
        ("a == '123'", {"a": "123"}, False),
        ("a == 123", {"a": "123"}, True),
        ("ok == 'true'", {"ok": "true"}, False),
        ("ok == 'true'", {"ok": True}, False),
        ("status == 'true'", {"status": "'true'"}, True),
        ("x.lower() == '15'", {"x": "15"}, False),
        ("x == '07'", {"x": "07"}, True),
        ("a['b'] == '15'", {"a": {"b": "15"}}, True),
        ("a.b == '15'", {"a": {"b": "15"}}, True),
        ("x == (1, 2)", {"x": "(1,2)"}, True),
    ],
)
def test_2_4_pitfalls_of_conversion(text: str, result: Any, expected: bool):
    assert check(text, result) is expected


def test_2_4_keys_lists_the_keys_of_the_result_even_if_it_has_a_key_of_that_name():
    assert check("'a' in keys and 'keys' in keys and len(keys) == 2", {"a": 1, "keys": "mine"})
    assert check("keys == ['b', 'a']", {"b": 1, "a": 1})


@pytest.mark.parametrize("result", ["text", "", 5, True, None, ["a", "b"], 1.5])
def test_2_4_a_result_other_than_a_map_defines_no_names(result: Any):
    assert not check("a", result)
    assert not check("len(keys) > 0", result)
    assert check("len(keys) == 0", result)
    assert check("true", result)


@pytest.mark.parametrize(
    ("value", "expected"), [(1, True), ("yes", True), (["a"], True), (0, False), ("", False), ([], False)]
)
def test_2_4_every_true_value_satisfies_a_condition(value: Any, expected: bool):
    assert check("x", {"x": value}) is expected


def test_2_4_a_result_key_shadows_a_function_when_read_but_not_when_called():
    assert check("sum == 40 and sum([1, 2]) == 3", {"sum": 40})
    assert not check("len", {"other": 1})


def test_2_4_contains_works_for_strings_and_lists():
    assert check("message.contains('err')", {"message": "an err"})
    assert not check("message.contains('ok')", {"message": "an err"})
    assert check("tags.contains('a')", {"tags": ["a"]})
    assert check("name.startswith('a') and name.endswith('z')", {"name": "a-z"})


def test_2_4_dots_read_keys():
    assert check("user.name == 'Ann' and user.items == 3", {"user": {"name": "Ann", "items": 3}})
    assert not check("user.role == 'admin'", {"user": {"name": "Ann"}})


@pytest.mark.parametrize(
    "text",
    [
        "user_role == 'admin'",
        "x > 'a'",
        "x.missing()",
        "1 / 0",
        "x ** 9",
        "().__class__",
        "'a' * 99999999999",
        "x[5]",
        "x.y.z",
    ],
)
def test_2_4_a_failed_condition_is_false(text: str):
    assert check(text, {"x": 1}) is False


def test_2_4_an_undefined_name_that_is_not_reached_is_ignored():
    assert check("a == 1 or b", {"a": 1})
    assert not check("a == 2 and b", {"a": 1})


def test_2_4_hostile_values_are_not_evaluated():
    for text in ("__import__('os').system('true')", "{{x}}", "lambda: 1", "[" * 100_000, "'" * 5000):
        assert check("x == y", {"x": text, "y": text})


def test_values_are_converted_only_when_read():
    scope = make_condition_scope({"a": "1", "b": "2"})

    assert scope["a"] == scope["a"] == 1
    assert dict(scope) == {"keys": ["a", "b"], "a": 1}
