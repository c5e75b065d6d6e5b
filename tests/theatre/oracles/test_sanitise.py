"""What constructs are sent of text that other people wrote."""

import hashlib
import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.drawn import drawn
from theatre.engine.canonical_json import JsonValue, canonical_bytes, canonical_sha256
from theatre.oracles.errors import SanitisePolicyError
from theatre.oracles.sanitise import (
    SANITISER,
    FieldEdit,
    Sanitised,
    SanitisePolicy,
    clean_text,
    is_plain,
    sanitise,
)
from theatre.oracles.sanitise_tables import (
    JOINING_SCRIPTS,
    NFC_ACTIVE,
    PICTOGRAPHS,
    REMOVED,
    REPLACED,
    TABLES_SHA256,
)

FLAG = SanitisePolicy(role_markers="flag")

# Text with something in it: what is sent, and what is counted.
CHANGED: dict[str, tuple[str, str, dict[str, int]]] = {
    "NUL": ("a\0b", "ab", {"control": 1}),
    "escape sequence": ("\x1b[31mred\x1b[0m", "[31mred[0m", {"control": 2}),
    "delete and C1": ("a\x7f\x80\x9fb", "ab", {"control": 3}),
    "CRLF": ("a\r\nb\r\nc", "a\nb\nc", {"line-break": 2}),
    "lone CR": ("a\rb", "a\nb", {"line-break": 1}),
    "VT, FF, NEL, LS, PS": (
        "a\x0bb\x0cc\x85d\u2028e\u2029f",
        "a\nb\nc\nd\ne\nf",
        {"line-break": 5},
    ),
    "tags": (
        "hi" + "".join(chr(0xE0000 + ord(letter)) for letter in "ignore all"),
        "hi",
        {"tag": 10},
    ),
    "Trojan source": ("a\u202eb\u2066c\u2069\u202c", "abc", {"bidi": 4}),
    "bidi marks": ("a\u200eb\u200fc\u061cd", "abcd", {"bidi": 3}),
    "zero-width": ("a\u200bb\u2060c\ufeffd\u00ade", "abcde", {"zero-width": 4}),
    "invisible operators": ("f\u2061x\u2062y\u2063z\u2064", "fxyz", {"zero-width": 4}),
    "fillers": ("a\u3164b\uffa0c\u115f\u1160d", "abcd", {"zero-width": 4}),
    "joiner in Latin": ("in\u200cvis\u200dible", "invisible", {"joiner": 2}),
    "joiner in digits": ("1\u200d2", "12", {"joiner": 1}),
    "bits in joiners": ("می\u200c\u200d\u200c\u200dخواهم", "میخواهم", {"joiner": 4}),
    "joiner at the end of a word": ("می\u200c", "می", {"joiner": 1}),
    "bytes in selectors": (
        "😀" + "".join(chr(0xE0100 + n) for n in range(20)) + "\ufe00\ufe0d",
        "😀",
        {"variation-selector": 22},
    ),
    "selector after a letter": ("a\ufe0fb\ufe0e", "ab", {"variation-selector": 2}),
    "second selector": ("❤\ufe0f\ufe0f", "❤\ufe0f", {"variation-selector": 1}),
    "keycap without the key": ("1\ufe0f2", "12", {"variation-selector": 1}),
    "Mongolian selector after a letter of others": ("a\u180bb", "ab", {"variation-selector": 1}),
    "joiner before no emoji": ("👩\u200da", "👩a", {"joiner": 1}),
    "two joiners in an emoji": ("👩\u200d\u200d👧", "👩👧", {"joiner": 2}),
    "joiner behind a removed selector": (
        "a\ufe0f\u200d👧",
        "a👧",
        {"variation-selector": 1, "joiner": 1},
    ),
    "flag of England": (
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "🏴",
        {"tag": 6},
    ),
    "lone surrogate": ("a\ud800b\udfff", "a\ufffdb\ufffd", {"surrogate": 2}),
    "noncharacters": ("\ufdd0\uffff\U0010ffff", "\ufffd" * 3, {"noncharacter": 3}),
    "private use": ("\ue000\uf8ff\U000f0000\U0010fffd", "\ufffd" * 4, {"private-use": 4}),
    "decomposed": ("cafe\u0301 au lait", "café au lait", {"not-nfc": 2}),
    "marks out of order": ("q\u0307\u0323", "q\u0323\u0307", {"not-nfc": 3}),
    "Hangul in parts": ("\u1112\u1161\u11ab", "한", {"not-nfc": 3}),
    "Kelvin and Ohm": ("\u212a\u2126", "KΩ", {"not-nfc": 2}),
    "accent behind a joiner": ("e\u200d\u0301", "é", {"joiner": 1, "not-nfc": 2}),
    "joiner between marks that then change places": (
        "\u0628\u0301\u200d\u0650\u200c\u0628",
        "\u0628\u0650\u0301\u0628",
        {"joiner": 2, "not-nfc": 2},
    ),
    "bad joiner beside a good one": (
        "a\ufe0f\u200d👧 \u0645\u06cc\u200c\u062e",
        "a👧 \u0645\u06cc\u200c\u062e",
        {"variation-selector": 1, "joiner": 1},
    ),
    "marker behind a zero-width space": (
        "<|im\u200b_start|>",
        "<·|im_start|>",
        {"zero-width": 1, "role-marker": 1},
    ),
    "role behind a form feed": (
        "x\x0cSystem: y",
        "x\nS·ystem: y",
        {"line-break": 1, "role-marker": 1},
    ),
}


