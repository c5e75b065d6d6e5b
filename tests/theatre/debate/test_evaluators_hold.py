"""What moves evaluators, what must not, and what no text can make of them."""

import copy
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theatre.debate.debates import as_bytes
from tests.theatre.debate.judged_debates import by_tags, judged
from tests.theatre.debate.scripted_runs import FIXTURES, scripted, valid
from tests.theatre.debate.spoken_turns import FORGEABLE, results, turn
from theatre.debate.blind import blind
from theatre.debate.evaluators.crit import quality_of
from theatre.debate.models import Debate
from theatre.debate.validation import read_debate

UNSEEN: Any = st.recursive(
    st.none() | st.booleans() | st.text(max_size=6) | st.sampled_from(["BUY", "SELL"]),
    lambda inner: st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=4,
)


@cache
def of_the_base() -> tuple[Any, Any]:
    """Return what blind evaluators make of the debate itself, and what a model is asked of it."""
    base = valid(FORGEABLE)
    return results(base, ("crit", "rca", "t3")), judged(base, by_tags)[1]


@given(unseen=UNSEEN, label=st.sampled_from(["BUY", "SELL", "SHORT", "HOLD"]))
@settings(max_examples=25, deadline=None)
def test_what_the_blind_projection_drops_moves_no_blind_evaluator(unseen: Any, label: str) -> None:  # noqa: ANN401  # any JSON
    other = copy.deepcopy(FORGEABLE)
    open_objects = [other, other["metadata"], other["run_metadata"], *other["participants"]]
    for spoken in other["turns"]:
        open_objects += [spoken, *spoken["attempts"]]
        spoken["turn_metadata"] = {"ground_truth": label}
        for attempt in spoken["attempts"]:
            attempt |= {"audit": {"t3": {"feedback": label}}, "control_state": None}
            attempt["attempt_metadata"] = {"truth": unseen}
    for place in open_objects:
        place |= {"ground_truth": label, "outcome": unseen}
    other |= {"raud_it": {"metrics": {"truth": label}}, "intervention_log": None}
    names, (expected, asked) = ("crit", "rca", "t3"), of_the_base()
    assert results(valid(other), names) == expected
    # Nor what a model is asked, and so nothing that it could answer by.
    assert judged(valid(other), by_tags)[1] == asked


def test_text_moves_nothing_in_what_only_sees_numbers() -> None:
    other = copy.deepcopy(FORGEABLE)
    for spoken in other["turns"]:
        for part in (spoken, *spoken["attempts"]):
            part["content"] = "something else"
    names = ("pid",)
    assert results(Debate.model_validate(other), names) == results(valid(FORGEABLE), names)


_NAMES = """CLAIM DECISION REASON_1 REASON_2 REASON_3 REASON_4 COUNTERARGUMENT REBUTTAL ASSUMPTIONS
EPISTEMIC_CLARITY WHAT_WOULD_CHANGE_MY_MIND FINAL_CONSISTENCY_CHECK"""
STUFFED = "\n".join(
    f"### {name.replace('_', ' ')}\n[DATA] If then because mechanism, if data then data because "
    "data. BUY. rise"
    for name in _NAMES.split()
)


def test_headings_stuffed_with_the_right_words_do_not_beat_an_honest_turn() -> None:
    stuffed = quality_of(turn(STUFFED))
    assert stuffed is not None
    assert len(stuffed.reasons) == 1  # said four times, counted once
    for seed in range(20):
        document: Any = scripted(seed, mode="posthoc", rounds=1)
        for spoken in document["turns"]:
            honest = quality_of(turn(spoken["content"]))
            assert honest is not None
            assert stuffed.gamma_crit < honest.gamma_crit
            assert stuffed.rho < honest.rho


def handwritten() -> dict[str, float]:
    """Return `gamma_crit` of every structured turn that was written by hand."""
    found = {}
    for path in sorted((FIXTURES / "handwritten").glob("*.json")):
        for spoken in blind(read_debate(path.read_bytes()).debate).turns:
            quality = quality_of(spoken)
            if quality is not None:
                found[f"{path.stem} {spoken.turn_index}"] = quality.gamma_crit
    return found


def test_stuffing_beats_no_turn_that_was_written_by_hand() -> None:
    stuffed = quality_of(turn(STUFFED))
    assert stuffed is not None
    assert len(handwritten()) == 17
    assert [name for name, figure in handwritten().items() if figure <= stuffed.gamma_crit] == []


NONSENSE = "".join(
    f"""### REASON {number}
Evidence: [DATA:s{number}] 1{number} and 2{number} {one} grows beyond every expected {two}, which
lifts gains for {three} all round.
If {one} {two} persists then {three} demand rises because {four} {five} carry through.
Falsifier: none of {one}.
"""
    for number, (one, two, three, four, five) in enumerate(
        (
            ("lorem", "ipsum", "dolor", "amet", "consectetur"),
            ("adipiscing", "elit", "eiusmod", "tempor", "incididunt"),
        ),
        start=1,
    )
)


def test_whole_sentences_of_nonsense_beat_every_honest_turn_as_the_page_admits() -> None:
    forged = quality_of(turn(f"### CLAIM\nThings lead to growth.\n### DECISION\nBUY\n{NONSENSE}"))
    assert forged is not None
    assert (forged.gamma_crit, forged.threshold_pass) == (1.0, True)
    assert max(handwritten().values()) < 1.0


_PIECES = """### CLAIM|### REASON 1|2) REASON 99|### DECISION|BUY|SELL|\n| |if|then|because|[DATA:x]
|[ASSUMPTION]|Falsifier:|I concede|would have|14 %|.|ß|### COUNTERARGUMENT|### REBUTTAL|SIZE 0-0%
|\u2028|\x00|### WHAT WOULD CHANGE MY MIND"""
PIECES = st.sampled_from(_PIECES.split("|"))


@given(texts=st.lists(st.lists(PIECES, max_size=20).map("".join), min_size=4, max_size=4))
@settings(max_examples=60, deadline=None)
def test_no_text_makes_an_evaluator_fail(texts: list[str]) -> None:
    document = copy.deepcopy(FORGEABLE)
    for spoken, text in zip(document["turns"], texts, strict=True):
        spoken |= {"content": text or "-", "attempts": None}
        spoken["rca_trace"] = {"reasoning_steps": text, "final_answer": text}
    debate = read_debate(as_bytes({**document, "evaluation_mode": "posthoc"})).debate
    for result in results(debate, ("crit", "rca", "t3", "pid")):
        assert result.startswith(b"{")
