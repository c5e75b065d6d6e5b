"""Control items: claims of known truth among those that a judge is asked about.

Half of them are planted in the run's own change and mixed with the construct's claims, half are
about a change of the labelled set, in a request of its own with the same form. What rides along,
where, and in which order is drawn by the coin; no control touches a score.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import ScoringCase
from theatre.engine.scoring.qualification import LabelledRow
from theatre.verification.change_facts import find_code_names
from theatre.verification.judge.planted import ControlClaim, Lots, PlantedClaims, is_sentence
from theatre.verification.labelled_claims import SHIPPED_SHA256, shipped_set

MAX_PLANTED: Final = 6
"""So many true controls, and false ones, are planted at most among the claims of an answer."""

MAX_LABELLED: Final = 6
"""So many claims the set has about a change."""

ENOUGH_EPISODES: Final = 100
"""With so many episodes that have controls there are 200 of either sort: more change little."""

LABELLED: Final = "labelled"
_TRIES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlan:
    """What rides along with the claims of one answer.

    `labelled` are about the change with `labelled_diff`.
    """

    planted: Sequence[ControlClaim] = ()
    labelled: Sequence[ControlClaim] = ()
    labelled_diff: str = ""
    labelled_first: bool = False

    @property
    def controls(self) -> tuple[ControlClaim, ...]:
        """Return all of them."""
        return (*self.planted, *self.labelled)


@dataclass(frozen=True, slots=True)
class AnsweredControl:
    """A control and whether the judge called it supported; None where it was not usable."""

    control: ControlClaim
    supported: bool | None


def committed_controls(episodes: int) -> JsonObject:
    """Return the parameter `controls` for a dataset of so many episodes.

    One in `every` has them: about 100 of them, however many there are.
    """
    return {"every": max(1, episodes // ENOUGH_EPISODES), "labelled_sha256": SHIPPED_SHA256}


def plan_controls(
    case: ScoringCase, diff: str, texts: Sequence[str], *, whole: bool
) -> ControlPlan:
    """Return what the coin has drawn for the claims `texts` of an answer; at least one of them.

    There are none where none were committed. Nothing is planted in a change of which the judge is
    not shown the `whole` diff.
    """
    controls = case.params.get("controls")
    if not isinstance(controls, dict):
        return ControlPlan()
    every = int(cast("float", controls["every"]))
    # All passes and judges are asked about the same ones: only so is it known what they come to.
    seed = f"{case.judge_seed.partition('/')[0]}/0", cast("str", case.params["field"])
    return _drawn(seed, every, diff, tuple(texts), whole=whole)


# An answer is asked about, scored, compared and checked in turn: it is drawn once.
@lru_cache(maxsize=4)
def _drawn(
    seed: tuple[str, str], every: int, diff: str, texts: tuple[str, ...], *, whole: bool
) -> ControlPlan:
    lots = Lots(*seed)
    if lots.below(every):
        return ControlPlan()
    # Of either sort half as many as there are claims: were it a number for every answer, the
    # claims of short answers would be rarer than the controls that look like them.
    wanted = min(MAX_PLANTED, (len(texts) + lots.below(2)) // 2)
    planted = [*_plant(lots, diff, texts, wanted)] if whole else []
    lack = {
        side: 2 * wanted - sum(claim.is_true is side for claim in planted) for side in (True, False)
    }
    labelled_diff, labelled = _about_set(lots, texts, lack, len(texts) + len(planted))
    return ControlPlan(
        planted=planted,
        labelled=labelled,
        labelled_diff=labelled_diff,
        labelled_first=not lots.below(2),
    )


def _plant(lots: Lots, diff: str, texts: Sequence[str], wanted: int) -> Iterator[ControlClaim]:
    """Yield so many true and false claims about the episode's own change as can be made."""
    own = PlantedClaims(diff, texts, lots)
    for is_true in lots.shuffled((True, False) * wanted):
        like = texts[lots.below(len(texts))]
        claim = own.plant(is_true=is_true, like=like)
        if claim is None and not is_true and is_sentence(like):
            claim = _absent(lots, diff)
        if claim is not None:
            yield claim


def _absent(lots: Lots, diff: str) -> ControlClaim | None:
    """Return a sentence of the set that names only what is nowhere in this change."""
    texts = [*shipped_set().claims.values()]
    for _ in range(_TRIES):
        text = texts[lots.below(len(texts))]
        names = find_code_names(text)
        if names and not any(name.casefold() in diff.casefold() for name in names):
            return ControlClaim(text, is_true=False, kind="absent")
    return None


def _about_set(
    lots: Lots, texts: Sequence[str], lack: dict[bool, int], shown: int
) -> tuple[str, Sequence[ControlClaim]]:
    """Return a diff of the set with as many claims as the episode's own request has.

    It is asked about so seldom that the sorts are filled up on average, and only as far as the
    construct writes sentences: among its short forms those of the set would stand out.
    """
    size, wanted = min(MAX_LABELLED, shown), sum(lack.values())
    if not wanted or lots.below(size) >= wanted:
        return "", ()
    size = sum(is_sentence(texts[lots.below(len(texts))]) for _ in range(size))
    true = (size * lack[True] + lots.below(wanted)) // wanted
    change_ids = sorted(shipped_set().changes)
    change_id = change_ids[lots.below(len(change_ids))]
    rows = lots.shuffled(row for row in shipped_set().rows if row.change_id == change_id)
    chosen = [row for row in rows if row.is_true][:true]
    chosen += [row for row in rows if not row.is_true][: size - true]
    diff = cast("str", shipped_set().changes[change_id]["diff"])
    return diff, [_of_set(row) for row in lots.shuffled(chosen)]


def _of_set(row: LabelledRow) -> ControlClaim:
    return ControlClaim(
        text=shipped_set().claims[row.claim_id],
        is_true=row.is_true,
        kind=row.kind,
        source=LABELLED,
        change_id=row.change_id,
        claim_id=row.claim_id,
    )