@pytest.mark.parametrize(("text", "sent", "counts"), CHANGED.values(), ids=CHANGED.keys())
def test_what_a_reader_cannot_see_does_not_reach_a_construct(
    text: str, sent: str, counts: dict[str, int]
) -> None:
    clean = clean_text(text)
    assert (clean.text, clean.counts) == (sent, counts)
    again = clean_text(sent)
    assert (again.text, again.counts) == (sent, {})


UNCHANGED = {
    "plain": "Hello, world! 1 < 2 && x[0] == 'a'; {\"k\": [1]}",
    "tab and line feed": "a\tb\nc\n",
    "accents": "Ça va où, naïve Zoë? Größe, façade, ñandú, Łódź, čeština",
    "Cyrillic": "Съешь ещё этих мягких французских булок",
    "Greek": "Ταχίστη ἀλώπηξ βαφὴς ψημένη γῆ",
    "Vietnamese": "Tiếng Việt đủ dấu",
    "Persian": "می‌خواهم کتاب‌ها را ببینم، نیم‌فاصله",
    "Persian year": "۱۴۰۳ ه‍.ش.",
    "Arabic": "السَّلَامُ عَلَيْكُمْ",
    "Urdu": "پاکستان زندہ باد",
    "Hebrew with points": "בְּרֵאשִׁית",
    "Devanagari": "क्‍ष, क्‌ष, हिन्दी में र्‍य और श्री",
    "Malayalam": "അവന്‍ പറഞ്ഞു",
    "Sinhala": "ශ්‍රී ලංකා",
    "Bengali": "র‍্যাব",
    "Thai": "ภาษาไทยไม่มีช่องว่าง",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ᠎".replace("\u180e", "") + "\u182d\u180b",
    "Chinese": "我能吞下玻璃而不伤身体。",
    "Japanese": "いろはにほへと ガギグ がぎぐ",
    "Korean": "한국어 텍스트",
    "family": "👨‍👩‍👧‍👦",
    "mixed family": "👩🏽‍🤝‍👨🏿",
    "detective": "🕵️‍♀️",
    "heart": "❤️ ❤︎ ☎️",
    "heart on fire": "❤️‍🔥",
    "rainbow flag": "🏳️‍🌈",
    "polar bear": "🐻‍❄️",
    "keycaps": "1️⃣ #️⃣ *️⃣",
    "flag": "🇺🇦",
    "skin": "👍🏿",
    "newer than the tables": "\U0001fae8 \U0001f6dc \u2ffc",
    "superscripts and full width": "x² ﬁ Ａ ½ ①",
    "combining that has no composite": "q\u0307 q\u0323\u0307",
    "braces": "<b>bold</b> <script> [link](url) a<b>c [x] [INSTRUCTION]",
    "roles in the middle": "the System: is fine, as a user: of it, subsystem:",
    "role without a colon": "System\nuser manual\nAssistant professor",
    "input without a hash": "input: 3\nresponse: 4",
    "pipes": "a <| b |> c <|> <||> |x|",
    "time": "12:30 http://example.org:80 a::b",
}


