"""Patterns of paths."""

from __future__ import annotations

import pytest
from tests.work import spend_at_most

from statewright.errors import ExpressionError
from statewright.workflow.states.nodes.patterns import compile_filter, compile_glob, compile_pattern, is_regex

PATHS = ["README.md", "a.py", "a.test.ts", "docs/b.md", "docs/x/c.md", "src/a.py", "src/b/a.py", "w/z.tsx", "x[1].md"]


def matched(pattern: str) -> list[str]:
    return [path for path in PATHS if compile_pattern(pattern)(path)]


def wanted(*lines: str) -> list[str]:
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
    assert matched(pattern) == paths


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
    assert matched(pattern) == paths


def test_a_glob_is_a_glob_whatever_signs_it_has() -> None:
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
def test_2_10_a_filter_is_like_a_gitignore(lines: list[str], paths: list[str]) -> None:
    assert wanted(*lines) == paths


def test_no_pattern_wants_everything() -> None:
    assert wanted() == PATHS


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)*$", "^(.*a){20}$", "(?:a*)*b"])
def test_4_1_a_regular_expression_takes_no_longer_than_the_path(pattern: str) -> None:
    matches = compile_pattern(pattern)
    with spend_at_most():
        matches("a" * 5000 + "!")


def test_4_1_a_glob_takes_no_longer_than_the_path() -> None:
    assert not compile_pattern("*a" * 30 + "b")("a" * 5000)


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)b", "(", r"(?<!a)b", "a{1000}{1000}{1000}", "x" * 1001])
def test_4_1_what_cannot_be_bounded_is_refused(pattern: str) -> None:
    with pytest.raises(ExpressionError):
        compile_pattern(pattern)


def test_a_filter_of_too_many_patterns_is_refused() -> None:
    with pytest.raises(ExpressionError, match="1001 patterns"):
        compile_filter(["a"] * 1001)
