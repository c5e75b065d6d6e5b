"""Quick ways to read text find what the plain ones find.

Source: docs/design/families.md, "Small measures".
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.debate import text as rungs
from theatre.debate.models import actions_in
from theatre.debate.text import numbers, read_structure, sentences, words

PIECES = (
    *("BUY", "SELL", "SHORT", "HOLD", "xBUY", "BUY2", "_HOLD", "HOLDS", "éBUY", "SHORTBUY"),
    *("1.5", "a1", "1,000.", ".5", "12", "3.4.5", "٣", "-7", "2."),
    *("If", "if", "then", "will", "would have", "but for", "could not have", "have"),
    *(
        "causes",
        "Led to",
        "drives",
        "drove",
        "because",
        "pushes",
        "due to",
        "results in",
        "\u0131f",
    ),
    *(
        "correlated",
        "as\u017fociated",
        "tends to",
        "moves with",
        "Kelvin",
        "along\u017fide",
        "FOLLOWS",
    ),
    *(" ", "  ", "\n", "\t", ".", "!", "? ", ". ", ", ", "-", "'"),
)
TEXT = st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text(max_size=30)


@given(TEXT)
def test_words_sentences_numbers_and_actions_are_those_of_the_plain_patterns(text: str) -> None:
    line = " ".join(text.split())
    plain_sentences = [one for one in re.split(r"(?<=[.!?])\s+", line) if one]
    assert sentences(text) == plain_sentences
    assert words(text) == [word.lower() for word in re.findall(r"[A-Za-z][A-Za-z'-]*", text)]
    assert numbers(text) == set(re.findall(r"(?<![A-Za-z\d.])\d+(?:[.,]\d+)*", text))
    assert actions_in(text) == re.findall(r"\b(BUY|SELL|SHORT|HOLD)\b", text)


@given(TEXT)
def test_a_rung_is_that_of_the_patterns_alone(text: str) -> None:
    condition = rungs.CONDITION_WORDS.search(text)
    if rungs.COUNTERFACTUAL_WORDS.search(text):
        expected = rungs.COUNTERFACTUAL
    elif (
        condition and rungs.CONSEQUENCE_WORDS.search(text, condition.end())
    ) or rungs.CAUSAL_WORDS.search(text):
        expected = rungs.INTERVENTION
    else:
        expected = rungs.ASSOCIATION if rungs.ASSOCIATIVE_WORDS.search(text) else rungs.NONE
    assert rungs.rung_of(text) == expected


@pytest.mark.parametrize(
    ("words_of_rung", "expected"),
    [
        ("causes caused cause drives drive drove led lead forces forced pushes because", 2),
        ("correlated associated tends coincides alongside typically follows", 1),
    ],
)
def test_every_word_of_a_rung_is_seen(words_of_rung: str, expected: int) -> None:
    tails = {"led": " to", "lead": " to", "tends": " to"}
    for word in words_of_rung.split():
        assert rungs.rung_of(f"This {word}{tails.get(word, '')} that.") == expected
    further = {"results in": 2, "due to": 2, "moves with": 1, "together with": 1, "goes with": 1}
    assert {one: rungs.rung_of(f"It {one} that") for one in further} == further


def test_headings_are_found_wherever_a_line_begins_like_one() -> None:
    text = (
        "before\n### CLAIM one\n  2) DECISION: BUY\nmore\n#REASON 1\n### reason 9\n"
        "\t٣. REASON 2\nDATA # REBUTTAL\n### REASON 1\nagain"
    )
    structure = read_structure(text)
    assert structure is not None
    assert structure.sections == {
        "CLAIM": "one",
        "DECISION": "BUY more",
        "REASON 1": "### reason 9 again",
        "REASON 2": "DATA # REBUTTAL",
    }


def test_reasons_are_read_in_the_order_of_their_numbers() -> None:
    names = [f"Breed{chr(97 + number)}" for number in range(12)]
    many = "".join(f"### REASON {number}\n{name}.\n" for number, name in enumerate(names, 1))
    structure = read_structure(f"### CLAIM\nWool.\n{many}")
    assert structure is not None
    assert [one.text for one in structure.reasons] == [f"{name}." for name in names]


def test_what_stands_under_a_heading_for_the_second_time_is_no_part_of_a_falsifier() -> None:
    reason = "### REASON 1\nThe clip fell.\nFalsifier: it rose.\n### REASON 1\nMills buy."
    structure = read_structure(f"Well.\n### CLAIM\nWool.\n{reason}")
    assert structure is not None
    ((one,), opening) = structure.reasons, structure.opening
    assert (one.text, one.falsifier, opening) == ("The clip fell. Mills buy.", "it rose.", "Well.")
    assert structure.asserted == ["Well.", "Wool.", "The clip fell. Mills buy."]