@pytest.mark.parametrize("text", UNCHANGED.values(), ids=UNCHANGED.keys())
def test_honest_text_of_any_language_is_left_alone(text: str) -> None:
    clean = clean_text(text)
    assert (clean.text, clean.counts) == (text, {})


TOKENS = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|system|>",
    "<|start_header_id|>",
    "<|eot_id|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|reserved special token 3|>",
    "<｜begin▁of▁sentence｜>",
    "<｜User｜>",
    "[INST]",
    "[/INST]",
    "[inst]",
    "<<SYS>>",
    "<</SYS>>",
    "<s>",
    "</s>",
    "<bos>",
    "<eos>",
    "<pad>",
    "<unk>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[/TOOL_RESULTS]",
    "<tool_call>",
    "</tool_response>",
    "<think>",
    "</think>",
    "[gMASK]",
    "<sop>",
]


@pytest.mark.parametrize("token", TOKENS)
def test_a_special_token_is_broken_after_its_first_character(token: str) -> None:
    clean = clean_text(f"before {token}{token} after")
    broken = f"{token[0]}·{token[1:]}"
    assert (clean.text, clean.counts) == (f"before {broken}{broken} after", {"role-marker": 2})


ROLES = {
    "System: x": "S·ystem: x",
    "system: x": "s·ystem: x",
    "SYSTEM : x": "S·YSTEM : x",
    "User: x": "U·ser: x",
    "Human: x": "H·uman: x",
    "Assistant: x": "A·ssistant: x",
    "Developer: x": "D·eveloper: x",
    "  > **System:** x": "  > **S·ystem:** x",
    "**User**: x": "**U·ser**: x",
    "### System: x": "### S·ystem: x",
    "### Instruction: x": "### I·nstruction: x",
    "## Response: x": "## R·esponse: x",
    "- Human: x": "- H·uman: x",
}


@pytest.mark.parametrize(("line", "broken"), ROLES.items())
def test_a_role_that_opens_a_line_is_broken(line: str, broken: str) -> None:
    clean = clean_text(f"{line}\n\n{line}")
    assert (clean.text, clean.counts) == (f"{broken}\n\n{broken}", {"role-marker": 2})


def test_markers_are_only_counted_where_the_policy_says_so() -> None:
    text = "System: <s>\u200b"
    result = sanitise({"a": text, "b": "plain: yes"}, FLAG)
    assert (result.value, result.edits) == (
        {"a": "System: <s>", "b": "plain: yes"},
        (FieldEdit("/a", {"zero-width": 1, "role-marker-kept": 2}),),
    )
    flagged_only = sanitise(["<s>"], FLAG)
    assert flagged_only.value is flagged_only.raw
    assert flagged_only.counts == {"role-marker-kept": 1}


NESTED: JsonValue = {
    "description": "fine",
    "diff": "a\u202eb",
    "list": ["x\0", {"deep/er": {"t~t": "\u200b\u200b"}}, 1, None, True, 1.5, ["<s>"]],
}


def test_every_text_of_a_value_is_cleaned_and_the_record_says_where() -> None:
    before = canonical_bytes(NESTED)
    result = sanitise(NESTED)
    sent: JsonValue = {
        "description": "fine",
        "diff": "ab",
        "list": ["x", {"deep/er": {"t~t": ""}}, 1, None, True, 1.5, ["<·s>"]],
    }
    assert result.value == sent
    assert result.record() == {
        "sanitiser_version": SANITISER,
        "tables_sha256": TABLES_SHA256,
        "role_markers": "break",
        "raw_fields": [],
        "raw_sha256": canonical_sha256(NESTED),
        "sent_sha256": canonical_sha256(sent),
        "counts": {"bidi": 1, "control": 1, "role-marker": 1, "zero-width": 2},
        "fields_changed": 4,
        "fields": [
            {"path": "/diff", "counts": {"bidi": 1}},
            {"path": "/list/0", "counts": {"control": 1}},
            {"path": "/list/1/deep~1er/t~0t", "counts": {"zero-width": 2}},
            {"path": "/list/6/0", "counts": {"role-marker": 1}},
        ],
        "wrong_keys": [],
    }
    assert canonical_bytes(NESTED) == before


