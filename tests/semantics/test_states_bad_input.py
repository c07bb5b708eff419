"""Malformed workflow files: any text is parsed with work proportional to its length, and its problems are explained.

STATEWRIGHT_FUZZ_EXAMPLES is the number of texts; STATEWRIGHT_FUZZ_SEED selects them. Without a seed the texts are
always the same.
"""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.work import FULL, check_linear, spend_at_most

from statewright.errors import Problem
from statewright.workflow.states.language.json_schema import language_schema
from statewright.workflow.states.language.parse import ParsedWorkflow, parse_workflow
from statewright.workflow.states.language.yaml import read as reader

EXAMPLES = int(os.environ.get("STATEWRIGHT_FUZZ_EXAMPLES", "1000" if FULL else "300"))
SEED = os.environ.get("STATEWRIGHT_FUZZ_SEED")

VALIDATOR = jsonschema_rs.Draft202012Validator(language_schema())
TEMPLATES = sorted((Path(__file__).parents[3] / "shared" / "templates" / "states").glob("*.yaml"))

SMALL = (
    """\
name: small
execution_config:
  recursion_limit: 10
  retry_policy: {max_attempts: 3, initial_interval: 1}
  assistants:
    - &a {id: a, system_prompt: "Say {{x}}", temperature: 0.5, tools: [{name: t}]}
    - {<<: *a, id: b}
  tools:
    - {id: t, tool: f, tool_args: {path: /tmp}, mcp_server: {name: m, config: {command: x}}}
  states:
    - id: one
      assistant_id: a
      task: |
        Do it.
      next: {state_id: two, iter_key: items}
    - id: two
      tool_id: t
      next: {state_id: three, iter_key: items}
    - id: three
      assistant_id: b
      output_schema: '{"ok": true}'
      next: {condition: {expression: "ok == True", then: four, otherwise: end}}
    - id: four
      assistant_id: a
      next: {state_ids: [five, end], store_in_context: no, clear_context_store: keep_current}
    - id: five
      assistant_id: a
      next:
        switch:
          cases:
            - {condition: "len(items) > 1 and 'x' in keys", state_id: one}
          default: end
""",
    """\
custom_nodes: [{id: n, custom_node_id: transform_node, config: {mappings: []}}]
states: [{id: s, custom_node_id: n, next: {state_id: end, output_key: k}}]
""",
    '{"assistants": [{"id": "a", "assistant_id": "x"}], "states": [{"id": "s", "assistant_id": "a", "next": '
    '{"state_id": "end"}}]}',
)

_CUES = (
    *(":", ",", "-", "{", "}", "[", "]", "'", '"', "|", ">", "&a", "*a", "!!python/x", "!x", "#", "%", "~", "yes", "1"),
    *("-1", ".inf", "1e3", "end", "null", "{{x}}", '"\\e[1m\\n"', " ", "\n", "- ", "<<: *a", "---\n", "\t", "\x00"),
    *("\ud800", "\ufeff", "\u2028", "? ", "id: ", "next: ", "state_id: ", "state_ids: ", "iter_key: ", "condition: "),
    *("switch: ", "cases: []", "else: ", "mode: ", "Autonomous", "execution_config: ", "(" * 30, "x" * 300, "9" * 50),
)


def _spliced(text: str, where: int, length: int, insert: str) -> str:
    position = where % (len(text) + 1)
    return text[:position] + insert + text[position + length :]


def _swapped(text: str, line: int, other: int) -> str:
    lines = text.splitlines(keepends=True) or [text]
    first, second = line % len(lines), other % len(lines)
    lines[first], lines[second] = lines[second], lines[first]
    return "".join(lines)


def _indented(text: str, line: int, by: int) -> str:
    lines = text.splitlines(keepends=True) or [text]
    index = line % len(lines)
    lines[index] = " " * by + lines[index] if by >= 0 else lines[index][-by:]
    return "".join(lines)


_POSITION = st.integers(0, 100_000)
_CHANGE: st.SearchStrategy[Callable[[str], str]] = st.one_of(
    st.builds(
        lambda where, length, insert: lambda text: _spliced(text, where, length, insert),
        _POSITION,
        st.integers(0, 12),
        st.sampled_from(_CUES) | st.text(max_size=5),
    ),
    st.builds(lambda line, other: lambda text: _swapped(text, line, other), _POSITION, _POSITION),
    st.builds(lambda line, by: lambda text: _indented(text, line, by), _POSITION, st.integers(-4, 4)),
)


