"""Where things stand in a project file."""

from __future__ import annotations

from statewright.project.toml_positions import find_lines, format_path

TEXT = '''
defaults.max_items = 3
[assistants."a b"]  # a comment
model = "x"
system_prompt = """
[no.table]
key = 1
"""
[[odd]]
'''


def test_each_key_has_its_line() -> None:
    lines = find_lines(TEXT)
    assert lines["defaults",] == lines["defaults", "max_items"] == 2
    assert (lines["assistants", "a b"], lines["assistants", "a b", "model"]) == (3, 4)
    assert ("no", "table") not in lines
    assert lines["odd",] == 9


def test_a_way_is_written_as_toml_writes_it() -> None:
    assert format_path(("assistants", "a b", "tools")) == 'assistants."a b".tools'
    assert format_path(("tools", 0)) == "tools.0"
