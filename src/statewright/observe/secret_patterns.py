"""What secrets look like in text. Every pattern takes time in proportion to the text, whatever the text is.

That holds because no pattern can begin inside what another try has read through: each begins at a sign before which
it cannot stand, and what it repeats it never gives back (`++`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

MARK: Final = "[redacted]"
"""What stands in the place of a secret."""
_NAMES: Final = (
    r"passw(?:or)?d|passphrase|pwd|secret|token|(?:api|access|private|secret|signing|encryption)[_\-]?key|"
    r"credentials?|session[_\-]?id"
)
_SAID: Final = r"""\\{0,4}+ ["']? \s{0,4} [:=] \s{0,4}"""
_VALUES: Final = (
    r"""" ) (?: [^"\\\n] | \\. )++""",
    r"""' ) (?: [^'\\\n] | \\. )++""",
    r"""\\{1,4}+ " ) (?: [^"\\\n] | \\++(?!") )++""",
    r"""\\{1,4}+ ' ) (?: [^'\\\n] | \\++(?!') )++""",
    r""") [^\s,;&"'{}()<>\\]++""",
)
"""Values within quotes of either kind, the same within a text that is quoted itself, and values without quotes."""
NAMED: Final = tuple(re.compile(rf"(?ix) (?P<kept> (?:{_NAMES}) {_SAID} {value}") for value in _VALUES)
"""A name and its value: `password=...`, `"api_key": "..."`, also in JSON that is itself a text."""
HEADER: Final = re.compile(
    rf"""(?ix) (?P<kept> \b (?:proxy-)? (?:authorization|(?:set-)?cookie) {_SAID} \\{{0,4}}+ ["']? )
    [^\s"'\\] [^\r\n"'\\]*+"""
)
"""A header whose whole line is secret."""
TOKENS: Final = re.compile(
    r"""(?x)
    (?<![A-Za-z0-9_\-]) (?:
        (?:sk|pk|rk)-[A-Za-z0-9_\-]{12,}+
      | (?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{8,}+
      | (?:whsec|stw)_[A-Za-z0-9+/=_\-]{6,}+
      | gh[pousr]_[A-Za-z0-9]{20,}+ | github_pat_[A-Za-z0-9_]{20,}+ | glpat-[A-Za-z0-9_\-]{16,}+
      | xox[abeprs]-[A-Za-z0-9\-]{8,}+
      | (?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])
      | AIza[A-Za-z0-9_\-]{35}
      | eyJ[A-Za-z0-9_\-]++\.[A-Za-z0-9_\-]++(?:\.[A-Za-z0-9_\-]*+)?
    )"""
)
"""Keys that are known by how they begin, and JSON Web Tokens."""
BEARER: Final = re.compile(r"(?i)(?P<kept>(?<![A-Za-z0-9_\-])bearer\s{1,4})[A-Za-z0-9._~+/=\-]{8,}+")
IN_ADDRESS: Final = re.compile(r"(?P<kept>://)[^\s/:@?#\[\]]{0,200}+:[^\s/@?#\[\]]{1,400}+(?=@)")
"""Who signs in, in an address."""
PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*+(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
)
EMAIL: Final = re.compile(
    r"(?<![A-Za-z0-9._%+\-])[A-Za-z0-9._%+\-]{1,64}+@[A-Za-z0-9\-]{1,63}+(?:\.[A-Za-z0-9\-]{1,63}+)++"
)


class Pattern(NamedTuple):
    """A regular expression, and what a text must hold, its case folded, for a match to be possible."""

    regex: re.Pattern[str]
    needles: tuple[str, ...] = ()
    """One of them; nothing in particular if there are none. Looking for them is far quicker than trying to match."""

    def may_match(self, folded: str) -> bool:
        return not self.needles or any(needle in folded for needle in self.needles)


_NEEDLES: Final = ("passw", "passphrase", "pwd", "secret", "token", "key", "credential", "session")
_BEGINNINGS: Final = (
    "sk-",
    "pk-",
    "rk-",
    "k_live_",
    "k_test_",
    "whsec_",
    "stw_",
    "gh",
    "glpat-",
    "xox",
    "akia",
    "asia",
)
KNOWN: Final = (
    Pattern(PRIVATE_KEY, ("private key-----",)),
    Pattern(HEADER, ("authorization", "cookie")),
    *(Pattern(one, _NEEDLES) for one in NAMED),
    Pattern(BEARER, ("bearer",)),
    Pattern(IN_ADDRESS, ("://",)),
    Pattern(TOKENS, (*_BEGINNINGS, "aiza", "eyj")),
)
"""In the order in which they are looked for: what says most about its surroundings comes first."""
EMAILS: Final = Pattern(EMAIL, ("@",))

_DIGITS: Final = re.compile(r"(?<![\w.])[2-6]\d*+(?:[ \-]\d++)*+")
_GROUP: Final = re.compile(r"\d+")
_SHORTEST, _LONGEST = 13, 19


def without_cards(text: str) -> str:
    """The text without numbers of payment cards: digits whose checksum says that they are one."""
    return _DIGITS.sub(lambda found: _without_card(found[0]), text)


def _without_card(written: str) -> str:
    """Digits in groups, without the groups that are together the number of a card."""
    groups = list(_GROUP.finditer(written))
    kept: list[str] = []
    done = place = 0
    while place < len(groups):
        count = next(_cards_at(groups, place), 0)
        if count:
            kept.append(written[done : groups[place].start()] + MARK)
            done = groups[place + count - 1].end()
        place += count or 1
    return "".join(kept) + written[done:]


def _cards_at(groups: list[re.Match[str]], place: int) -> Iterator[int]:
    """How many groups from one on are the number of a card, the longest first."""
    digits, sizes = "", list[tuple[int, str]]()
    for count, group in enumerate(groups[place : place + _LONGEST], 1):
        if len(digits) + len(group[0]) > _LONGEST:
            break
        digits += group[0]
        sizes.append((count, digits))
    return (count for count, one in reversed(sizes) if len(one) >= _SHORTEST and is_card(one))


def is_card(digits: str) -> bool:
    """Whether digits can be the number of a card: how it begins, and its checksum (ISO/IEC 7812)."""
    if digits[0] not in "23456" or len(set(digits)) == 1:
        return False
    doubled = (int(digit) * 2 if place % 2 else int(digit) for place, digit in enumerate(reversed(digits)))
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0
