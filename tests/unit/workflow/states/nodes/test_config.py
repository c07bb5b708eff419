"""Reading configs key by key."""

from __future__ import annotations

import pytest

from statewright.errors import WorkflowError
from statewright.workflow.states.language.model import CustomNode
from statewright.workflow.states.language.yaml.nodes import Mark
from statewright.workflow.states.nodes.config import ConfigFault, ConfigReader, raise_errors


def messages(reader: ConfigReader) -> list[str]:
    return [fault.message for fault in reader.faults]


def test_valid_values_are_read() -> None:
    reader = ConfigReader({"t": "x", "f": True, "l": [1], "m": {"a": 1}, "n": None, "one": "a", "two": ["a", "b"]})
    assert (reader.text("t"), reader.flag("f"), reader.items("l"), reader.map("m")) == ("x", True, [1], {"a": 1})
    assert (reader.text("n"), reader.text("absent", "d"), reader.has_key("n"), reader.has_key("absent")) == (
        None,
        "d",
        True,
        False,
    )
    assert (reader.texts("one"), reader.texts("two"), reader.texts("n")) == (("a",), ("a", "b"), ())
    assert reader.anything("absent", 3) == 3
    assert reader.faults == []


def test_all_values_of_the_wrong_type_are_reported() -> None:
    reader = ConfigReader({"t": 1, "f": "yes", "l": {}, "m": [1], "s": [1]})
    assert (reader.text("t"), reader.flag("f"), reader.items("l"), reader.map("m"), reader.texts("s")) == (
        None,
        False,
        [],
        None,
        (),
    )
    assert messages(reader) == [
        "t is a number: 1.",
        "f is 'yes'.",
        "l is a map: {}.",
        "m is a list: [1].",
        "s is a list: [1].",
    ]
    assert reader.faults[0] == ConfigFault(("config", "t"), "t is a number: 1.", "Write a string.")


@pytest.mark.parametrize("text", ["nonsense", "[1]", "[" * 50_000])
def test_a_map_may_be_a_string_with_a_json_object(text: str) -> None:
    assert ConfigReader({"m": '{"a": 1}'}).map("m") == {"a": 1}
    reader = ConfigReader({"m": text})
    assert reader.map("m") is None
    assert len(reader.faults) == 1
    assert len(messages(reader)[0]) < 100


def test_an_unknown_choice_gets_a_suggestion() -> None:
    reader = ConfigReader({"c": "parial"})
    assert reader.choice("c", ("fail", "partial"), "fail") == "fail"
    assert reader.faults[0].suggestion == "Did you mean 'partial'? Known: fail, partial."


def test_a_required_value_of_the_wrong_type_is_one_fault() -> None:
    reader = ConfigReader({"t": 1})
    reader.required("t", reader.text("t"), "a text")
    reader.required("u", reader.text("u"), "a text")
    assert [fault.path for fault in reader.faults] == [("config", "t"), ("config", "u")]


def test_expressions_are_parsed_and_invalid_ones_reported() -> None:
    reader = ConfigReader({"good": "a > 1", "bad": "valid ==", "odd": "[x for x in y]"})
    good = reader.expression("good")
    assert good is not None
    assert good.evaluate({"a": 2}) is True
    assert reader.expression("bad") is None
    assert reader.expression("odd") is not None
    assert [fault.is_error for fault in reader.faults] == [True, False]


def test_an_unsupported_expression_is_an_error_if_it_must_have_a_value() -> None:
    reader = ConfigReader({"script": "lambda: 1"})
    reader.expression("script", must_have_value=True)
    assert [fault.is_error for fault in reader.faults] == [True]


def test_a_template_with_an_open_block_is_an_error() -> None:
    reader = ConfigReader({"t": "{% for a in b %}{{ a }}", "u": "{% if a %}x{% endif %}"})
    assert (reader.template("t") is None, reader.template("u") is None, reader.template("v") is None) == (
        False,
        False,
        True,
    )
    assert [(fault.path, fault.is_error) for fault in reader.faults] == [(("config", "t"), True)]


def test_a_template_above_the_size_limit_is_an_error() -> None:
    reader = ConfigReader({"t": "x" * 1_000_001})
    assert reader.template("t") is None
    assert reader.faults[0].is_error


def test_unknown_keys_are_warnings() -> None:
    reader = ConfigReader({"known": 1, "knwon": 2})
    reader.anything("known")
    reader.finish()
    assert reader.faults == [
        ConfigFault(
            ("config", "knwon"),
            "'knwon' is not a known key, and has no effect.",
            "Did you mean 'known'? Known keys: known.",
            False,
        )
    ]


def test_an_inner_reader_adds_to_the_same_list() -> None:
    reader = ConfigReader({})
    reader.inner({"t": 1}, "rows", 2).text("t")
    assert reader.faults[0].path == ("config", "rows", 2, "t")


def test_errors_are_raised_together_and_warnings_are_not() -> None:
    definition = CustomNode("n", "k", at=Mark(3, 5))
    raise_errors(definition, [ConfigFault(("config", "x"), "odd", "mend", False)])
    faults = [ConfigFault(("config", "rows", 1), "wrong", "mend"), ConfigFault(("config",), "too", "mend")]
    with pytest.raises(WorkflowError, match="Custom node 'n' has 2 problems") as caught:
        raise_errors(definition, faults)
    assert caught.value.problems[0][:3] == ("config.rows[1]", 3, 5)
