"""Typical mistakes in workflow files, each with the line at which it is reported and the expected words.

`MISTAKES` is used by the tests of the check and by those of the JSON Schema of the language.
"""

from __future__ import annotations

import re
from typing import NamedTuple

BASE = """\
enable_summarization_node: false
assistants:
- id: reader
  system_prompt: You read source files.
tools:
- id: lister
  tool: read_file
  tool_args: {path: README.md}
states:
- id: plan
  assistant_id: reader
  task: List the files.
  next:
    state_id: look
- id: look
  assistant_id: reader
  task: Look.
  next:
    condition:
      expression: score == 5
      then: end
      otherwise: plan
"""
TASK = "task: List the files."
NEXT = "  next:\n    state_id: look\n"
WAY = "    condition:\n      expression: score == 5\n      then: end\n      otherwise: plan\n"
PROMPT = "  system_prompt: You read source files.\n"


class Mistake(NamedTuple):
    """A file with one mistake."""

    text: str
    line: int
    words: str
    """A part of the message or the advice."""
    is_warning: bool = False


def wrong(old: str, new: str, line: int, words: str, *, is_warning: bool = False) -> Mistake:
    """Return the base with one change."""
    assert old in BASE, old
    return Mistake(BASE.replace(old, new, 1), line, words, is_warning)


def renamed(old: str, new: str, line: int, words: str) -> Mistake:
    """Return the base with another id of a state, also where it is a target."""
    return Mistake(re.sub(rf"\b{old}\b", new, BASE), line, words)


def mapped(text: str) -> str:
    """Return the base with its states as a map by their ids."""
    head, _, states = text.partition("states:\n")
    lines = (f"  {line[6:]}:" if line.startswith("- id: ") else f"  {line}" for line in states.splitlines())
    return head + "states:\n" + "\n".join(lines) + "\n"


YAML_MISTAKES = {
    "double quote not closed": wrong(TASK, 'task: "List the files.', 12, "the quote that opens here is never closed"),
    "single quote not closed": wrong(TASK, "task: 'List the files.", 12, "Close the quote"),
    "quote closed by the next one": Mistake(
        BASE.replace(TASK, 'task: "List the files.').replace("task: Look.", 'task: "Look."'),
        12,
        "is closed only on line 17",
    ),
    "apostrophe in single quotes": wrong(TASK, "task: 'Don't list.'", 12, "an apostrophe is written twice"),
    "quotes around a part": wrong(TASK, 'task: "List" the files.', 12, "text follows the closing quote"),
    "curly quotes": wrong(TASK, "task: \u201cList: the files\u201d", 12, "Write straight quotes"),
    "tab before a key": wrong("  task: List", "\ttask: List", 12, "Indent with spaces"),
    "tabs inside": wrong("    state_id: look", "\t\tstate_id: look", 14, "Indent with spaces"),
    "spaces that are none": wrong("  task: List", "\u00a0\u00a0task: List", 12, "U+00A0"),
    "no colon": wrong(TASK, "task List the files.", 12, "'task List the files.' has no ': '"),
    "no space after the colon": wrong(TASK, "task:List the files.", 12, "'task: List the files.'"),
    "colon in a text": wrong(TASK, "task: List: the files.", 12, "Put quotes around the text after 'task:'"),
    "colon after an id": wrong("- id: look", "- id: look:", 15, "remove the colon"),
    "key without colon": wrong("- id: look", "- id", 15, "'id' has no ': '"),
    "list without colon": wrong("states:\n", "states\n", 9, "'states' has no ': '"),
    "stray word": wrong("states:\n", "oops\nstates:\n", 9, "'oops' has no ': '"),
    "text that is not indented": wrong(TASK, "task: |\n    List\n  the files", 14, "'the files' has no ': '"),
    "key indented too deep": wrong(NEXT, "    next:\n      state_id: look\n", 13, "indented deeper"),
    "key indented too little": wrong("  task: List", " task: List", 12, "begins in column 2"),
    "item indented too deep": wrong("- id: look\n  assistant_id", "  - id: look\n    assistant_id", 15, "a list item"),
    "two dashes": wrong("- id: look", "- - id: look", 15, "Remove one '- '"),
    "no dash": wrong("- id: look\n", "  id: look\n", 15, "put '- ' before it"),
    "bracket not closed": wrong("{path: README.md}", "{path: README.md", 8, "the '{' that opens here is not closed"),
    "list not closed": wrong("state_id: look", "state_ids: [look, plan", 14, "the '[' that opens here is not closed"),
    "a bracket too many": wrong("{path: README.md}", "{path: README.md}}", 8, "Remove the text after the value"),
    "no comma": wrong("{path: README.md}", "{path: README.md trace: 1}", 8, "Separate with a comma"),
    "percent sign": wrong(TASK, "task: %name", 12, "'%'"),
    "at sign": wrong(TASK, "task: @name", 12, "'@'"),
    "star": wrong(TASK, "task: *bold* text", 12, "Put quotes around text that begins with '*'"),
    "alias of nothing": wrong(TASK, "task: *bold", 12, "Put '&bold' before the intended value"),
    "exclamation mark": wrong("score == 5", "!done", 20, "begins with '!'"),
    "backslash": wrong(TASK, 'task: "C:\\path"', 12, "Double the backslash"),
    "placeholder without quotes": wrong(TASK, "task: {{project}} files", 12, "Put it in quotes"),
    "merge conflict": wrong("- id: look", "<<<<<<< HEAD\n- id: look", 15, "Resolve the conflict"),
    "key twice": wrong(TASK, f"{TASK}\n  task: Again.", 13, "on line 12 and on line 13"),
    "second document": Mistake(BASE + "---\nname: x\n", 23, "Keep only one workflow in a file"),
    "empty file": Mistake("", 1, "The file is empty"),
}
"""Mistakes that the YAML parser or the conversion to plain values reports, before a JSON Schema could."""

