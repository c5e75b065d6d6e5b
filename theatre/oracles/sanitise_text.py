"""One text, cleaned of what a reader cannot see and of what a chat model takes for structure.

Source: contract/construct.md, "Sanitising". Pure, total for any `str`, idempotent, linear, and
the same on every Python: NFC is taken of stretches of characters that it has known since
Unicode 14.0, for which Unicode promises that it never changes.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

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

_EVERYWHERE = (
    ("line-break", re.compile(LINE_BREAKS), "\n"),
    *((name, re.compile(f"[{character_set(ranges)}]"), "") for name, ranges in REMOVED.items()),
    *(
        (name, re.compile(f"[{character_set(ranges)}]"), "\N{REPLACEMENT CHARACTER}")
        for name, ranges in REPLACED.items()
    ),
)
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
_NFC_STRETCH = re.compile(f"[\\x00-\\x7f]?[{character_set(NFC_ACTIVE)}]+")
_MARKER = re.compile(
    f"(?:{SPECIAL_TOKENS}|{ROLE_MARKERS})", re.IGNORECASE | re.MULTILINE | re.ASCII
)
_ASCII_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


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


def clean_text(text: str, *, break_markers: bool = True) -> CleanText:
    """Return `text` as it may be sent. A text that needs nothing comes back with no counts."""
    counts: Counter[str] = Counter()
    if not text.isascii() or _ASCII_SUSPECT.search(text):
        text = _without_hidden_characters(text, counts)
    if break_markers:
        text, counts["role-marker"] = _MARKER.subn(rf"\g<0>{MARK}", text)
    else:
        counts["role-marker-kept"] = sum(1 for _ in _MARKER.finditer(text))
    return CleanText(text, {name: count for name, count in counts.items() if count})


def _without_hidden_characters(text: str, counts: Counter[str]) -> str:
    for name, pattern, replacement in _EVERYWHERE:
        text, found = pattern.subn(replacement, text)
        counts[name] += found
    text = _in_nfc(text, counts)
    if not _NEEDED_SOMEWHERE.search(text):
        return text
    for name, pattern in _OUT_OF_PLACE:
        text, found = pattern.subn("", text)
        counts[name] += found
    text = _in_nfc(text, counts)
    # Marks that met when a joiner went between them may have changed places, and so a neighbour
    # of the next one. Such a text keeps none: it must come out the same when it comes again.
    if any(pattern.search(text) for _, pattern in _OUT_OF_PLACE):
        text, found = _NEEDED_SOMEWHERE.subn("", text)
        counts["joiner"] += found
        text = _in_nfc(text, counts)
    return text


def _in_nfc(text: str, counts: Counter[str]) -> str:
    def normalise(match: re.Match[str]) -> str:
        stretch = match.group()
        normal = unicodedata.normalize("NFC", stretch)
        if normal != stretch:
            counts["not-nfc"] += len(stretch)
        return normal

    return text if text.isascii() else _NFC_STRETCH.sub(normalise, text)
