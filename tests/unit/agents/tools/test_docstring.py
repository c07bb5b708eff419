"""Descriptions in docstrings."""

from __future__ import annotations

from statewright.agents.tools.function import read_docstring


def test_a_missing_docstring_gives_an_empty_description() -> None:
    assert read_docstring(None) == ("", {})


def test_sections_are_no_part_of_the_description() -> None:
    text = """Find a ticket.

    It is looked for everywhere.

    Args:
        key: The key of the ticket,
            such as ABC-1.
        limit (int): How many.

    Returns:
        The ticket.
    """
    found = read_docstring(text)
    assert found.description == "Find a ticket.\n\nIt is looked for everywhere."
    assert found.parameters == {"key": "The key of the ticket, such as ABC-1.", "limit": "How many."}


def test_fields_of_sphinx_are_read() -> None:
    found = read_docstring("Find a ticket.\n\n:param key: Its key.\n:param int limit: How many.\n:returns: The ticket.")
    assert found == ("Find a ticket.", {"key": "Its key.", "limit": "How many."})


def test_other_indentation_and_stars_are_read() -> None:
    found = read_docstring("Do it.\n\nArguments:\n  one: First.\n  **more: The rest.\n\nExample:\n  one: two")
    assert found.parameters == {"one": "First.", "more": "The rest."}


def test_a_colon_in_the_text_is_no_section() -> None:
    assert read_docstring("Note this: it works.").description == "Note this: it works."
