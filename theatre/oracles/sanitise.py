"""What a construct is sent instead of the text that other people wrote.

Source: docs/contract/construct.md.

It takes hidden channels away and breaks the markers of chat formats. It reduces injection; it
does not promise to stop it: instructions in plain words are data, and stay.

Pure and total for JSON values, idempotent, versioned. `unicodedata` decides nothing that could
differ between two supported Pythons; see `theatre.oracles.sanitise_tables`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.canonical_json.writing import fast_canonical_bytes
from theatre.engine.models import SanitisedInput
from theatre.oracles.errors import SanitisePolicyError
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
    TABLES_SHA256,
    character_set,
)

MARK = "\N{MIDDLE DOT}"

_REPLACEMENTS = {
    "line-break": "\n",
    **dict.fromkeys(REMOVED, ""),
    **dict.fromkeys(REPLACED, "\N{REPLACEMENT CHARACTER}"),
}
# What is looked for beyond plain ASCII is text here: `re` compiles and keeps it at the first text
# that has any, and most runs meet none.
#
# One group a class, in the order of the table above, which gives a match its class.
_HIDDEN = "|".join(
    [
        f"({LINE_BREAKS})",
        *(f"([{character_set(ranges)}])" for ranges in (REMOVED | REPLACED).values()),
    ]
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
        # After a pictograph; in a keycap (digit, U+FE0F, U+20E3); after a Mongolian letter.
        (
            f"(?<!{_PICTOGRAPH})(?:\ufe0e|\ufe0f(?!(?<=[0-9#*]\ufe0f)\u20e3))"
            f"|(?<![{character_set(MONGOLIAN_LETTERS)}]){_FVS}"
        ),
    ),
    (
        "joiner",
        # U+200C within, U+200D after letters of the scripts that join; U+200D within emoji.
        (
            f"\u200c(?!(?<={_JOINING}\u200c){_JOINING})"
            f"|\u200d(?<!{_JOINING}\u200d)(?!(?<={_BEFORE_EMOJI_JOINER}\u200d){_PICTOGRAPH})"
        ),
    ),
)
_NEEDED_SOMEWHERE = f"[\u200c\u200d\ufe0e\ufe0f{character_set(MONGOLIAN_SELECTORS)}]"
_LONG = 100
_NFC_STRETCH = f"[\\x00-\\x7f]?[{character_set(NFC_ACTIVE)}]+"
_TOKEN = re.compile(SPECIAL_TOKENS, re.IGNORECASE | re.ASCII)
_ROLE = re.compile(ROLE_MARKERS, re.IGNORECASE | re.MULTILINE | re.ASCII)
_ASCII_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Printable ASCII without what every marker has: a colon, `<` or `[`.
_PLAIN = re.compile(r"[\t\n -9;=-Z\\-~]*")
# The canonical form of a value in which all texts and names are such: string for string.
_PLAIN_FORM = re.compile(rb'(?:[][{},.+\w-]++|"(?:[ !#-9;=-Z\]-~]++|\\[\\"nt])*+":?)*+')


class CleanText(NamedTuple):
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

    text = _in_nfc(re.sub(_HIDDEN, replace, text), counts)
    removed = 0
    if re.search(_NEEDED_SOMEWHERE, text):
        for name, pattern in _OUT_OF_PLACE:
            text, found = re.subn(pattern, "", text)
            removed += found
            if found:
                counts[name] += found
    return _settle(_in_nfc(text, counts), counts) if removed else text


def _settle(text: str, counts: defaultdict[str, int]) -> str:
    """Return `text` so that it comes out the same when it comes again.

    Marks that met when a joiner went from between them may have changed places, and with that
    the neighbour of another joiner. Such a text keeps none at all.
    """
    if not any(re.search(pattern, text) for _, pattern in _OUT_OF_PLACE):
        return text
    text, found = re.subn(_NEEDED_SOMEWHERE, "", text)
    counts["joiner"] += found
    return _in_nfc(text, counts)


def _in_nfc(text: str, counts: defaultdict[str, int]) -> str:
    if text.isascii():
        return text
    stretches = re.findall(_NFC_STRETCH, text)
    normal_forms = {stretch: _normal_form(stretch) for stretch in set(stretches)}
    if all(stretch == normal for stretch, normal in normal_forms.items()):
        return text
    counts["not-nfc"] += sum(
        len(stretch) for stretch in stretches if stretch != normal_forms[stretch]
    )
    return re.sub(_NFC_STRETCH, lambda match: normal_forms[match.group()], text)


def _normal_form(stretch: str) -> str:
    if len(stretch) > _LONG:
        # Its marks in canonical order first: `normalize` would sort them in quadratic time.
        decomposed = "".join(unicodedata.normalize("NFD", character) for character in stretch)
        runs = groupby(decomposed, key=lambda character: unicodedata.combining(character) > 0)
        stretch = "".join(
            "".join(sorted(run, key=unicodedata.combining) if are_marks else run)
            for are_marks, run in runs
        )
    return unicodedata.normalize("NFC", stretch)


SANITISER = "theatre-sanitise/1.0.0"

# The record lists what a reader can use; the rest can be had by running the sanitiser again.
_MAX_LISTED = 100
_MAX_POINTER = 1000

_Path: TypeAlias = "tuple[_Path, str | int] | None"
_RawTree: TypeAlias = "dict[str | None, _RawTree]"
# A container, its clean form to be filled, where it is, and which fields below it stay raw.
_Container: TypeAlias = JsonObject | list[JsonValue]
_Visit: TypeAlias = "tuple[_Container, _Container, _Path, _RawTree | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitisePolicy:
    """What is done about role markers, and which fields are left as they are.

    `role_markers`: `break` puts a middle dot after a marker's first character, `flag` counts
    only. `raw_fields` are JSON pointers (RFC 6901); everything at and below one is left alone,
    and one that leads nowhere in a value is no error. Raises SanitisePolicyError for a text
    that is no pointer.
    """

    role_markers: Literal["break", "flag"] = "break"
    raw_fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for pointer in self.raw_fields:
            unescaped = pointer.replace("~0", "").replace("~1", "")
            if (pointer and not pointer.startswith("/")) or "~" in unescaped:
                raise SanitisePolicyError(
                    f"expected a JSON pointer, as /description, got {pointer!r:.100}"
                )


_DEFAULT_POLICY = SanitisePolicy()


class FieldEdit(NamedTuple):
    """One changed (or flagged) text: its JSON pointer, cut at 1,000 characters, and counts."""

    path: str
    counts: Mapping[str, int]


class Sanitised(NamedTuple):
    """What the sanitiser made of one value.

    `value` is `raw` itself where nothing changed. `edits` lists the first 100 of
    `fields_changed` texts (members by name, outer before inner ones); `counts` sums up all of
    them, by the classes of `CleanText`. `wrong_keys` points to the first 100 members whose
    names would have to change: a name cannot be changed silently, so such a value must not be
    sent at all.
    """

    raw: JsonValue
    value: JsonValue
    policy: SanitisePolicy
    edits: tuple[FieldEdit, ...]
    fields_changed: int
    counts: Mapping[str, int]
    wrong_keys: tuple[str, ...]

    def record(self) -> JsonObject:
        """Return what the evidence keeps: enough to see what changed and to do it again.

        Errors as `canonical_sha256`.
        """
        raw_sha256 = canonical_sha256(self.raw)
        return {
            "sanitiser_version": SANITISER,
            "tables_sha256": TABLES_SHA256,
            "role_markers": self.policy.role_markers,
            "raw_fields": list(self.policy.raw_fields),
            "raw_sha256": raw_sha256,
            "sent_sha256": raw_sha256 if self.value is self.raw else canonical_sha256(self.value),
            "counts": dict(sorted(self.counts.items())),
            "fields_changed": self.fields_changed,
            "fields": [
                {"path": edit.path, "counts": dict(sorted(edit.counts.items()))}
                for edit in self.edits
            ],
            "wrong_keys": list(self.wrong_keys),
        }


def sanitise(value: JsonValue, policy: SanitisePolicy = _DEFAULT_POLICY) -> Sanitised:
    """Return `value` with every text in it cleaned; look at `wrong_keys` before it is sent."""
    form = fast_canonical_bytes(value)
    if form is not None and _PLAIN_FORM.fullmatch(form):
        # Most inputs: one look at the whole, and no walk through its parts.
        return Sanitised(
            raw=value,
            value=value,
            policy=policy,
            edits=(),
            fields_changed=0,
            counts={},
            wrong_keys=(),
        )
    return _Walk(policy).over(value)


class _Walk:
    """One pass over one value. It keeps its own stack: depth is the other side's choice."""

    def __init__(self, policy: SanitisePolicy) -> None:
        self._policy = policy
        self._break_markers = policy.role_markers == "break"
        self._edits: list[FieldEdit] = []
        self._fields_changed = 0
        self._is_changed = False
        self._counts: Counter[str] = Counter()
        self._wrong_keys: list[str] = []
        self._stack: list[_Visit] = []

    def over(self, value: JsonValue) -> Sanitised:
        clean = self._clean(value, None, _raw_tree(self._policy.raw_fields))
        while self._stack:
            self._enter(self._stack.pop())
        return Sanitised(
            raw=value,
            value=clean if self._is_changed else value,
            policy=self._policy,
            edits=tuple(self._edits),
            fields_changed=self._fields_changed,
            counts=dict(self._counts),
            wrong_keys=tuple(self._wrong_keys),
        )

    def _enter(self, visit: _Visit) -> None:
        """Fill the clean form of one container; its own containers are put on the stack."""
        item, clean, path, raw = visit
        height = len(self._stack)
        if isinstance(item, dict) and isinstance(clean, dict):
            for key in sorted(item):
                self._judge_key(key, path)
                clean[key] = self._clean(item[key], (path, key), raw and raw.get(key))
        elif isinstance(clean, list):
            for n, child in enumerate(item):
                clean.append(self._clean(child, (path, n), raw and raw.get(str(n))))
        if len(self._stack) > height + 1:
            self._stack[height:] = reversed(self._stack[height:])

    def _clean(self, item: JsonValue, path: _Path, raw: _RawTree | None) -> JsonValue:
        """Return the clean form of a value; that of a container is filled later."""
        if raw is not None and None in raw:
            return item
        if isinstance(item, str):
            return item if is_plain(item) else self._clean_text(item, path)
        if not item or not isinstance(item, dict | list):
            return item
        clean: _Container = {} if isinstance(item, dict) else []
        self._stack.append((item, clean, path, raw))
        return clean

    def _clean_text(self, text: str, path: _Path) -> str:
        clean = clean_text(text, break_markers=self._break_markers)
        if clean.counts:
            self._is_changed |= clean.text != text
            self._fields_changed += 1
            for name, count in clean.counts.items():
                self._counts[name] += count
            if len(self._edits) < _MAX_LISTED:
                self._edits.append(FieldEdit(_pointer(path), clean.counts))
        return clean.text

    def _judge_key(self, key: str, path: _Path) -> None:
        if is_plain(key) or len(self._wrong_keys) >= _MAX_LISTED:
            return
        if clean_text(key, break_markers=self._break_markers).text != key:
            self._wrong_keys.append(_pointer((path, key)))


