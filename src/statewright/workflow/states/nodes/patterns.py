"""Patterns of paths: globs, regular expressions, and lists of globs as in a .gitignore.

All of them are compiled by a regular expression engine without backtracking, whose time is linear in the length of the
path, so no pattern can keep a worker busy. Its missing features (lookahead, lookbehind, backreferences) are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from statewright.errors import ExpressionError
from statewright.workflow.states.language.yaml.nodes import shorten

LENGTH_LIMIT: Final = 1000
"""Maximum characters of one pattern."""
COUNT_LIMIT: Final = 1000
"""Maximum patterns of one list."""
_SIZE_LIMIT: Final = 2_000_000
"""Maximum bytes of a compiled pattern."""
_ONLY_IN_REGEX: Final = re.compile(r"[()|+]|\.\*|\.\?|\{\d+,?\d*\}|\[\^")
_SURELY_REGEX: Final = re.compile(r"^\^|\\|\$$")
_SURELY_GLOB: Final = re.compile(r"^\*|\*\*|/\*")
_GLOB: Final = re.compile(
    r"(?P<any>(?:(?<=/)|^)\*\*/)|(?P<rest>\*\*)|(?P<star>\*)|(?P<single>\?)|\[(?P<set>!?\]?[^\]]*)\]"
)
_BRACES: Final = re.compile(r"\{([^{}]*,[^{}]*)\}")

Matcher = Callable[[str], bool]
"""Returns whether a path, with slashes, matches."""


def path_matcher(pattern: str) -> Matcher:
    """Compile a pattern: a regular expression if it has characters that globs do not have, else a glob.

    A regular expression may match anywhere in a path. Raises ExpressionError if it is neither.
    """
    return _search(pattern, pattern) if is_regex(pattern) else glob_matcher(pattern)


def glob_matcher(glob: str) -> Matcher:
    """Compile a glob. Without a slash it matches names in any folder, else whole paths. Raises ExpressionError."""
    return _search(f"^{'' if '/' in glob else '(?:.*/)?'}{_translated(glob)}$", glob)


def is_regex(pattern: str) -> bool:
    """Return whether a pattern is interpreted as a regular expression."""
    if _SURELY_REGEX.search(pattern):
        return True
    return _SURELY_GLOB.search(pattern) is None and _ONLY_IN_REGEX.search(pattern) is not None


def filter_matcher(lines: Sequence[str]) -> Matcher:
    """Compile a list of patterns in the syntax of .gitignore that includes paths instead of ignoring them.

    The last matching pattern wins; a leading `!` excludes. If all patterns exclude, all other paths are included. A
    folder includes everything below it. Raises ExpressionError.
    """
    if len(lines) > COUNT_LIMIT:
        raise ExpressionError(f"There are {len(lines)} patterns; at most {COUNT_LIMIT} are allowed. Remove some.")
    patterns = [line.rstrip() for line in lines]
    patterns = [pattern for pattern in patterns if pattern and not pattern.startswith("#")]
    rules = [(not pattern.startswith("!"), _ignore_rule(pattern.removeprefix("!"))) for pattern in patterns]
    default = not any(includes for includes, _ in rules)
    reversed_rules = rules[::-1]
    return lambda path: next((includes for includes, matches in reversed_rules if matches(path)), default)


def _ignore_rule(pattern: str) -> Matcher:
    is_folder = pattern.endswith("/")
    body = pattern.strip("/")
    anchored = "/" in pattern.rstrip("/")
    inside = "/.+" if is_folder else "(?:/.+)?"
    return _search(f"^{'' if anchored else '(?:.*/)?'}{_translated(body)}{inside}$", pattern)


def _translated(glob: str) -> str:
    """Translate a glob to a regular expression without anchors."""
    parts: list[str] = []
    position = 0
    for match in _BRACES.finditer(glob):
        parts.append(_without_braces(glob[position : match.start()]))
        parts.append(f"(?:{'|'.join(_without_braces(alternative) for alternative in match[1].split(','))})")
        position = match.end()
    return "".join((*parts, _without_braces(glob[position:])))


def _without_braces(glob: str) -> str:
    parts: list[str] = []
    position = 0
    for match in _GLOB.finditer(glob):
        parts += (_escaped(glob[position : match.start()]), _wildcard(match))
        position = match.end()
    return "".join((*parts, _escaped(glob[position:])))


def _wildcard(match: re.Match[str]) -> str:
    if match["set"] is not None:
        inside = match["set"].replace("\\", "\\\\").replace("[", "\\[").replace("&", "\\&").replace("^", "\\^")
        negated = inside.startswith("!")
        inside = inside.removeprefix("!")
        return f"[{'^/' if negated else ''}{inside}]" if inside else _escaped(match[0])
    return {"any": "(?:.+/)?", "rest": ".*", "star": "[^/]*", "single": "[^/]"}[match.lastgroup or ""]


def _escaped(text: str) -> str:
    return re.sub(r"([\\.^$*+?()\[\]{}|])", r"\\\1", text)


def _search(regex: str, pattern: str) -> Matcher:
    """Return a matcher that searches a regular expression in a path."""
    if len(pattern) > LENGTH_LIMIT:
        raise ExpressionError(f"The pattern {shorten(pattern)!r} is longer than {LENGTH_LIMIT} characters.")
    import jsonschema_rs

    options = jsonschema_rs.RegexOptions(size_limit=_SIZE_LIMIT, dfa_size_limit=_SIZE_LIMIT)
    try:
        # A JSON Schema validator gives access to the regular expressions of Rust.
        validator: Any = jsonschema_rs.Draft202012Validator({"pattern": f"(?s){regex}"}, pattern_options=options)
    except ValueError:
        raise ExpressionError(
            f"{shorten(pattern)!r} is not a pattern. Write a glob such as docs/**/*.md, or a regular expression "
            f"without backreferences, lookahead and lookbehind."
        ) from None
    return validator.is_valid