def test_a_value_that_needs_nothing_is_itself() -> None:
    value: JsonValue = {"a": ["b", {"c: d": 1}]}
    result = sanitise(value)
    assert result == Sanitised(
        raw=value,
        value=value,
        policy=SanitisePolicy(),
        edits=(),
        fields_changed=0,
        counts={},
        wrong_keys=(),
    )
    assert result.value is value
    record, sha256 = result.record(), canonical_sha256(value)
    assert (record["raw_sha256"], record["sent_sha256"]) == (sha256, sha256)


@pytest.mark.parametrize("value", [None, True, 3, 1.5, "text", "\0", [], {}, [[]], {"": {}}])
def test_any_json_value_will_do(value: JsonValue) -> None:
    assert sanitise(value).value == ("" if value == "\0" else value)


RAW_FIELDS = {
    "a field": (("/diff",), {"diff"}),
    "in a list": (("/list/0",), {"list/0"}),
    "below": (("/list/1",), {"list/1/deep~1er/t~0t"}),
    "escaped": (("/list/1/deep~1er/t~0t",), {"list/1/deep~1er/t~0t"}),
    "two": (("/diff", "/list"), {"diff", "list/0", "list/1/deep~1er/t~0t", "list/6/0"}),
    "all": (("",), {"diff", "list/0", "list/1/deep~1er/t~0t", "list/6/0"}),
    "nowhere": (("/missing/x", "/list/00", "/description/0", "/list/-"), set()),
    "the beginning of a name": (("/dif", "/lis"), set()),
}


@pytest.mark.parametrize(("pointers", "raw"), RAW_FIELDS.values(), ids=RAW_FIELDS.keys())
def test_a_raw_field_is_left_alone_with_all_below_it(
    pointers: tuple[str, ...], raw: set[str]
) -> None:
    result = sanitise(NESTED, SanitisePolicy(raw_fields=pointers))
    changed = {"/diff", "/list/0", "/list/1/deep~1er/t~0t", "/list/6/0"}
    assert {edit.path for edit in result.edits} == changed - {f"/{path}" for path in raw}
    assert result.record()["raw_fields"] == list(pointers)


@pytest.mark.parametrize("pointer", ["diff", "#/diff", "/a~2b", "/a~", " /a"])
def test_a_raw_field_that_is_no_pointer_is_refused(pointer: str) -> None:
    with pytest.raises(SanitisePolicyError, match="expected a JSON pointer"):
        SanitisePolicy(raw_fields=(pointer,))


def test_a_name_that_would_have_to_change_is_reported_and_kept() -> None:
    value: JsonValue = {
        "a\u200b": {"\u202e/": "x", "fine": "y"},
        "System:": [{"<s>": 1}],
        "raw": {"\0": "\0"},
    }
    result = sanitise(value, SanitisePolicy(raw_fields=("/raw",)))
    assert result.wrong_keys == (
        "/S·ystem:".replace("·", ""),
        "/a\\u200b",
        "/System:/0/<s>",
        "/a\\u200b/\\u202e~1",
    )
    assert result.value == value
    assert sanitise({"System:": 1}, FLAG).wrong_keys == ()


def test_a_record_stays_small_whatever_is_sent() -> None:
    value: JsonValue = {"k" * 100_000: ["\0"] * 5000, **{f"\0{n}": n for n in range(5000)}}
    result = sanitise(value)
    record = result.record()
    assert (result.fields_changed, result.counts) == (5000, {"control": 5000})
    assert (len(result.edits), len(result.wrong_keys)) == (100, 100)
    assert {len(edit.path) for edit in result.edits} == {1000}
    assert len(canonical_bytes(record)) < 150_000