FORM_MISTAKES = {
    "next left empty": wrong(NEXT, "  next:\n  state_id: look\n", 13, "Indent 'state_id' deeper than 'next'"),
    "condition left empty": wrong(WAY, WAY.replace("      ", "    "), 19, "deeper than 'condition'"),
    "target left empty": wrong("state_id: look", "state_id:", 14, "'state_id' without a value"),
    "no next": wrong(NEXT, "", 10, "has no 'next'"),
    "misspelt next": wrong("  next:\n    state_id", "  nxt:\n    state_id", 13, "Write it as 'next'"),
    "next in capitals": wrong("  next:\n    state_id", "  Next:\n    state_id", 13, "Write it as 'next'"),
    "next as a text": wrong(NEXT, "  next: look\n", 13, "Write next: {state_id: look}."),
    "next as a list": wrong(NEXT, "  next:\n  - state_id: look\n", 14, "Write next: {state_id: the_state}."),
    "no space after a colon in braces": wrong(NEXT, "  next: {state_id:look}\n", 13, "Put a space after the colon"),
    "misspelt assistant_id": wrong("assistant_id: reader\n  task: L", "asistant_id: reader\n  task: L", 11, "Write it"),
    "camel case": wrong("assistant_id: reader\n  task: L", "assistantId: reader\n  task: L", 11, "'assistant_id'"),
    "another word": wrong("assistant_id: reader\n  task: L", "assistant: reader\n  task: L", 11, "'assistant_id'"),
    "no key for the work": wrong("  assistant_id: reader\n  task: L", "  task: L", 10, "none of the keys"),
    "two do the work": wrong("  task: List", "  tool_id: lister\n  task: List", 12, "cannot be combined"),
    "two transitions": wrong("state_id: look", "state_id: look\n    state_ids: [look]", 15, "cannot be combined"),
    "no id": wrong("- id: look\n  assistant_id", "- assistant_id", 15, "This state has no 'id'"),
    "number as an id": wrong("id: plan", "id: 5", 10, "Put it in quotes: '5'."),
    "yes as an id": wrong("id: plan", "id: yes", 10, "Put it in quotes: 'yes'."),
    "number as a target": wrong("state_id: look", "state_id: 2", 14, "Put it in quotes: '2'."),
    "list as a target": wrong("state_id: look", "state_id: [look]", 14, "state_ids"),
    "targets as a text": wrong("state_id: look", "state_ids: look, plan", 14, "Write it as a list: [look, plan]"),
    "no targets": wrong("state_id: look", "state_ids: []", 14, "empty list"),
    "target twice": wrong("state_id: look", "state_ids: [look, look]", 14, "occurs twice"),
    "iter_key alone": wrong("state_id: look", "iter_key: files", 14, "Add 'state_id'"),
    "iter_key with a condition": wrong(
        "    condition:", "    iter_key: files\n    condition:", 20, "Split it into two"
    ),
    "flat condition": wrong(
        WAY, "    condition: score > 5\n    then: end\n    else: plan\n", 19, 'condition: {expression: "score > 5"'
    ),
    "no otherwise": wrong("      otherwise: plan\n", "", 20, "Add 'otherwise'"),
    "else": wrong("otherwise: plan", "else: plan", 22, "Write it as 'otherwise'"),
    "no expression": wrong("      expression: score == 5\n", "", 20, "Add 'expression'"),
    "boolean as an expression": wrong("score == 5", "true", 20, "Put it in quotes: 'true'."),
    "cases as a map": wrong(
        WAY,
        "    switch:\n      cases:\n        condition: x\n        state_id: end\n      default: end\n",
        21,
        "Put '- ' before 'condition'",
    ),
    "no default": wrong(WAY, "    switch:\n      cases: [{condition: x, state_id: end}]\n", 20, "Add 'default'"),
    "states as a map": Mistake(mapped(BASE), 10, "'- id: plan' in place of 'plan:'"),
    "states as a text": wrong(BASE[BASE.index("states:") :], "states: plan\n", 9, "Write a list"),
    "assistants as a map": wrong("- id: reader", "  id: reader", 3, "Put '- ' before 'id'"),
    "misspelt states": wrong("states:\n", "state:\n", 9, "Write it as 'states'"),
    "no states": Mistake(BASE[: BASE.index("states:")], 1, "Add 'states'"),
    "empty states": wrong(BASE[BASE.index("states:") :], "states: []\n", 9, "at least one"),
    "tool without a function": wrong("  tool: read_file\n", "", 6, "Add 'tool'"),
    "assistant without a prompt": wrong(PROMPT, "", 3, "none of the keys"),
    "tool of an assistant as a text": wrong(PROMPT, PROMPT + "  tools: [read_file]\n", 5, "'- name: the_tool'"),
    "task as a list": wrong(TASK, "task: [a, b]", 12, "Write a string"),
    "schema as a map": wrong("task: Look.", "output_schema: {a: 1}", 17, "output_schema: |"),
    "arguments as a list": wrong("{path: README.md}", "[README.md]", 8, "must be a map"),
    "word for true": wrong(TASK, "interrupt_before: 'yes'", 12, "Write it without quotes"),
    "text as a number": wrong("states:\n", "recursion_limit: '5'\nstates:\n", 9, "Write it without quotes"),
    "number out of range": wrong("states:\n", "max_concurrency: 0\nstates:\n", 9, "from 1 to 100"),
    "temperature as a word": wrong(PROMPT, PROMPT + "  temperature: hot\n", 5, "a number from 0 to 2"),
    "temperature out of range": wrong(PROMPT, PROMPT + "  temperature: 7\n", 5, "a number from 0 to 2"),
    "empty expression": wrong("score == 5", "''", 20, "not empty"),
    "empty iter_key": wrong("state_id: look", "state_id: look\n    iter_key: ''", 15, "empty 'iter_key'"),
    "deprecated key and the new one": wrong(
        TASK, "interrupt_before: true\n  wait_for_user_confirmation: true", 13, "both are present"
    ),
    "autonomous": Mistake("mode: Autonomous\n" + BASE, 1, "not supported"),
    "end as an id": renamed("look", "end", 15, "reserved for the end"),
    "reserved start": renamed("plan", "__start__", 10, "reserved for the engine"),
    "reserved end": renamed("plan", "__end__", 10, "reserved for the engine"),
    "reserved stop": renamed("plan", "__stop__", 10, "reserved for the engine"),
    "end of the engine as a target": wrong("then: end", "then: __end__", 21, "Did you mean 'end'?"),
    "server that cannot be reached": wrong(PROMPT, PROMPT + "  mcp_servers: [{name: m}]\n", 5, "Add config"),
    "misspelt assistants": wrong("assistants:\n", "asistants:\n", 2, "Write it as 'assistants'"),
    "states in a tool": wrong("states:\n", "  states:\n", 9, "it is written here"),
    "kind of node that is not supported": wrong(
        "tools:\n", "custom_nodes:\n- id: c\n  custom_node_id: supervisor_node\ntools:\n", 7, "not supported"
    ),
}
"""Mistakes of form, most of which a JSON Schema can express."""

