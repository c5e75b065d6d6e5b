"""What the codes of a certificate mean, in words for people (docs/certificate.md has the codes).

It needs no package of the extra `pages`: the command line takes words from here, too.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from theatre.engine.scoring import Baseline
from theatre.engine.scoring.baselines import INTERCHANGEABLE, MEETS_INTERVAL
from theatre.engine.tier_assigner import VerificationTier

TIERS: Mapping[str, str] = {
    VerificationTier.UNVERIFIED: "too little evidence to rely on, whatever the score",
    VerificationTier.BACKTESTED: "well tested on recorded questions; not yet proven in use",
    VerificationTier.PROVEN: "tested again and again, in use, and repeated by others",
}
"""Tier → how well the claim is evidenced. No tier says how good the score is."""

CAPS: Mapping[str, str] = {
    "nothing-scored": "No episode was scored",
    "replays-below-50": "Fewer than 50 episodes were scored",
    "distinct-inputs-below-50": "Fewer than 50 different questions: copies count once",
    "distinct-per-criterion-below-30": "Fewer than 30 different questions for {}",
    "failure-rate-above-20": "More than 20 % of the episodes failed",
    "refusal-rate-above-max": "More refusals than the committed share",
    "declined-above-max": "More answers declined than the committed share for {}",
    "episodes-not-run": "The run did not reach its end",
    "measure-unqualified": "Nothing shows that the words or the model that measure {} are right",
    "human-part-missing": "People were to score {}, and did not",
    "ratings-too-few": "People's share in {} is larger than the answers that they rated carry",
    "episodes-withheld": "Some episodes are private: only their owner can compute them again",
    "gold-unpinned": "The right answers were not fixed by a hash",
    "step-failed": "The step {} of the run failed",
    "step-skipped": "The step {} of the run was skipped",
    "construct-not-isolated": "Nothing kept the construct from reading the right answers",
    "version-unreported": "The construct did not report its version",
    "criterion-n-below-30": "Fewer than 30 counted episodes for {}",
    "criterion-unscored": "{} has no score",
    "unscored-answers": "Some answers to {} could not be scored",
    "pin-missing": "The version of {} was not fixed beforehand",
    "version-mismatch": "Another version answered than was committed",
    "scorers-not-committed": "The scorers were not fixed beforehand",
    "answers-not-deterministic": "The same question got different answers",
    "mock-adapter": "A stand-in answered, not a real construct",
    "bundle-incomplete": "The evidence is not complete",
    "commitment-not-verifiable": "The commitment does not recompute",
    "dispute-open": "A dispute about it is open",
    "runs-below-3": "At least 3 runs of this version",
    "runs-span-below-90-days": "Runs over at least 90 days",
    "run-gap-above-45-days": "Runs without a gap of more than 45 days",
    "telemetry-missing": "Reports of its use in production",
    "telemetry-older-than-180-days": "Reports of its use in the last 180 days",
    "attestation-missing": "Someone independent who got the same results",
    "behavioural-signal-missing": "Evidence that it performs in use as it did here",
    "behavioural-signal-adverse": "In use it does worse than here",
}
"""Code of `caps` → what stands between this tier and the next; `{}` is what follows the colon."""

FINDINGS: Mapping[str, str] = {
    "network-open": "The construct could reach a network: others may have answered for it",
    "version-claimed": "Which version answered is the construct's own word",
    "version-declared": "What was asked is fixed; which weights or code answered cannot be seen",
    "environment-changed": "It ran in another environment than before",
    "step-failed": "The step {} of the run failed, and the run went on",
    "answers-in-inputs": "{} questions hold their own answer, word for word",
    "near-duplicates": "{} questions differ from others in numbers and signs alone",
    "interval-narrowed": "Groups of questions make the interval of {} less than half as wide",
    "ratings-left-out": "Some people began to rate {} and do not count, as they did not rate all",
    "authors-may-rate": "Nothing keeps the construct's author from rating {}",
    "own-scorer": "{} is scored by a program of an author's own: what it measures is his word",
    "answered-by-another": "{} is measured on the answer of another construct of the chain",
    "form-alone": "{} has no right answer: one in good form to any question has all of it",
    "judges-itself": "A judge of {} is the model whose answers it judges",
    "unweighted-judge": "{} counts for little, though the same judge's word counts elsewhere",
    "one-sided": "All of {} is had by always keeping an answer, always changing it, or a bad start",
    "left-out": "With what it declined of {} counted as 0, its score is below its interval",
    "one-expectation": "One answer is expected for {} wherever any is: saying it may always do",
    "baseline-meets-interval": "On {} an answer without any work does as well",
    "interchangeable-answers": "On {} its answers do as well for other questions than their own",
    "labels-by-models": "The measure of {} was held against labels that language models made",
    "controls-below-100": "Too few known claims went along to tell how the judge of {} errs",
    "controls-show-no-skill": "On claims of known truth the judge of {} did no better than a coin",
    "controls-recognisable": "The judge of {} could tell claims of known truth from the others",
    "controls-differ-by-source": "The judge of {} errs more on one sort of known claims",
    "controls-contradict-qualification": "The judge of {} errs more than its qualification says",
    "within-item-variance-unknown": "Questions were asked once: how much answers vary is unknown",
}
"""Code of `findings` → what a reader has to know and no tier rule looks at."""

VERSION_SOURCES: Mapping[str, str] = {
    "computed": "computed from its files on the issuer's machine",
    "claimed": "as the construct itself says",
    "declared": "of the request that is pinned; what answers it cannot be seen",
}
"""Who says which version it was."""

NOT_SIGNED = "not-signed"
REASONS: Mapping[str, str] = {
    NOT_SIGNED: "no signature that counts",
    "owner-not-confirmed": "It was not run by the confirmed owner of this construct",
    "owner-changed": "The construct has another owner since",
    "construct-not-registered": "This construct has no registered owner",
    "template-not-accepted": "The operator of this service does not accept this template",
    "issued-unverified": "It was issued as UNVERIFIED",
    "issued-in-the-future": "Its issuer's clock was ahead: it is dated after today's",
    "run-older-than-90-days": "The run is older than 90 days",
    "telemetry-older-than-180-days": "There was no report of its use for 180 days",
    "dispute-open": "A dispute about it is open",
    "newest-run-unverified": "The newest run of this version is UNVERIFIED",
    "dispute-filed": "A dispute was filed; it is not decided whether it is heard",
    "revoked": "It was taken back",
}
"""Why a tier is not the issued one."""

BASELINES: Mapping[str, str] = {
    Baseline.EMPTY: "an empty answer",
    Baseline.COPIED: "a copy of the question",
    Baseline.MOST_FREQUENT: "the most frequent expectation, always",
    Baseline.OTHER_EPISODE: "the answer to another episode",
}

NOT_APPLICABLE: Mapping[str, str] = {
    "judged": "a judge scores it",
    "human": "people alone decide it",
    "unplayable": "not played to an end",
}
"""Why a criterion has no baselines → the words of a table."""

OUTCOMES: Mapping[str, str] = {
    "scored": "answered",
    "missing": "no answer, counted 0",
    "excluded": "refused",
    "unscored": "not scored",
    "not_run": "not run",
}
"""Outcome of an episode → how it counts."""

METHODS: Mapping[str, str] = {
    "wilson": "Wilson's interval",
    "bca": "bootstrap of the questions (BCa)",
    "clt": "normal approximation",
    "mixed_clt": "normal approximation, with people's part",
    "cluster_bca": "bootstrap of the groups of questions (BCa)",
    "cluster_clt": "normal approximation over groups of questions",
    "cluster_mixed_clt": "normal approximation over groups of questions, with people's part",
}
"""Method of an interval → its words (docs/statistics.md)."""

NO_AGREEMENT: Mapping[str, str] = {
    "not-rated": "no one scored every answer",
    "fewer-than-2-scorers": "only one person scored every answer",
    "fewer-than-10-items": "there were fewer than 10 answers",
    "no-variation": "every score is the same",
}
"""Why no agreement of people can be stated (docs/contract/evidence.md §9)."""
DOES_NOT_PROVE = (
    "That the construct really gave these answers: the records are the issuer's.",
    "That the right answers are right. They are in the evidence, for anyone to read.",
    "That the construct had not seen the questions before.",
    "That it will do as well tomorrow, or elsewhere: one version, one dataset, one time.",
    "That there was no other run: one in secret is in no log.",
)
"""What no certificate shows (docs/certificate.md)."""


def explain_code(code: object, table: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the words for a code, with `{}` where its part after the colon stands, and that part.

    For a code that is in no table the words are the code.
    """
    name, colon, part = str(code).partition(":")
    if name not in table:
        return str(code).replace("{}", ""), None
    return table[name], part if colon else None


def count_met(findings: Iterable[object]) -> int:
    """Return on how many criteria an answer without any work does as well."""
    codes = (str(code).partition(":") for code in findings)
    return len({part for code, _, part in codes if code in {MEETS_INTERVAL, INTERCHANGEABLE}})


def best_baseline(
    baselines: Mapping[str, Any] | None, criterion: str
) -> tuple[float, Baseline] | str:
    """Return the highest score of an answer without any work and its way, or why there is none."""
    if baselines is None:
        return ""
    one = baselines["criteria"][criterion]
    if one["not_applicable"] is not None:
        return NOT_APPLICABLE.get(one["not_applicable"], "")
    scored = [(one[name.value]["score"], name) for name in Baseline if one[name.value] is not None]
    return max(scored, key=lambda pair: pair[0]) if scored else "never scored"
