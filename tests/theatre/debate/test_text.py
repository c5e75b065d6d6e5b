"""What is read of a text: rungs by their words, sections, reasons and falsifiers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.debate.text import polarity, read_structure, rung_of, words

PIECES = (
    *("If", "if", "then", "will", "would have", "but for", "could not have", "have", "\u0131f"),
    *("causes", "Led to", "drives", "drove", "because", "pushes", "due to", "results in"),
    *("correlated", "as\u017fociated", "tends to", "moves with", "along\u017fide", "FOLLOWS"),
    *(" ", "  ", "\n", ".", "? ", ", ", "-", "'"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text(max_size=30))
def test_signs_hide_no_word_that_the_patterns_would_find(text: str) -> None:
    # Without a sign an ASCII text is not searched; another letter makes every pattern be tried.
    assert rung_of(text) == rung_of(f"{text} \u00e9")


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
        assert rung_of(f"This {word}{tails.get(word, '')} that.") == expected
    further = {"results in": 2, "due to": 2, "moves with": 1, "together with": 1, "goes with": 1}
    assert {one: rung_of(f"It {one} that") for one in further} == further


def test_a_word_begins_with_a_letter_and_keeps_its_apostrophes_and_hyphens() -> None:
    text = "'Tis the clip's -own well-known fibre: 3x, Kelvin's"
    assert words(text) == ["tis", "the", "clip's", "own", "well-known", "fibre", "x", "kelvin's"]


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


def test_a_negation_turns_the_next_two_words() -> None:
    said = ("rises", "no rises", "never again rises", "not what ever rises")
    assert [polarity(words(text)) for text in said] == [1, -1, -1, 1]