MEANING_MISTAKES = {
    "= for ==": wrong("score == 5", "score = 5", 20, "Did you mean 'score == 5'?"),
    "=== for ==": wrong("score == 5", "score === 5", 20, "Did you mean 'score == 5'?"),
    "= twice, and one in a text": wrong(
        "score == 5", "\"score = 5 and name = 'x=y'\"", 20, "Did you mean \"score == 5 and name == 'x=y'\"?"
    ),
    "&& for and": wrong("score == 5", "score == 5 && ok", 20, "Did you mean 'score == 5 and ok'?"),
    "|| for or": wrong("score == 5", "score == 5 || ok", 20, "Did you mean 'score == 5 or ok'?"),
    "! for not": wrong("score == 5", "'!ok'", 20, "Did you mean 'not ok'?"),
    "words for ==": wrong("score == 5", "score equals 5", 20, "Expressions look like those of Python"),
    "quote in an expression not closed": wrong("score == 5", "score == \"5'", 20, "Close the quote"),
    "unknown assistant": wrong("assistant_id: reader\n  task: L", "assistant_id: raeder\n  task: L", 11, "'reader'?"),
    "unknown tool": wrong("assistant_id: reader\n  task: L", "tool_id: lstr\n  task: L", 11, "Did you mean 'lister'?"),
    "tool as an assistant": wrong(
        "assistant_id: reader\n  task: L", "assistant_id: lister\n  task: L", 11, "'tool_id'"
    ),
    "unknown state": wrong("state_id: look", "state_id: lok", 14, "Did you mean 'look'?"),
    "comma after a target": wrong("state_id: look", "state_id: look,", 14, "Did you mean 'look'?"),
    "end in capitals": wrong("then: end", "then: END", 21, "Did you mean 'end'?"),
    "unknown kind of node": wrong(
        "tools:\n", "custom_nodes:\n- id: c\n  custom_node_id: transform_nod\ntools:\n", 7, "'transform_node'?"
    ),
    "two states with one id": Mistake(
        BASE.replace("- id: look", "- id: plan").replace("state_id: look", "state_id: end"), 15, "another id"
    ),
    "two tools with one id": wrong("states:\n", "- id: lister\n  tool: x\nstates:\n", 9, "another id"),
    "ids that the engine cannot tell apart": Mistake(
        BASE.replace("id: plan", "id: 'a:b'")
        .replace("id: look", "id: a\N{MODIFIER LETTER COLON}b")
        .replace("otherwise: plan", "otherwise: end"),
        15,
        "cannot be distinguished from 'a:b'",
    ),
    "block of a template not closed": wrong(TASK, "task: '{% if x %}List.'", 12, "template"),
    "schema with a reference out of it": wrong(
        "task: Look.",
        """output_schema: '{"type": "object", "properties": {"a": {"$ref": "file:///x"}}}'""",
        17,
        "outside the schema",
    ),
    "misspelt key that may be missing": wrong(
        TASK, "interupt_before: true", 12, "Did you mean 'interrupt_before'?", is_warning=True
    ),
    "misspelt key of a policy": wrong(
        "states:\n", "retry_policy:\n  max_attempt: 5\nstates:\n", 10, "Did you mean 'max_attempts'?", is_warning=True
    ),
    "unknown function": wrong("score == 5", "foo(score)", 20, "is always false at run time: foo()", is_warning=True),
    "braces in an expression": wrong("score == 5", '"{{score}} == 5"', 20, "without braces", is_warning=True),
    "state that nothing leads to": wrong("state_id: look", "state_id: end", 15, "cannot be reached", is_warning=True),
    "no way to the end": wrong("then: end", "then: look", 10, "cannot be reached from", is_warning=True),
    "condition and target": wrong(
        "    condition:", "    state_id: end\n    condition:", 19, "ignored", is_warning=True
    ),
    "switch without cases": wrong(WAY, "    switch: {cases: [], default: end}\n", 19, "no cases", is_warning=True),
    "deprecated key": wrong(TASK, "wait_for_user_confirmation: true", 12, "deprecated", is_warning=True),
}
"""Mistakes of meaning: references, expressions, templates, the shape of the graph."""

MISTAKES = {**YAML_MISTAKES, **FORM_MISTAKES, **MEANING_MISTAKES}