def _raw_tree(pointers: Iterable[str]) -> _RawTree | None:
    """Return the pointers as nested tables by token; None as a key marks the end of one."""
    tree: _RawTree = {}
    for pointer in pointers:
        node = tree
        for token in pointer.split("/")[1:]:
            node = node.setdefault(token.replace("~1", "/").replace("~0", "~"), {})
        node[None] = {}
    return tree or None


def _pointer(path: _Path) -> str:
    """Return a JSON pointer; where a name in it hides something, in ASCII with escapes."""
    tokens: list[str] = []
    while path is not None:
        path, token = path
        tokens.append(str(token)[:_MAX_POINTER].replace("~", "~0").replace("/", "~1"))
    pointer = "".join(f"/{token}" for token in reversed(tokens))[:_MAX_POINTER]
    if clean_text(pointer).text == pointer:
        return pointer
    return pointer.encode("ascii", "backslashreplace").decode("ascii")


# The sanitiser as a run uses it: one policy an episode, one record of what it did.


class TextSanitiser:
    """Cleans the text of an episode's input before a construct sees it."""

    @property
    def version(self) -> str:
        """Return name and version; the tables have their own digest in each record."""
        return SANITISER

    def sanitise(
        self,
        value: JsonObject,
        *,
        role_markers: Literal["break", "flag"],
        raw_fields: tuple[str, ...],
    ) -> SanitisedInput:
        """Return what is sent instead of `value`; SanitisePolicyError for no JSON pointer."""
        policy = SanitisePolicy(role_markers=role_markers, raw_fields=raw_fields)
        made = sanitise(value, policy)
        return SanitisedInput(
            value=cast("JsonObject", made.value), record=made.record(), wrong_keys=made.wrong_keys
        )
