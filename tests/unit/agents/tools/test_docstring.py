"""Descriptions in docstrings."""

from __future__ import annotations

from statewright.agents.tools.function import read_docstring


def test_a_missing_docstring_gives_an_empty_description() -> None:
    assert read_docstring(None) == ("", {})


def test_sections_are_not_part_of_the_description() -> None:
    text = """Find a ticket.

    It is looked for everywhere.

    Args:
        key: The key of the ticket,
            such as ABC-1.
        limit (int): How many.

    Returns:
        The ticket.
    """
    docstring = read_docstring(text)
    assert docstring.description == "Find a ticket.\n\nIt is looked for everywhere."
    assert docstring.parameters == {"key": "The key of the ticket, such as ABC-1.", "limit": "How many."}


def test_fields_of_sphinx_are_read() -> None:
    docstring = read_docstring(
        "Find a ticket.\n\n:param key: Its key.\n:param int limit: How many.\n:returns: The ticket."
    )
    assert docstring == ("Find a ticket.", {"key": "Its key.", "limit": "How many."})


def test_other_indentation_and_stars_are_read() -> None:
    docstring = read_docstring("Do it.\n\nArguments:\n  one: First.\n  **more: The rest.\n\nExample:\n  one: two")
    assert docstring.parameters == {"one": "First.", "more": "The rest."}


def test_a_colon_in_the_text_does_not_start_a_section() -> None:
    assert read_docstring("Note this: it works.").description == "Note this: it works."
