"""Tool names that every provider accepts."""

from hypothesis import given
from hypothesis import strategies as st

from statewright.agents.mcp.tools import fit_names
from statewright.agents.tools import check_name


def test_valid_names_are_joined_unchanged() -> None:
    assert fit_names([("files", "read_file")]) == {("files", "read_file"): "files-read_file"}


def test_invalid_characters_are_replaced() -> None:
    assert fit_names([("7 files", "read.file")]) == {("7 files", "read.file"): "_7_files-read_file"}


def test_colliding_names_get_stable_suffixes() -> None:
    names = fit_names([("a-b", "c"), ("a", "b-c"), ("a", "d")])
    assert names["a", "d"] == "a-d"
    assert names["a-b", "c"] != names["a", "b-c"]
    assert all(name.startswith("a-b-c-") for key, name in names.items() if key != ("a", "d"))
    assert fit_names([("a", "b-c"), ("a-b", "c")])["a-b", "c"] == names["a-b", "c"]


@given(st.sets(st.tuples(st.text("ab-. ü0", max_size=70), st.text("ab-. ü0", max_size=70)), max_size=30))
def test_each_tool_has_a_unique_valid_name(keys: set[tuple[str, str]]) -> None:
    names = fit_names(keys)
    assert set(names) == keys
    assert len(set(names.values())) == len(keys)
    assert all(check_name(name) for name in names.values())
