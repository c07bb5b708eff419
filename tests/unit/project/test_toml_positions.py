"""Lines of keys in a project file."""

from __future__ import annotations

import tomllib

from statewright.project.toml_positions import find_lines, format_path

TEXT = '''
defaults.max_items = 3
[assistants."a b"]  # a comment
model = "x"
system_prompt = """
[no.table]
key = 1
"""
tools = [
  "a",
  ["]"]
]
[assistants."a[\\"]".x]
y = { z = 1 } # [c]
[[odd]]
last = 1
'''


def test_each_key_has_the_line_where_its_statement_begins() -> None:
    assert tomllib.loads(TEXT)
    assert find_lines(TEXT) == {
        ("defaults",): 2,
        ("defaults", "max_items"): 2,
        ("assistants", "a b"): 3,
        ("assistants", "a b", "model"): 4,
        ("assistants", "a b", "system_prompt"): 5,
        ("assistants", "a b", "tools"): 9,
        ("assistants", 'a["]', "x"): 13,
        ("assistants", 'a["]', "x", "y"): 14,
        ("assistants", 'a["]', "x", "y", "z"): 14,
        ("odd",): 15,
        ("odd", "last"): 16,
    }


def test_only_toml_line_breaks_end_a_line() -> None:
    assert find_lines("a = 1 # \u2028\r\nb = 'x\u2028y'\r\n[c]\r\nd = 1") == {
        ("a",): 1,
        ("b",): 2,
        ("c",): 3,
        ("c", "d"): 4,
    }


def test_paths_are_formatted_as_toml_keys() -> None:
    assert format_path(("assistants", "a b", "tools", 0)) == 'assistants."a b".tools.0'
    assert tomllib.loads(f"{format_path(('Prüfer', ''))} = 1") == {"Prüfer": {"": 1}}
