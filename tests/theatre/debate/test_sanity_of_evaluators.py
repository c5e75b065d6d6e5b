"""What means nothing moves no evaluator, and taking away a falsifier raises nothing: all debates.

The corpus, and turns that are put together at random, in the context of a whole debate.
"""

import copy
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theatre.debate.debates import ADVICE, a_debate
from tests.theatre.debate.scripted_runs import FIXTURES
from theatre.debate.blind import blind
from theatre.debate.evaluators import EVALUATORS, t3
from theatre.debate.evaluators.results import Evaluation
from theatre.debate.models import Debate
from theatre.debate.text import CHANGE_OF_MIND
from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object

BLIND = ("crit", "rca", "t3")
CORPUS = [
    parse_object(path.read_bytes())
    for kind in ("handwritten", "scripted")
    for path in sorted((FIXTURES / kind).glob("*.json"))
]
HEADING = re.compile(r"(?m)^(?=(?:### |\d+\) )[A-Z])")
FALSIFIER = re.compile(
    r"(?:Falsifier|Falsified if):.*?(?=Mechanism:|Evidence:|Falsifi|\Z)", re.DOTALL
)
REQUIRED = t3.RequiredReasoning(rung="L2")


def rewritten(debate: JsonObject, change: Callable[[str], str]) -> Debate:
    """Return the debate with `change` done to all that was said; the rules are not asked."""
    draft: Any = copy.deepcopy(debate)
    for turn in draft["turns"]:
        for said in (turn, *(turn.get("attempts") or ())):
            said["content"] = change(said["content"])
    return Debate.model_validate(draft)


def found(debate: Debate) -> dict[str, Evaluation]:
    required = t3.evaluate(blind(debate), REQUIRED)
    return {**{name: EVALUATORS[name](debate) for name in BLIND}, "t3 L2": required}


def documents(debate: Debate) -> list[bytes]:
    return [canonical_bytes(one.as_document(artefact_sha256="")) for one in found(debate).values()]


def spread(text: str) -> str:
    """Put other white space wherever there is some; a heading keeps its line."""
    return "\n\n".join(
        "\n".join([first.replace(" ", " \t"), *(rest and [rest[0].replace(" ", "\n ")])])
        for part in HEADING.split(text)
        for first, *rest in [part.split("\n", 1)]
    )


def other_way_round(text: str) -> str:
    opening, *sections = HEADING.split(text)
    return opening + "".join(one.rstrip("\n") + "\n\n" for one in reversed(sections))


@pytest.mark.parametrize("change", [spread, other_way_round])
def test_white_space_and_order_change_no_result_for_any_debate_of_the_corpus(
    change: Callable[[str], str],
) -> None:
    moved = 0
    for debate in CORPUS:
        other = rewritten(debate, change)
        moved += other != Debate.model_validate(debate)
        assert documents(other) == documents(Debate.model_validate(debate)), debate["run_id"]
    assert moved > len(CORPUS) - 5


def without(text: str, which: int) -> tuple[str, int]:
    """Return `text` without its falsifier number `which`, and how many there are."""
    sections = HEADING.split(text)
    places: list[tuple[int, int, int]] = []
    for at, section in enumerate(sections):
        heading = section.split("\n", 1)[0]
        if "REASON" in heading:
            places += [(at, one.start(), one.end()) for one in FALSIFIER.finditer(section)]
        elif CHANGE_OF_MIND in heading:
            places.append((at, len(heading), len(section)))
    if which < len(places):
        at, start, end = places[which]
        sections[at] = sections[at][:start] + "\n" + sections[at][end:]
    return "".join(sections), len(places)


HIGHER_IS_BETTER = ("gamma_mean", "theta_mean", "gamma_crit", "gamma_net", "rho", "passed_rate")
HIGHER_IS_WORSE = ("inconsistent_rate", "rung_collapse_rate", "sycophantic_share_of_changes")


def scores(debate: Debate) -> Iterator[tuple[str, float]]:
    """Yield every score of every evaluator so that more is better; null as the least."""
    for name, result in found(debate).items():
        yield f"{name} findings", -len(result.findings)
        rows: list[dict[str, Any]] = [result.summary, *result.turns]
        for row in rows:
            where = f"{name} {row.get('turn_index', 'all')}"
            figures = {**row, **row.get("pillars", {})}
            for member in (*HIGHER_IS_BETTER, "logical_validity", "alternative_consideration"):
                if member in figures:
                    value = figures[member]
                    yield f"{where} {member}", -math.inf if value is None else value
            for member in HIGHER_IS_WORSE:
                if figures.get(member) is not None:
                    yield f"{where} {member}", -figures[member]
            for member in ("threshold_pass", "pass", "trace_output_consistent"):
                if isinstance(figures.get(member), bool):
                    yield f"{where} {member}", float(figures[member])
            if "pearl_rung_detected" in figures:
                yield f"{where} rung", float((figures["pearl_rung_detected"] or "L0")[1])


