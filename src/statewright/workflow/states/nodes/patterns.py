"""Patterns of paths: globs, regular expressions, and lists of globs as in a .gitignore.

All of them become regular expressions of an engine whose time grows with the length of the path and not with what a
pattern can be read as, so no pattern can keep a worker busy. What that engine does not know (looking ahead or behind,
references to groups) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from statewright.errors import ExpressionError
from statewright.workflow.states.language.yaml.nodes import shortened

LENGTH_LIMIT: Final = 1000
"""Characters of one pattern."""
COUNT_LIMIT: Final = 1000
"""Patterns of one list."""
_SIZE_LIMIT: Final = 2_000_000
"""Bytes of a compiled pattern."""
_ONLY_IN_REGEX: Final = re.compile(r"[()|+]|\.\*|\.\?|\{\d+,?\d*\}|\[\^")
_SURELY_REGEX: Final = re.compile(r"^\^|\\|\$$")
_SURELY_GLOB: Final = re.compile(r"^\*|\*\*|/\*")
_GLOB: Final = re.compile(
    r"(?P<any>(?:(?<=/)|^)\*\*/)|(?P<rest>\*\*)|(?P<star>\*)|(?P<one>\?)|\[(?P<set>!?\]?[^\]]*)\]"
)
_BRACES: Final = re.compile(r"\{([^{}]*,[^{}]*)\}")

Matcher = Callable[[str], bool]
"""Whether a path, with slashes, is one of those that are meant."""


def path_matcher(pattern: str) -> Matcher:
    """What a pattern matches: a regular expression if it has signs that globs do not have, else a glob.

    A regular expression may match anywhere in a path. Raises ExpressionError if it is neither.
    """
    return _search(pattern, pattern) if is_regex(pattern) else glob_matcher(pattern)


def glob_matcher(glob: str) -> Matcher:
    """What a glob matches: without a slash names in any folder, else whole paths. Raises ExpressionError."""
    return _search(f"^{'' if '/' in glob else '(?:.*/)?'}{_translated(glob)}$", glob)


def is_regex(pattern: str) -> bool:
    """Whether a pattern is read as a regular expression."""
    if _SURELY_REGEX.search(pattern):
        return True
    return _SURELY_GLOB.search(pattern) is None and _ONLY_IN_REGEX.search(pattern) is not None


def filter_matcher(lines: Sequence[str]) -> Matcher:
    """What a list of patterns matches, as in a .gitignore; here it says what is wanted.

    The last pattern that fits decides; `!` before it takes away again. If all of them take away, the rest is wanted. A
    folder stands for all that is in it. Raises ExpressionError.
    """
    if len(lines) > COUNT_LIMIT:
        raise ExpressionError(f"There are {len(lines)} patterns; at most {COUNT_LIMIT} are read.")
    patterns = [line.rstrip() for line in lines]
    patterns = [one for one in patterns if one and not one.startswith("#")]
    rules = [(not one.startswith("!"), _ignore_rule(one.removeprefix("!"))) for one in patterns]
    usual = not any(wanted for wanted, _ in rules)
    last_first = rules[::-1]
    return lambda path: next((wanted for wanted, fits in last_first if fits(path)), usual)


def _ignore_rule(pattern: str) -> Matcher:
    folder_only = pattern.endswith("/")
    body = pattern.strip("/")
    anchored = "/" in pattern.rstrip("/")
    inside = "/.+" if folder_only else "(?:/.+)?"
    return _search(f"^{'' if anchored else '(?:.*/)?'}{_translated(body)}{inside}$", pattern)


def _translated(glob: str) -> str:
    """A glob as a regular expression, without its ends."""
    parts: list[str] = []
    at = 0
    for found in _BRACES.finditer(glob):
        parts.append(_without_braces(glob[at : found.start()]))
        parts.append(f"(?:{'|'.join(_without_braces(one) for one in found[1].split(','))})")
        at = found.end()
    return "".join((*parts, _without_braces(glob[at:])))


def _without_braces(glob: str) -> str:
    parts: list[str] = []
    at = 0
    for found in _GLOB.finditer(glob):
        parts += (_escaped(glob[at : found.start()]), _wildcard(found))
        at = found.end()
    return "".join((*parts, _escaped(glob[at:])))


def _wildcard(found: re.Match[str]) -> str:
    if found["set"] is not None:
        inside = found["set"].replace("\\", "\\\\").replace("[", "\\[").replace("&", "\\&").replace("^", "\\^")
        negated = inside.startswith("!")
        inside = inside.removeprefix("!")
        return f"[{'^/' if negated else ''}{inside}]" if inside else _escaped(found[0])
    return {"any": "(?:.+/)?", "rest": ".*", "star": "[^/]*", "one": "[^/]"}[found.lastgroup or ""]


def _escaped(text: str) -> str:
    return re.sub(r"([\\.^$*+?()\[\]{}|])", r"\\\1", text)


def _search(regex: str, written: str) -> Matcher:
    """Whether a regular expression is found in a path."""
    if len(written) > LENGTH_LIMIT:
        raise ExpressionError(f"The pattern {shortened(written)!r} is longer than {LENGTH_LIMIT} characters.")
    import jsonschema_rs

    options = jsonschema_rs.RegexOptions(size_limit=_SIZE_LIMIT, dfa_size_limit=_SIZE_LIMIT)
    try:
        # Its regular expressions are those of Rust; schemas are only how Python gets at them.
        validator: Any = jsonschema_rs.Draft202012Validator({"pattern": f"(?s){regex}"}, pattern_options=options)
    except ValueError:
        raise ExpressionError(
            f"{shortened(written)!r} is no pattern. Write a glob such as docs/**/*.md, or a regular expression without "
            f"references and without looking ahead or behind."
        ) from None
    return validator.is_valid
