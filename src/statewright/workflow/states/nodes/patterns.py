"""Patterns of paths: globs, regular expressions, and lists of globs as in a .gitignore.

All of them are compiled for a regular expression engine without backtracking, whose time is linear in the length of the
path, so that no pattern can block a worker. It rejects lookahead, lookbehind and backreferences.
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
_CERTAIN_REGEX: Final = re.compile(r"^\^|\\|\$$")
"""Syntax that occurs only in regular expressions."""
_CERTAIN_GLOB: Final = re.compile(r"^\*|\*\*|/\*")
"""Syntax that occurs only in globs."""
_LIKELY_REGEX: Final = re.compile(r"[()|+]|\.\*|\.\?|\{\d+,?\d*\}|\[\^")
"""Syntax of regular expressions that may also occur in the names of files."""
_WILDCARD: Final = re.compile(
    r"(?P<folders>(?:(?<=/)|^)\*\*/)|(?P<anything>\*\*)|(?P<star>\*)|(?P<single>\?)|\[(?P<set>!?\]?[^\]]*)\]"
)
_BRACES: Final = re.compile(r"\{([^{}]*,[^{}]*)\}")

Matcher = Callable[[str], bool]
"""Returns whether a path with forward slashes matches."""


def compile_pattern(pattern: str) -> Matcher:
    """Compile a pattern, which is a regular expression or a glob; see `is_regex`.

    A regular expression may match anywhere in a path. Raises ExpressionError for an invalid pattern.
    """
    return _compile_regex(pattern, pattern) if is_regex(pattern) else compile_glob(pattern)


def compile_glob(glob: str) -> Matcher:
    """Compile a glob. With a slash it matches whole paths, otherwise names in any folder. Raises ExpressionError."""
    return _compile_regex(f"^{'' if '/' in glob else '(?:.*/)?'}{_translate_glob(glob)}$", glob)


def is_regex(pattern: str) -> bool:
    """Return whether a pattern is read as a regular expression, and not as a glob."""
    if _CERTAIN_REGEX.search(pattern):
        return True
    return _CERTAIN_GLOB.search(pattern) is None and _LIKELY_REGEX.search(pattern) is not None


def compile_filter(lines: Sequence[str]) -> Matcher:
    """Compile patterns in the syntax of a .gitignore, which include paths instead of ignoring them.

    The last matching pattern wins, and a leading `!` excludes paths. If all patterns exclude paths, all other paths are
    included. A pattern that matches a folder also matches everything below it. Raises ExpressionError.
    """
    if len(lines) > COUNT_LIMIT:
        raise ExpressionError(f"There are {len(lines)} patterns; at most {COUNT_LIMIT} are allowed. Remove some.")
    patterns = [line.rstrip() for line in lines]
    patterns = [pattern for pattern in patterns if pattern and not pattern.startswith("#")]
    rules = [(not pattern.startswith("!"), _compile_filter_line(pattern.removeprefix("!"))) for pattern in patterns]
    includes_by_default = not any(includes for includes, _ in rules)
    reversed_rules = rules[::-1]
    return lambda path: next((includes for includes, matches in reversed_rules if matches(path)), includes_by_default)


def _compile_filter_line(pattern: str) -> Matcher:
    """Compile a pattern of a filter. With a slash before its end, it matches whole paths, otherwise names anywhere."""
    prefix = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    suffix = "/.+" if pattern.endswith("/") else "(?:/.+)?"
    return _compile_regex(f"^{prefix}{_translate_glob(pattern.strip('/'))}{suffix}$", pattern)


def _translate_glob(glob: str) -> str:
    """Translate a glob to a regular expression without anchors."""
    return _replace_matches(
        _BRACES,
        glob,
        replace=lambda match: f"(?:{'|'.join(map(_translate_wildcards, match[1].split(',')))})",
        translate=_translate_wildcards,
    )


def _translate_wildcards(glob: str) -> str:
    """Translate a part of a glob without braces."""
    return _replace_matches(_WILDCARD, glob, replace=_translate_wildcard, translate=_escape)


def _replace_matches(
    regex: re.Pattern[str], text: str, *, replace: Callable[[re.Match[str]], str], translate: Callable[[str], str]
) -> str:
    """Replace the matches of a regular expression, and translate the text between them."""
    parts: list[str] = []
    position = 0
    for match in regex.finditer(text):
        parts += (translate(text[position : match.start()]), replace(match))
        position = match.end()
    return "".join((*parts, translate(text[position:])))


def _translate_wildcard(match: re.Match[str]) -> str:
    if match["set"] is not None:
        members = match["set"].replace("\\", "\\\\").replace("[", "\\[").replace("&", "\\&").replace("^", "\\^")
        negation = "^/" if members.startswith("!") else ""
        members = members.removeprefix("!")
        return f"[{negation}{members}]" if members else _escape(match[0])
    return {"folders": "(?:.+/)?", "anything": ".*", "star": "[^/]*", "single": "[^/]"}[match.lastgroup or ""]


def _escape(text: str) -> str:
    # Not `re.escape`: engines other than Python's may reject its escapes of ordinary characters.
    return re.sub(r"([\\.^$*+?()\[\]{}|])", r"\\\1", text)


def _compile_regex(regex: str, pattern: str) -> Matcher:
    """Compile a regular expression, which may match anywhere in a path.

    `pattern` is the text that was translated to the regular expression, for errors.
    """
    if len(pattern) > LENGTH_LIMIT:
        raise ExpressionError(f"The pattern {shorten(pattern)!r} is longer than {LENGTH_LIMIT} characters. Shorten it.")
    import jsonschema_rs

    options = jsonschema_rs.RegexOptions(size_limit=_SIZE_LIMIT, dfa_size_limit=_SIZE_LIMIT)
    try:
        # The validators of this library, which workflows need anyway, use Rust's regular expressions, which do not
        # backtrack.
        validator: Any = jsonschema_rs.Draft202012Validator({"pattern": f"(?s){regex}"}, pattern_options=options)
    except ValueError:
        raise ExpressionError(
            f"{shorten(pattern)!r} is not a pattern. Write a glob such as docs/**/*.md, or a regular expression "
            f"without backreferences, lookahead and lookbehind."
        ) from None
    return validator.is_valid