def mutations(texts: Iterable[str]) -> st.SearchStrategy[str]:
    """The texts with random changes."""

    def changed(text: str, changes: list[Callable[[str], str]]) -> str:
        for change in changes:
            text = change(text)
        return text

    return st.builds(changed, st.sampled_from(list(texts)), st.lists(_CHANGE, min_size=1, max_size=6))


_KEYS = st.sampled_from(
    (
        *("states", "assistants", "tools", "custom_nodes", "id", "next", "state_id", "state_ids", "iter_key", "then"),
        *("condition", "switch", "cases", "default", "expression", "otherwise", "assistant_id", "tool_id", "task"),
        *("retry_policy", "mode", "config", "execution_config", "name", "system_prompt", "keep_history", "x"),
    )
)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | _KEYS
JSON = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5), max_leaves=30
)


def fuzz(share: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Settings for a share of all examples."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        tuned = settings(
            max_examples=max(1, int(EXAMPLES * share)),
            derandomize=SEED is None,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )(test)
        return seed(int(SEED))(tuned) if SEED is not None else tuned

    return decorate


def check(text: str | bytes) -> ParsedWorkflow:
    """Parse a text, and check all reported problems."""
    parsed = parse_workflow(text)
    assert (parsed.definition is None) is bool(parsed.problems)
    lines = _lines(text)
    for problem in (*parsed.problems, *parsed.warnings):
        _check_problem(problem, lines)
    return parsed


def _lines(text: str | bytes) -> list[str]:
    if isinstance(text, bytes):
        wide = text.startswith((b"\xff\xfe", b"\xfe\xff"))
        text = text.decode("utf-16" if wide else "utf-8", errors="replace")
    return re.split("\r\n|[\n\r\x85\u2028\u2029]", text.removeprefix("\ufeff"))


def _check_problem(problem: Problem, lines: list[str]) -> None:
    assert 1 <= problem.line <= len(lines), problem
    assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1, problem
    shown = f"{problem.message} {problem.suggestion}"
    assert problem.message
    assert problem.suggestion or len(problem.message) > 40, problem
    assert len(shown) < 2_000
    assert shown.isprintable(), problem
    assert not re.search(r"Traceback|<class|object at 0x|\b[A-Z]\w+(Error|Exception|Event)\b|NoneType", problem.message)
    assert problem.path.isprintable()


@fuzz(0.35)
@given(mutations(SMALL))
def test_changed_small_files_load_only_if_they_are_valid(text: str) -> None:
    parsed = check(text)
    # The schema does not allow unknown keys, which are only warnings when parsing.
    if parsed.definition is not None and not any("which is ignored" in warning.message for warning in parsed.warnings):
        root = reader.read_document(text).root
        assert root is not None
        assert VALIDATOR.is_valid(root.to_plain())


@fuzz(0.2)
@given(st.text(max_size=200) | st.binary(max_size=200) | st.lists(st.sampled_from(_CUES), max_size=40).map("".join))
def test_problems_of_random_texts_and_bytes_are_explained(text: str | bytes) -> None:
    check(text)


@fuzz(0.25)
@given(JSON)
def test_problems_of_random_values_are_explained(value: Any) -> None:
    check(yaml.safe_dump(value, allow_unicode=True))


@pytest.mark.skipif(not TEMPLATES, reason="shared/templates/states is not available")
@fuzz(0.2)
@given(mutations([file.read_text() for file in TEMPLATES]))
def test_problems_of_changed_real_files_are_explained(text: str) -> None:
    check(text)