def raised_by_deletion(debate: JsonObject) -> tuple[list[str], int]:
    """Return what got higher by deleting any one falsifier, and how many were deleted."""
    raised, deleted = [], 0
    before = dict(scores(Debate.model_validate(debate)))
    turns: Any = debate["turns"]
    for place, turn in enumerate(turns):
        for which in range(without(turn["content"], 99)[1]):
            draft: Any = copy.deepcopy(debate)
            draft["turns"][place]["content"] = without(turn["content"], which)[0]
            after = dict(scores(Debate.model_validate(draft)))
            assert set(after) == set(before)
            raised += [name for name in before if after[name] > before[name] + 1e-12]
            deleted += 1
    return raised, deleted


@pytest.mark.parametrize("kind", ["handwritten", "scripted"])
def test_no_deleted_falsifier_raises_a_score_of_any_evaluator(kind: str) -> None:
    names = [path.stem for path in sorted((FIXTURES / kind).glob("*.json"))]
    deleted = 0
    for name in names if kind == "handwritten" else names[::5]:
        debate = parse_object((FIXTURES / kind / f"{name}.json").read_bytes())
        raised, count = raised_by_deletion(debate)
        assert raised == [], name
        deleted += count
    assert deleted > 25


_PIECES = """### CLAIM|### DECISION|### REASON 1|### REASON 2|### REBUTTAL|### COUNTERARGUMENT
### WHAT WOULD CHANGE MY MIND|Falsifier: prices fall by 3 %, and I concede.
Falsified if: one SELLs. You are right then.|Falsifier: I stand corrected if bales had been sold.
Evidence: [DATA:clip] The clip fell by 14 %.|Evidence: [ASSUMPTION] Mills like wool.
Mechanism: a small clip leads to higher prices at every auction because mills hold no stock.
If mills buy now then prices rise because stocks are low.|BUY|SELL
fair point|I defer.|Yarn is dear.|Rain drives it. Dry years lead to more of it. So it is."""
PIECES = [piece for line in _PIECES.split("\n") for piece in line.split("|")]
STRUCTURED = ["### CLAIM", "Wool is warm.", "### REASON 3", "Evidence: [DATA:x] 3 % of it."]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map(
    lambda pieces: "\n".join([*STRUCTURED, *pieces])
)


def talk(*texts: str) -> dict[str, Any]:
    """Return a debate in which two speakers say `texts` by turns, each after the other's advice."""
    first = a_debate()["turns"][0]
    turns = [
        {
            **first,
            "turn_id": f"t{place}",
            "turn_index": place,
            "speaker_id": ("ann", "bo")[place % 2],
            "content": text,
            "recommendation": {**ADVICE, "action": ("SELL", "BUY", "BUY")[place % 3]},
        }
        for place, text in enumerate(texts)
    ]
    return a_debate(turns=turns, intervention_log=None)


@given(texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS))
@settings(max_examples=40, deadline=None)
def test_no_deleted_falsifier_of_any_text_raises_a_score(texts: tuple[str, ...]) -> None:
    assert raised_by_deletion(talk(*texts))[0] == []


@given(texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS))
@settings(max_examples=60, deadline=None)
def test_white_space_changes_no_result_of_any_text(texts: tuple[str, ...]) -> None:
    debate = talk(*texts)
    plain = documents(Debate.model_validate(debate))
    assert documents(rewritten(debate, spread)) == plain
    wider = rewritten(debate, lambda text: text.replace(" ", " \t ").replace("\n", "\n\r\n"))
    assert documents(wider) == plain


BODIES = st.lists(
    st.sampled_from([piece for piece in PIECES if "###" not in piece]), min_size=1, max_size=3
).map("\n".join)


@given(bodies=st.tuples(*[BODIES] * 5), data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_order_of_sections_changes_no_result_of_any_text(
    bodies: tuple[str, ...], data: st.DataObject
) -> None:
    names = ("CLAIM", "REBUTTAL", "REASON 1", "REASON 2", "REASON 11")
    sections = [f"### {name}\n{body}" for name, body in zip(names, bodies, strict=True)]
    other = data.draw(st.permutations(sections))
    one, turned = ([*STRUCTURED[:2], *order] for order in (sections, other))
    before, after = (talk("\n".join(order)) for order in (one, turned))
    assert documents(Debate.model_validate(after)) == documents(Debate.model_validate(before))


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("You\nare \t right.", "SYCOPHANTIC_FLIP"),
        ("I stand\n corrected.", "SYCOPHANTIC_FLIP"),
        ("Falsifier: you are right if bales are sold.", None),
        ("A fair\npoint.", "STUBBORN"),
        ("Falsifier: I concede if bales are sold.", None),
    ],
)
def test_a_concession_over_two_lines_is_one_and_a_conditional_one_is_none(
    said: str, code: str | None
) -> None:
    argued = "### CLAIM\nBuy.\n### REASON 1\nEvidence: [DATA:{}] The clip fell.\n{}"
    debate = talk(*(argued.format(place, "") for place in range(4)))
    flips = code == "SYCOPHANTIC_FLIP" or "you are" in said
    place = 2 if flips else 3  # ann changes from SELL to BUY, as bo had said; bo keeps to BUY
    debate["turns"][3]["recommendation"] = {**ADVICE, "action": "BUY"}
    debate["turns"][place]["content"] = argued.format(place, said)
    codes = [one.code for one in EVALUATORS["rca"](Debate.model_validate(debate)).findings]
    assert codes == ([code] if code else [])
