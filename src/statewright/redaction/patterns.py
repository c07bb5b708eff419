"""Shapes of secrets in text. Each pattern takes time in proportion to the length of the text, whatever the text is.

That holds because no match can begin inside a repetition that another attempt has read: each pattern begins at a
character that cannot follow such a repetition, and all repetitions are possessive (`++`), so that they never backtrack.

There are two kinds. Some secrets can be recognised by themselves, such as a key that begins with `sk-`: these have a
`noun`, and a text that must not contain a secret is checked for them. Others are recognised by their surroundings, such
as `password=...`: these are masked, but the same words occur in harmless explanations too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from statewright.redaction.names import SECRET_NAMES, WITHOUT_PLURAL, words_of

MARK: Final = "[redacted]"
"""Replaces a secret."""


class Pattern(NamedTuple):
    """A regular expression, and texts of which a match contains at least one."""

    regex: re.Pattern[str]
    needles: tuple[str, ...] = ()
    """In lower case. To search for them is far faster than to try a match; without any, a match is always tried."""
    noun: str = ""
    """Names the secret, if it can be recognised by itself."""

    def may_match(self, folded: str) -> bool:
        """Return True unless the text, its case folded, contains none of the needles."""
        return not self.needles or any(needle in folded for needle in self.needles)


def replace_secrets(text: str, patterns: Iterable[Pattern]) -> str:
    """Return the text with a mark in place of each match and of each card number.

    Of a pattern with a group named `kept`, that group stays.
    """
    folded = text.casefold()
    for pattern in patterns:
        if pattern.may_match(folded):
            text = pattern.regex.sub(_mark, text)
    return replace_cards(text, MARK)


def find_secret(text: str) -> str | None:
    """Return the noun for the first secret in the text that can be recognised by itself, or None."""
    folded = text.casefold()
    for pattern in PATTERNS:
        if pattern.noun and pattern.may_match(folded) and pattern.regex.search(text):
            return pattern.noun
    return "the number of a payment card" if has_card(text) else None


def _mark(match: re.Match[str]) -> str:
    prefix = match.groupdict().get("kept")
    return f"{prefix or ''}{MARK}"


_START: Final = r"""(?: (?<![A-Za-z0-9_\-]) | (?<=\\[nrtbf]) | (?<=%[0-9A-Fa-f]{2}) | (?<=\\x[0-9A-Fa-f]{2})
    | (?<=\\u[0-9A-Fa-f]{4}) )"""
"""No letter stands before a secret or a header, unless it is part of an escape: `\\nsk-...`, `%20sk-...`."""

# -- recognised by what stands around them

_SHORT_NAME: Final = 4
"""Characters. Names up to this length end ordinary words too, so no letter may stand before them."""


def _names_regex() -> str:
    """Return the names of secrets as one alternation, grouped by their last words."""
    firsts: dict[str, list[str]] = {}
    for name in SECRET_NAMES:
        *first, last = words_of(name)
        firsts.setdefault(last, []).append(r"[_\-.\ ]?".join(first))
    return "|".join(_name_regex(last, group) for last, group in firsts.items())


def _name_regex(last: str, firsts: list[str]) -> str:
    plural = "" if last in WITHOUT_PLURAL or last.endswith("s") else "s?"
    qualified = [first for first in firsts if first]
    if len(qualified) == len(firsts):
        return rf"(?:{'|'.join(qualified)})[_\-.\ ]?{last}{plural}"
    # Anything may stand before a name, so a qualified form of a name that is in the list itself needs no place here.
    boundary = r"(?<![a-z])" if len(last) <= _SHORT_NAME and last != "pwd" else ""
    return f"{boundary}{last}{plural}"


_ASSIGNMENT: Final = r"""\\{0,4}+ ["']? \s{0,4} [:=] \s{0,4}"""
_VALUES: Final = (
    r"""" ) (?: [^"\\\n] | \\. )++""",
    r"""' ) (?: [^'\\\n] | \\. )++""",
    r"""\\{1,4}+ " ) (?: [^"\\\n] | \\++(?!") )++""",
    r"""\\{1,4}+ ' ) (?: [^'\\\n] | \\++(?!') )++""",
    r""") [^\s,;&"'{}()<>\\]++""",
)
"""Values in quotes of either kind, the same inside a text that is quoted itself, and values without quotes."""
_NAMED: Final = tuple(
    re.compile(rf"(?ix) (?P<kept> (?:{_names_regex()}) [0-9]{{0,4}}+ {_ASSIGNMENT} {value}") for value in _VALUES
)
"""A name and its value: `password=...`, `"api_key": "..."`, also in JSON inside of JSON."""
_NAME_NEEDLES: Final = tuple(sorted({max(words_of(name), key=len) for name in SECRET_NAMES}))
_HEADER: Final = re.compile(
    rf"""(?ix) (?P<kept> (?: \b | {_START} ) (?:proxy-|set-)? (?:authorization|cookie) {_ASSIGNMENT} \\{{0,4}}+ ["']? )
    [^\s"'\\] [^\r\n"'\\]*+"""
)
"""A header whose whole line is secret."""
_BEARER: Final = re.compile(rf"(?ix) (?P<kept> {_START} bearer \s{{1,4}} ) [A-Za-z0-9._~+/=\-]{{8,}}+")
_URL_CREDENTIALS: Final = re.compile(
    r"""(?x) (?P<kept>:\\?/\\?/) [^\s/:@?#\[\]]{0,200}+ : [^\s/@?#\[\]]{1,400}+
    (?: @ [^\s/@?#\[\]]{0,400}+ (?=@) ){0,10}+ (?=@)"""
)
"""User and password of a URL, as far as its last `@`: passwords contain some that are not encoded."""

# -- recognised by themselves

_SERVICE_KEY: Final = re.compile(
    rf"""(?x) {_START} (?:
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
)
"""Keys of services, by their prefixes."""
_SERVICE_NEEDLES: Final = (
    *("sk-", "pk-", "rk-", "k_live_", "k_test_", "whsec_", "stw_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    *("github_pat_", "glpat-", "xox", "xapp-", "akia", "asia", "abia", "acca", "aiza", "ya29.", "gsk_", "hf_", "r8_"),
    *("npm_", "xai-", "pplx-", "tvly-", "nvapi-", "lsv2_", "dckr_pat_", "hvs.", "sg."),
)
_JWT: Final = re.compile(rf"(?x) {_START} eyJ[A-Za-z0-9_\-]++\.[A-Za-z0-9_\-]++(?:\.[A-Za-z0-9_\-]*+)?")
_PRIVATE_KEY: Final = re.compile(
    r"""(?x) -----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----
    (?: [^\-] | -(?!----) )*+ (?: -----END\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?----- )?"""
)
"""A key in PEM, or what is left of one. The headers of an encrypted one contain single dashes."""
_SOCIAL_SECURITY: Final = re.compile(
    r"(?:(?<![\w.\-])|(?<=\\[nrt]))(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d\-])", re.ASCII
)
_EMAIL: Final = re.compile(
    r"(?<![A-Za-z0-9._%+\-])[A-Za-z0-9._%+\-]{1,64}+@[A-Za-z0-9\-]{1,63}+(?:\.[A-Za-z0-9\-]{1,63}+)++"
)


def _patterns() -> Iterator[Pattern]:
    yield Pattern(_PRIVATE_KEY, ("private key",), "a private key")
    yield Pattern(_HEADER, ("authorization", "cookie"))
    yield from (Pattern(regex, _NAME_NEEDLES) for regex in _NAMED)
    yield Pattern(_BEARER, ("bearer",))
    yield Pattern(_URL_CREDENTIALS, ("://", r":\/"))
    yield Pattern(_SERVICE_KEY, _SERVICE_NEEDLES, "a secret key of a service")
    yield Pattern(_JWT, ("eyj",), "a signed token")
    yield Pattern(_SOCIAL_SECURITY, ("-",), "a social security number")


PATTERNS: Final = tuple(_patterns())
"""In the order in which they are replaced: those that say most about their surroundings come first."""
EMAILS: Final = Pattern(_EMAIL, ("@",))

# -- numbers of payment cards: digits, also in groups, whose checksum is right (ISO/IEC 7812)

_NUMBER: Final = re.compile(r"(?:(?<![\w.])|(?<=\\[nrt]))[2-6]\d*+(?:[ \-]\d++)*+")
_GROUP: Final = re.compile(r"\d+")
_MIN_DIGITS, _MAX_DIGITS = 13, 19


def replace_cards(text: str, mark: str) -> str:
    """Return the text with a mark in place of each card number."""
    return _NUMBER.sub(lambda match: _replace(match[0], mark), text)


def has_card(text: str) -> bool:
    """Return True if the text contains a card number."""
    return any(_replace(match[0], "") != match[0] for match in _NUMBER.finditer(text))


def is_card(digits: str) -> bool:
    """Return True if the digits can be a card number, by their beginning and their checksum."""
    if digits[0] not in "23456" or len(set(digits)) == 1:
        return False
    doubled = (int(digit) * 2 if index % 2 else int(digit) for index, digit in enumerate(reversed(digits)))
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _replace(digits: str, mark: str) -> str:
    """Return groups of digits, with a mark in place of those that form a card number together."""
    groups = list(_GROUP.finditer(digits))
    parts: list[str] = []
    end = index = 0
    while index < len(groups):
        count = next(_card_sizes(groups, index), 0)
        if count:
            parts.append(digits[end : groups[index].start()] + mark)
            end = groups[index + count - 1].end()
        index += count or 1
    return "".join(parts) + digits[end:]


def _card_sizes(groups: list[re.Match[str]], start: int) -> Iterator[int]:
    """Yield the numbers of groups from `start` that form a card number, the largest first."""
    digits, prefixes = "", list[tuple[int, str]]()
    for count, group in enumerate(groups[start : start + _MAX_DIGITS], 1):
        if len(digits) + len(group[0]) > _MAX_DIGITS:
            break
        digits += group[0]
        prefixes.append((count, digits))
    return (count for count, prefix in reversed(prefixes) if len(prefix) >= _MIN_DIGITS and is_card(prefix))