HOSTILE_TEXTS = {
    "joiners": "a\u200d" * 260_000,
    "joiners alone": "\u200d" * 349_000,
    "joined letters": "\u0915\u094d\u200d" * 116_000,
    "families": "👨\u200d👩\u200d👧" * 58_000,
    "marks out of order": "a" + "\u0301\u0316" * 260_000,
    "marks that decompose": "\u0344\u0316" * 260_000,
    "starters that decompose to marks": "\u0f73" * 349_000,
    "decomposed": "e\u0301" * 340_000,
    "jamo": "\u1112\u1161\u11ab" * 116_000,
    "tags": "a\U000e0041" * 209_000,
    "controls": "a\0" * 520_000,
    "tokens": "<s>" * 349_000,
    "open brackets": "<" * 1_000_000,
    "tokens without an end": ("<|" + "a" * 64) * 15_000,
    "roles": "User:\n" * 170_000,
    "long indents": ("> " * 500_000) + "Use",
    "unsettled joiners": "\u0628\u0301\u200d\u0650\u200c\u0628" * 74_000,
}


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS.keys())
def test_hostile_text_is_cleaned_to_its_end(text: str) -> None:
    # Anything quadratic would take long here, not a part of a second: hours for all of it.
    assert len(text.encode()) <= 1024 * 1024
    text = text[: drawn(len(text))]
    cleaned = clean_text(text).text
    assert clean_text(cleaned).text == cleaned


HOSTILE_VALUES: dict[str, JsonValue] = {
    "many texts": ["\u200b"] * 170_000,
    "many different texts": [f"{n}\0" for n in range(110_000)],
    "many names": {f"{n}\u200b": "" for n in range(70_000)},
    "many containers": [[]] * 340_000,
    "a long name above many texts": {"k" * 500_000: ["\u200b"] * 80_000},
}


@pytest.mark.parametrize("value", HOSTILE_VALUES.values(), ids=HOSTILE_VALUES.keys())
def test_a_mebibyte_of_hostile_json_is_cleaned_to_its_end(value: JsonValue) -> None:
    cleaned = sanitise(value).value
    assert sanitise(cleaned).value == cleaned


def test_depth_is_no_matter() -> None:
    value: JsonValue = "\0"
    for _ in range(10 * sys.getrecursionlimit()):
        value = [value]
    result = sanitise(value)
    assert result.counts == {"control": 1}


def all_of(table: str) -> list[str]:
    pairs = [pair.split("-") for pair in table.split()]
    return [chr(n) for pair in pairs for n in range(int(pair[0], 16), int(pair[-1], 16) + 1)]


def characters(*tables: str) -> st.SearchStrategy[str]:
    pairs = [pair.split("-") for table in tables for pair in table.split()]
    ranges = [st.integers(int(pair[0], 16), int(pair[-1], 16)) for pair in pairs]
    return st.one_of(ranges).map(chr)


# Text as an attacker would write it: everything that has a rule, close together.
ANYTHING = st.characters(exclude_categories=[])
SPECIAL = characters(*REMOVED.values(), *REPLACED.values())
JOINED = st.sampled_from(
    "\u200c\u200d\ufe0e\ufe0f\u180b\u20e3\u0301\u0316\u0338\u0650\u093c\u094d1#"
)
PIECES = st.sampled_from(
    ["<", "|", ">", "<|", "|>", "<s>", "[", "INST", "]", "<<SYS>>", "System", ":", "\n", "\r", "#",
     "### ", "response", "User:", " ", "> ", "*", "·", "a", "x" * 65]
)  # fmt: skip
HARD_TEXT = st.lists(
    st.one_of(
        ANYTHING,
        SPECIAL,
        JOINED,
        JOINED,
        PIECES,
        characters(NFC_ACTIVE),
        characters(JOINING_SCRIPTS),
        characters(PICTOGRAPHS),
    ),
    max_size=30,
).map("".join)


@settings(max_examples=drawn(1500), deadline=None)
@given(HARD_TEXT, st.booleans())
def test_it_is_total_and_idempotent(text: str, break_markers: bool) -> None:  # noqa: FBT001 - drawn
    clean = clean_text(text, break_markers=break_markers)
    again = clean_text(clean.text, break_markers=break_markers)
    assert again.text == clean.text
    assert set(again.counts) <= {"role-marker-kept"}
    assert clean.text.encode("utf-8").decode("utf-8") == clean.text
    if break_markers:
        assert (clean.counts == {}) is (clean.text == text)


@settings(max_examples=drawn(500), deadline=None)
@given(HARD_TEXT)
def test_what_is_sent_is_in_nfc_as_far_as_unicode_14_goes(text: str) -> None:
    sent = clean_text(text).text
    if unicodedata.unidata_version == "14.0.0":
        assert unicodedata.is_normalized("NFC", sent)
    without_newer = "".join(
        character for character in sent if ord(character) < 0x250
    )  # in every version since 1.1
    assert unicodedata.is_normalized("NFC", without_newer)