@fuzz(0.1)
@given(mutations(SMALL[1:]))
def test_problems_are_explained_without_libyaml(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_get_loader", lambda: yaml.SafeLoader)
        check(text)


@pytest.mark.parametrize("text", SMALL)
def test_the_small_files_have_no_problems(text: str) -> None:
    assert check(text).problems == ()
    assert check(text.encode("utf-16")).problems == ()


HEAD = "assistants: [{id: a, system_prompt: p}]\nstates:\n"
SWITCH = HEAD + "- id: s\n  assistant_id: a\n  next:\n    switch:\n      default: end\n      cases:\n"


def states(count: int, form: Callable[[int], str]) -> str:
    """A workflow with a number of states."""
    return HEAD + "".join(f"- {{{form(i)}}}\n" for i in range(count))


BOMBS: dict[str, Callable[[int], str]] = {
    "wrong names everywhere": lambda n: states(
        n, lambda i: f"id: s{i}, assistant_id: x{i}, nxt: 1, next: {{state_id: t{i}}}"
    ),
    "one id for all states": lambda n: states(n, lambda i: "id: s, assistant_id: a, next: {state_id: end}"),
    "unknown keys": lambda n: "states:\n- id: a\n" + "".join(f"  k{i}: 1\n" for i in range(n)),
    "a repeated key": lambda n: "a: 1\n" * n,
    "all keys twice": lambda n: "".join(f"k{i}: 1\n" for i in range(n)) * 2,
    "keys twice at every level": lambda n: "- {a: 1, a: 2, b: {c: 1, c: 2, d: {e: 1, e: 2}}}\n" * n,
    "keys that are not text": lambda n: "".join(f"{i}: 1\n" for i in range(n)),
    "anchors": lambda n: "".join(f"- &a{i} x\n" for i in range(n)),
    "aliases of nothing": lambda n: "".join(f"- *a{i}\n" for i in range(n)),
    "tags": lambda n: "".join(f"- !t{i} x\n" for i in range(n)),
    "one merge of many": lambda n: "a: &a {k: 1}\nb: {<<: [" + "*a, " * n + "]}\n",
    "templates": lambda n: "- {{a}}\n" * n,
    "a long template": lambda n: (
        HEAD + "- {id: s, assistant_id: a, task: '" + "{{a}} " * n + "', next: {state_id: end}}"
    ),
    "a chain": lambda n: states(
        n, lambda i: f"id: s{i}, assistant_id: a, next: {{state_id: s{i + 1}, iter_key: k{i}}}"
    ),
    "a ring": lambda n: states(n, lambda i: f"id: s{i}, assistant_id: a, next: {{state_id: s{(i + 1) % n}}}"),
    "a net": lambda n: states(
        n, lambda i: f"id: s{i}, assistant_id: a, next: {{state_ids: [s{7 * i % n}, s{(i + 1) % n}, s{n - i - 1}]}}"
    ),
    "unreachable states": lambda n: states(n, lambda i: f"id: s{i}, assistant_id: a, next: {{state_id: end}}"),
    "expressions": lambda n: SWITCH + f"      - {{condition: '{' and '.join(['a'] * 9)}', state_id: end}}\n" * n,
    "wrong expressions": lambda n: SWITCH + "      - {condition: 'a ==', state_id: end}\n" * n,
    "a line with an error": lambda n: "a: [" + "1, " * n + "\n]: {",
    "merges": lambda n: "a: &a {" + ", ".join(f"k{i}: 1" for i in range(40)) + "}\nb: [" + "{<<: *a}, " * n + "]",
    "colons": lambda n: "a: " * n,
    "newlines": lambda n: "\n" * n,
    "brackets": lambda n: "[" * n,
    "comments": lambda n: "# x\n" * n,
    "a text over many lines": lambda n: "a: " + "x\n  " * n,
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.sampled(3)
def test_parsing_takes_work_in_proportion_to_the_text(name: str) -> None:
    check(BOMBS[name](100))
    check_linear(lambda n: lambda: parse_workflow(BOMBS[name](n)), 100)


LARGE = {
    "a repeated key": "a: 1\n" * 30_000,
    "laughs": "a: &a [x, x]\n" + "".join(f"k{i}: &a [*a, *a, *a, *a]\n" for i in range(40)),
    "merges": "a: &a {" + ", ".join(f"k{i}: 1" for i in range(1000)) + "}\nb: [" + "{<<: *a}, " * 1000 + "]",
    "brackets": "[" * 1_000_000,
    "braces": "{" * 49 + "a" * 1000,
    "colons": "a: " * 200_000,
    "newlines": "\n" * 4_000_000,
    "a long word": "x" * 4_000_000 + ": 1",
    "a long expression": SWITCH + f"      - {{condition: '{' and '.join(['a'] * 90)}', state_id: end}}\n",
    "parentheses": HEAD + "- {id: s, assistant_id: a, next: {condition: {expression: '" + "(" * 4000 + "', "
    "then: end, otherwise: end}}}",
}


@pytest.mark.parametrize("name", LARGE)
def test_large_texts_are_parsed_in_bounded_time(name: str) -> None:
    with spend_at_most():
        check(LARGE[name])
