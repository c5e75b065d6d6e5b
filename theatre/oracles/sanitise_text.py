"""One text, cleaned of what a reader cannot see and of what a chat model takes for structure.

Source: docs/contract/construct.md §7. Pure, total for any `str`, idempotent, linear, and
the same on every Python: NFC is taken of stretches of characters that it has known since
Unicode 14.0, for which Unicode promises that it never changes.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from theatre.oracles.sanitise_tables import (
    EMOJI_MODIFIERS,
    JOINING_SCRIPTS,
    LINE_BREAKS,
    MONGOLIAN_LETTERS,
    MONGOLIAN_SELECTORS,
    NFC_ACTIVE,
    PICTOGRAPHS,
    REMOVED,
    REPLACED,
    ROLE_MARKERS,
    SPECIAL_TOKENS,
    character_set,
)

MARK = "\N{MIDDLE DOT}"

_REPLACEMENTS = {
    "line-break": "\n",
    **dict.fromkeys(REMOVED, ""),
    **dict.fromkeys(REPLACED, "\N{REPLACEMENT CHARACTER}"),
}
# One group a class, in the order of the table above, which gives a match its class.
_HIDDEN = re.compile(
    "|".join(
        [
            f"({LINE_BREAKS})",
            *(f"([{character_set(ranges)}])" for ranges in (REMOVED | REPLACED).values()),
        ]
    )
)
_CLASSES = tuple(_REPLACEMENTS)
_PICTOGRAPH = f"[{character_set(PICTOGRAPHS)}]"
_BEFORE_EMOJI_JOINER = f"[{character_set(PICTOGRAPHS)}{character_set(EMOJI_MODIFIERS)}\ufe0f]"
_JOINING = f"[{character_set(JOINING_SCRIPTS)}]"
_FVS = f"[{character_set(MONGOLIAN_SELECTORS)}]"
# Invisible characters that spelling needs in some places; each expression finds them in others.
# The selectors go first: an emoji's joiner may follow one.
_OUT_OF_PLACE = (
    (
        "variation-selector",
        re.compile(
            # After a pictograph; in a keycap (digit, U+FE0F, U+20E3); after a Mongolian letter.
            f"(?<!{_PICTOGRAPH})(?:\ufe0e|\ufe0f(?!(?<=[0-9#*]\ufe0f)\u20e3))"
            f"|(?<![{character_set(MONGOLIAN_LETTERS)}]){_FVS}"
        ),
    ),
    (
        "joiner",
        re.compile(
            # U+200C within, U+200D after letters of the scripts that join; U+200D within emoji.
            f"\u200c(?!(?<={_JOINING}\u200c){_JOINING})"
            f"|\u200d(?<!{_JOINING}\u200d)(?!(?<={_BEFORE_EMOJI_JOINER}\u200d){_PICTOGRAPH})"
        ),
    ),
)
_NEEDED_SOMEWHERE = re.compile(f"[\u200c\u200d\ufe0e\ufe0f{character_set(MONGOLIAN_SELECTORS)}]")
_LONG = 100
_NFC_STRETCH = re.compile(f"[\\x00-\\x7f]?[{character_set(NFC_ACTIVE)}]+")
_TOKEN = re.compile(SPECIAL_TOKENS, re.IGNORECASE | re.ASCII)
_ROLE = re.compile(ROLE_MARKERS, re.IGNORECASE | re.MULTILINE | re.ASCII)
_ASCII_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Printable ASCII without what every marker has: a colon, `<` or `[`.
_PLAIN = re.compile(r"[\t\n -9;=-Z\\-~]*")


@dataclass(frozen=True, slots=True)
class CleanText:
    """A text as it may be sent, and how many characters of which class were not as they are now.

    Classes: `line-break` (made a line feed); `control`, `bidi`, `tag`, `zero-width`,
    `variation-selector`, `joiner` (removed); `surrogate`, `noncharacter`, `private-use` (made
    U+FFFD); `not-nfc` (characters of the stretches that NFC rewrote); `role-marker` (markers
    broken by a middle dot after their first character) or `role-marker-kept`.
    """

    text: str
    counts: Mapping[str, int]


def is_plain(text: str) -> bool:
    """Return quickly whether a text needs no change. False means: call `clean_text`."""
    return _PLAIN.fullmatch(text) is not None


def clean_text(text: str, *, break_markers: bool = True) -> CleanText:
    """Return `text` as it may be sent. A text that needs nothing comes back with no counts."""
    counts: defaultdict[str, int] = defaultdict(int)
    if not text.isascii() or _ASCII_SUSPECT.search(text):
        text = _without_hidden_characters(text, counts)
    if not is_plain(text):
        text = _without_markers(text, counts, break_markers=break_markers)
    return CleanText(text, dict(counts))


def _without_markers(text: str, counts: defaultdict[str, int], *, break_markers: bool) -> str:
    found = len(_TOKEN.findall(text)) + len(_ROLE.findall(text))
    if not found:
        return text
    counts["role-marker" if break_markers else "role-marker-kept"] = found
    return _ROLE.sub(rf"\g<0>{MARK}", _TOKEN.sub(MARK, text)) if break_markers else text


def _without_hidden_characters(text: str, counts: defaultdict[str, int]) -> str:
    def replace(match: re.Match[str]) -> str:
        name = _CLASSES[match.lastindex - 1]  # type: ignore[operator]  # one group always matches
        counts[name] += 1
        return _REPLACEMENTS[name]

    text = _in_nfc(_HIDDEN.sub(replace, text), counts)
    removed = 0
    if _NEEDED_SOMEWHERE.search(text):
        for name, pattern in _OUT_OF_PLACE:
            text, found = pattern.subn("", text)
            removed += found
            if found:
                counts[name] += found
    return _settle(_in_nfc(text, counts), counts) if removed else text


def _settle(text: str, counts: defaultdict[str, int]) -> str:
    """Return `text` so that it comes out the same when it comes again.

    Marks that met when a joiner went from between them may have changed places, and with that
    the neighbour of another joiner. Such a text keeps none at all.
    """
    if not any(pattern.search(text) for _, pattern in _OUT_OF_PLACE):
        return text
    text, found = _NEEDED_SOMEWHERE.subn("", text)
    counts["joiner"] += found
    return _in_nfc(text, counts)


def _in_nfc(text: str, counts: defaultdict[str, int]) -> str:
    if text.isascii():
        return text
    stretches = _NFC_STRETCH.findall(text)
    normal_forms = {stretch: _normal_form(stretch) for stretch in set(stretches)}
    if all(stretch == normal for stretch, normal in normal_forms.items()):
        return text
    counts["not-nfc"] += sum(
        len(stretch) for stretch in stretches if stretch != normal_forms[stretch]
    )
    return _NFC_STRETCH.sub(lambda match: normal_forms[match.group()], text)


def _normal_form(stretch: str) -> str:
    sortable = stretch if len(stretch) <= _LONG else _in_canonical_order(stretch)
    return unicodedata.normalize("NFC", sortable)


def _in_canonical_order(stretch: str) -> str:
    """Return an equivalent stretch: `normalize` would sort its marks in quadratic time."""
    decomposed = "".join(unicodedata.normalize("NFD", character) for character in stretch)
    return "".join(
        "".join(sorted(run, key=unicodedata.combining) if are_marks else run)
        for are_marks, run in groupby(decomposed, key=_is_mark)
    )


def _is_mark(character: str) -> bool:
    return unicodedata.combining(character) > 0
