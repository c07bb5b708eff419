"""Patterns and filters of paths."""

from __future__ import annotations

import pytest
from tests.work import spend_at_most

from statewright.errors import ExpressionError
from statewright.workflow.states.nodes.patterns import compile_filter, compile_glob, compile_pattern, is_regex

PATHS = ["README.md", "a.py", "a.test.ts", "docs/b.md", "docs/x/c.md", "src/a.py", "src/b/a.py", "w/z.tsx", "x[1].md"]


def match_pattern(pattern: str) -> list[str]:
    return [path for path in PATHS if compile_pattern(pattern)(path)]


def match_filter(*lines: str) -> list[str]:
    return [path for path in PATHS if compile_filter(lines)(path)]


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("**/*.md", ["README.md", "docs/b.md", "docs/x/c.md", "x[1].md"]),
        ("*.md", ["README.md", "docs/b.md", "docs/x/c.md", "x[1].md"]),
        ("docs/*.md", ["docs/b.md"]),
        ("docs/**", ["docs/b.md", "docs/x/c.md"]),
        ("src/**/a.py", ["src/a.py", "src/b/a.py"]),
        ("a.py", ["a.py", "src/a.py", "src/b/a.py"]),
        ("?.py", ["a.py", "src/a.py", "src/b/a.py"]),
        ("*.{ts,tsx}", ["a.test.ts", "w/z.tsx"]),
        ("*.test.*", ["a.test.ts"]),
        ("[bc].md", ["docs/b.md", "docs/x/c.md"]),
        ("[!b].md", ["docs/x/c.md"]),
        ("x[[]1[]].md", ["x[1].md"]),
    ],
)
def test_2_10_a_pattern_may_be_a_glob(pattern: str, paths: list[str]) -> None:
    assert not is_regex(pattern)
    assert match_pattern(pattern) == paths


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        (r".*\.py$", ["a.py", "src/a.py", "src/b/a.py"]),
        (r"\.(ts|tsx)$", ["a.test.ts", "w/z.tsx"]),
        ("^docs/", ["docs/b.md", "docs/x/c.md"]),
        ("^[^/]*$", ["README.md", "a.py", "a.test.ts", "x[1].md"]),
        ("(?i)readme", ["README.md"]),
        ("docs/.*", ["docs/b.md", "docs/x/c.md"]),
    ],
)
def test_2_10_a_pattern_may_be_a_regular_expression(pattern: str, paths: list[str]) -> None:
    assert is_regex(pattern)
    assert match_pattern(pattern) == paths


def test_special_characters_in_a_glob_are_literal() -> None:
    assert compile_glob("docs (old)/a+b.md")("docs (old)/a+b.md")
    assert all(map(compile_glob("**"), PATHS))


@pytest.mark.parametrize(
    ("lines", "paths"),
    [
        (["*.py"], ["a.py", "src/a.py", "src/b/a.py"]),
        (["*.py", "!src/"], ["a.py"]),
        (["/*.py"], ["a.py"]),
        (["src"], ["src/a.py", "src/b/a.py"]),
        (["src/", "!src/b"], ["src/a.py"]),
        (["src", "!*.py", "src/a.py"], ["src/a.py"]),
        (["# no pattern", "", "docs/b.md"], ["docs/b.md"]),
        (["!*.md", "!*.ts", "!src", "!w"], ["a.py"]),
    ],
)
def test_2_10_a_filter_works_like_a_gitignore_file(lines: list[str], paths: list[str]) -> None:
    assert match_filter(*lines) == paths


def test_an_empty_filter_matches_everything() -> None:
    assert match_filter() == PATHS


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)*$", "^(.*a){20}$", "(?:a*)*b"])
def test_4_1_regular_expressions_match_in_linear_time(pattern: str) -> None:
    matches = compile_pattern(pattern)
    with spend_at_most():
        matches("a" * 5000 + "!")


def test_4_1_globs_match_in_linear_time() -> None:
    assert not compile_pattern("*a" * 30 + "b")("a" * 5000)


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)b", "(", r"(?<!a)b", "a{1000}{1000}{1000}", "x" * 1001])
def test_4_1_patterns_without_a_time_limit_are_rejected(pattern: str) -> None:
    with pytest.raises(ExpressionError):
        compile_pattern(pattern)


def test_a_filter_with_too_many_patterns_is_rejected() -> None:
    with pytest.raises(ExpressionError, match="1001 patterns"):
        compile_filter(["a"] * 1001)