@given(st.text(alphabet=[chr(n) for n in range(0x20, 0x7F) if chr(n) not in ":<["] + ["\t", "\n"]))
def test_plain_ascii_is_untouched(text: str) -> None:
    assert is_plain(text)
    clean = clean_text(text)
    assert (clean.text, clean.counts) == (text, {})


@given(st.text(alphabet=[chr(n) for n in range(0x80)], max_size=40))
def test_what_is_called_plain_needs_nothing(text: str) -> None:
    assert not is_plain(text) or clean_text(text).counts == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | HARD_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HARD_TEXT, inner, max_size=4),
    max_leaves=10,
)


_PIECES = st.sampled_from(
    [
        *(":", "system", "[", "]", "<s>", "[/INST]", '"', "\\", "\n", "\t", "\r", "\0", "\x7f"),
        *("{", ",", " "),
    ]
)


@given(st.lists(_PIECES, max_size=5).map("".join), st.lists(_PIECES, max_size=3).map("".join))
@settings(max_examples=200)
@example("system:", "")
@example(":user:", "system :")
@example("\u0001", "\u0001")
def test_a_value_is_cleaned_text_by_text_however_quickly(text: str, name: str) -> None:
    made = sanitise({"a": text, name: [1, text, {"b": text}]})
    clean = clean_text(text).text
    assert made.value == {"a": clean, name: [1, clean, {"b": clean}]}
    assert bool(made.wrong_keys) == (clean_text(name).text != name)


@settings(max_examples=drawn(300), deadline=None)
@given(JSON)
def test_values_are_total_and_idempotent_too(value: JsonValue) -> None:
    once = sanitise(value)
    twice = sanitise(once.value)
    assert twice.value == once.value
    assert (twice.edits, twice.counts) == ((), {})
    assert (once.fields_changed == 0) is (once.value is value)
    if not once.wrong_keys:
        # Not by `once.record()`: half a surrogate pair is taken out, and has no hash before.
        assert twice.record()["raw_sha256"] == canonical_sha256(once.value)


def test_code_points_go_where_they_belong() -> None:
    codes = [*range(0x3000), *range(0xFE00, 0x10000), *range(0xE0000, 0xE1100)]
    alone = {code: clean_text(chr(code)).text for code in codes}
    gone = {code for code, text in alone.items() if text == ""}
    changed = {code for code, text in alone.items() if text != chr(code)}
    assert {0x9, 0xA, *range(0x20, 0x7F)} & changed == set()
    assert gone & set(range(0x100)) == {
        *range(0x9),
        *range(0xE, 0x20),
        *range(0x7F, 0x85),
        *range(0x86, 0xA0),
        0xAD,
    }
    assert gone & set(range(0x2000, 0x2100)) == {
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
    }
    assert gone >= {*range(0xE0000, 0xE1000), *range(0xFE00, 0xFE10), 0xFEFF}
    assert {alone[code] for code in (0xFDD0, 0xFFFE, 0xFFFF) if code in alone} == {"\ufffd"}


# Combining marks of Unicode 15 and 16, which an older Python does not know for such.
NEWER_MARKS = [
    *(0x10EFD, 0x10EFE, 0x10EFF, 0x11F41, 0x11F42, 0x1E08F, 0x897, 0x11F5A, 0x16121, 0x16129),
]


@pytest.mark.reproducibility
def test_the_same_text_comes_out_on_every_python() -> None:
    syllables = range(0xAC00, 0xD7A4)
    active = {ord(character) for character in all_of(NFC_ACTIVE)}
    digest = hashlib.sha256(TABLES_SHA256.encode())
    for code in sorted(active.difference(syllables).union(range(0, 0x110000, 61), NEWER_MARKS)):
        around = f"e{chr(code)}\u0301\u0316\u200d{chr(code)}👧\u093c{chr(code)}\u200c\u0928"
        digest.update(clean_text(around).text.encode())
    assert digest.hexdigest() == "3e5a805d85d00d2cd14e3d383f71882501198a2454d162cdbf69026bdaeaa79d"
