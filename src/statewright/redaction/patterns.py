"""The shapes of secrets in text.

Matching a pattern takes time in proportion to the length of the text, whatever the text is. Unbounded repetitions are
possessive (`++`), so they never backtrack. A pattern begins at a character that cannot occur inside one of its
repetitions, so no attempt to match rereads the text of an earlier attempt.

There are two kinds of patterns. Some secrets are recognisable by themselves, such as a key that begins with `sk-`.
Their patterns have a `description`, and `find_secret` searches for them in texts that must not contain secrets. Other
secrets are recognised by their context, such as `password=...`. They are masked, but `find_secret` does not report
them, because harmless explanations look the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from statewright.redaction.names import SECRET_NAMES, WITHOUT_PLURAL, split_words

MARK: Final = "[redacted]"
"""Replaces a secret."""


class Pattern:
    """A regular expression, with literal strings that quickly rule out most texts.

    The expression is compiled on first use: most programs meet few shapes of secrets, and compiling the expressions of
    all of them takes as long as importing dozens of modules.
    """

    def __init__(self, source: str | re.Pattern[str], needles: tuple[str, ...] = (), description: str = "") -> None:
        self._source = source
        self.needles = needles
        """Lower-case strings, at least one of which is part of every match. If empty, the expression always runs."""
        self.description = description
        """The kind of the secret, such as `a private key`, if the secret is recognisable by itself; else empty."""

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self._source)

    def may_match(self, folded: str) -> bool:
        """Return False if a text, which must be case-folded, contains none of the needles."""
        return not self.needles or any(needle in folded for needle in self.needles)


def replace_secrets(text: str, patterns: Iterable[Pattern]) -> str:
    """Replace each match of the patterns, and each card number, with a mark.

    If a pattern has a group named `kept`, the text of that group is kept before the mark.
    """
    folded = text.casefold()
    for pattern in patterns:
        if pattern.may_match(folded):
            text = pattern.regex.sub(_mark, text)
    return replace_cards(text, MARK)


def find_secret(text: str) -> str | None:
    """Return the description of a secret in the text that is recognisable by itself; None if there is none."""
    folded = text.casefold()
    for pattern in PATTERNS:
        if pattern.description and pattern.may_match(folded) and pattern.regex.search(text):
            return pattern.description
    return "the number of a payment card" if has_card(text) else None


def _mark(match: re.Match[str]) -> str:
    prefix = match.groupdict().get("kept")
    return f"{prefix or ''}{MARK}"


_START: Final = r"""(?: (?<![A-Za-z0-9_\-]) | (?<=\\[nrtbf]) | (?<=%[0-9A-Fa-f]{2}) | (?<=\\x[0-9A-Fa-f]{2})
    | (?<=\\u[0-9A-Fa-f]{4}) )"""
"""The beginning of a secret or a header. No letter may precede it, except in an escape: `\\nsk-...`, `%20sk-...`."""

# -- secrets that are recognised by their context

_SHORT_NAME: Final = 4
"""Maximum length of a name that no letter may precede, because ordinary words end in it."""


def _names_regex() -> str:
    """Return a regular expression for the names of secrets, in which names with the same last word are combined."""
    qualifiers_by_last_word: dict[str, list[str]] = {}
    for name in SECRET_NAMES:
        *first_words, last = split_words(name)
        qualifiers_by_last_word.setdefault(last, []).append(r"[_\-.\ ]?".join(first_words))
    return "|".join(_name_regex(last, qualifiers) for last, qualifiers in qualifiers_by_last_word.items())


def _name_regex(last: str, qualifiers: list[str]) -> str:
    """Return a regular expression for the names that end in the word `last`.

    A qualifier matches the words before it, and is empty for a name that is a single word.
    """
    plural = "" if last in WITHOUT_PLURAL or last.endswith("s") else "s?"
    if all(qualifiers):
        return rf"(?:{'|'.join(qualifiers)})[_\-.\ ]?{last}{plural}"
    # The last word alone is a name, and matches after any text, so longer names that end in it are redundant.
    boundary = r"(?<![a-z])" if len(last) <= _SHORT_NAME and last != "pwd" else ""
    return f"{boundary}{last}{plural}"


_NAMES: Final = _names_regex()
_ASSIGNMENT: Final = r"""\\{0,4}+ ["']? \s{0,4} [:=] \s{0,4}"""
_VALUES: Final = (
    r"""" ) (?: [^"\\\n] | \\. )++""",
    r"""' ) (?: [^'\\\n] | \\. )++""",
    r"""\\{1,4}+ " ) (?: [^"\\\n] | \\++(?!") )++""",
    r"""\\{1,4}+ ' ) (?: [^'\\\n] | \\++(?!') )++""",
    r""") [^\s,;&"'{}()<>\\]++""",
)
"""Values in double or single quotes, in escaped double or single quotes, and without quotes."""
_NAMED: Final = tuple(rf"(?ix) (?P<kept> (?:{_NAMES}) [0-9]{{0,4}}+ {_ASSIGNMENT} {value}" for value in _VALUES)
"""A name and its value: `password=...`, `"api_key": "..."`, even in JSON within JSON."""
_NAME_NEEDLES: Final = tuple(sorted({max(split_words(name), key=len) for name in SECRET_NAMES}))
_HEADER: Final = rf"""(?ix) (?P<kept> (?: \b | {_START} ) (?:proxy-|set-)? (?:authorization|cookie) {_ASSIGNMENT}
    \\{{0,4}}+ ["']? ) [^\s"'\\] [^\r\n"'\\]*+"""
"""A header whose value, up to the end of the line, is secret."""
_BEARER: Final = rf"(?ix) (?P<kept> {_START} bearer \s{{1,4}} ) [A-Za-z0-9._~+/=\-]{{8,}}+"
_URL_CREDENTIALS: Final = r"""(?x) (?P<kept>:\\?/\\?/) [^\s/:@?#\[\]]{0,200}+ : [^\s/@?#\[\]]{1,400}+
    (?: @ [^\s/@?#\[\]]{0,400}+ (?=@) ){0,10}+ (?=@)"""
"""The user and the password in a URL, up to the last `@`, because an `@` in a password may not have been encoded."""

# -- secrets that are recognisable by themselves

_SERVICE_KEY: Final = rf"""(?x) {_START} (?:
        (?:sk|pk|rk)-[A-Za-z0-9_\-]{{12,}}+
      | (?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{{8,}}+
      | (?:whsec|stw)_[A-Za-z0-9+/=_\-]{{6,}}+
      | gh[pousr]_[A-Za-z0-9]{{16,}}+ | github_pat_[A-Za-z0-9_]{{20,}}+ | glpat-[A-Za-z0-9_\-]{{12,}}+
      | xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9\-]{{8,}}+ | xapp-[A-Za-z0-9\-]{{12,}}+
      | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}(?![A-Za-z0-9])
      | AIza[A-Za-z0-9_\-]{{35}} | ya29\.[A-Za-z0-9_\-]{{20,}}+
      | (?:gsk|hf|r8|npm)_[A-Za-z0-9]{{20,}}+ | (?:xai|pplx|tvly)-[A-Za-z0-9\-]{{20,}}+ | nvapi-[A-Za-z0-9_\-]{{20,}}+
      | lsv2_[a-z]{{2}}_[A-Za-z0-9_]{{20,}}+ | dckr_pat_[A-Za-z0-9_\-]{{20,}}+ | hvs\.[A-Za-z0-9_\-]{{20,}}+
      | SG\.[A-Za-z0-9_\-]{{16,}}+\.[A-Za-z0-9_\-]{{16,}}+
    )"""
"""API keys of services, by their prefixes."""
_SERVICE_NEEDLES: Final = (
    *("sk-", "pk-", "rk-", "k_live_", "k_test_", "whsec_", "stw_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    *("github_pat_", "glpat-", "xox", "xapp-", "akia", "asia", "abia", "acca", "aiza", "ya29.", "gsk_", "hf_", "r8_"),
    *("npm_", "xai-", "pplx-", "tvly-", "nvapi-", "lsv2_", "dckr_pat_", "hvs.", "sg."),
)
_JWT: Final = rf"(?x) {_START} eyJ[A-Za-z0-9_\-]++\.[A-Za-z0-9_\-]++(?:\.[A-Za-z0-9_\-]*+)?"
_PRIVATE_KEY: Final = r"""(?x) -----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----
    (?: [^\-] | -(?!----) )*+ (?: -----END\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?----- )?"""
"""A key in PEM format, which may have been cut off. Single dashes occur in the headers of an encrypted key."""
_SOCIAL_SECURITY: Final = r"(?a)(?:(?<![\w.\-])|(?<=\\[nrt]))(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d\-])"
_EMAIL: Final = r"(?<![A-Za-z0-9._%+\-])[A-Za-z0-9._%+\-]{1,64}+@[A-Za-z0-9\-]{1,63}+(?:\.[A-Za-z0-9\-]{1,63}+)++"


def _patterns() -> Iterator[Pattern]:
    yield Pattern(_PRIVATE_KEY, ("private key",), "a private key")
    yield Pattern(_HEADER, ("authorization", "cookie"))
    yield from (Pattern(source, _NAME_NEEDLES) for source in _NAMED)
    yield Pattern(_BEARER, ("bearer",))
    yield Pattern(_URL_CREDENTIALS, ("://", r":\/"))
    yield Pattern(_SERVICE_KEY, _SERVICE_NEEDLES, "a secret key of a service")
    yield Pattern(_JWT, ("eyj",), "a signed token")
    yield Pattern(_SOCIAL_SECURITY, ("-",), "a social security number")


PATTERNS: Final = tuple(_patterns())
"""All patterns, in the order in which they are applied. Patterns that match more of the context are applied first."""
EMAILS: Final = Pattern(_EMAIL, ("@",))

# -- numbers of payment cards: digits, which may be grouped, with a valid checksum (ISO/IEC 7812)

_NUMBER: Final = re.compile(r"(?:(?<![\w.])|(?<=\\[nrt]))[2-6]\d*+(?:[ \-]\d++)*+")
_GROUP: Final = re.compile(r"\d+")
_MIN_DIGITS, _MAX_DIGITS = 13, 19


def replace_cards(text: str, mark: str) -> str:
    """Replace each card number with a mark."""
    return _NUMBER.sub(lambda match: _replace_cards_in_groups(match[0], mark), text)


def has_card(text: str) -> bool:
    """Return True if the text contains a card number."""
    return any(_replace_cards_in_groups(match[0], "") != match[0] for match in _NUMBER.finditer(text))


def is_card(digits: str) -> bool:
    """Return True if the digits may be a card number, judging by the first digit and the checksum."""
    if digits[0] not in "23456" or len(set(digits)) == 1:
        return False
    doubled = (int(digit) * 2 if index % 2 else int(digit) for index, digit in enumerate(reversed(digits)))
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _replace_cards_in_groups(text: str, mark: str) -> str:
    """Replace consecutive groups of digits that together form a card number."""
    groups = list(_GROUP.finditer(text))
    parts: list[str] = []
    end = index = 0
    while index < len(groups):
        count = _count_card_groups(groups, index)
        if count:
            parts.append(text[end : groups[index].start()] + mark)
            end = groups[index + count - 1].end()
        index += count or 1
    return "".join(parts) + text[end:]


def _count_card_groups(groups: list[re.Match[str]], start: int) -> int:
    """Return the largest number of groups from `start` that form a card number; 0 if none do."""
    digits, card_groups = "", 0
    for count, group in enumerate(groups[start : start + _MAX_DIGITS], 1):
        if len(digits) + len(group[0]) > _MAX_DIGITS:
            break
        digits += group[0]
        if len(digits) >= _MIN_DIGITS and is_card(digits):
            card_groups = count
    return card_groups
