"""Everything that can be refused before a construct is called for the first time.

A committed policy that this version cannot obey is refused, never ignored: a certificate that
says "sanitised" or "repeated" must mean it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from theatre.engine.bundle_check.arithmetic import is_of_type
from theatre.engine.canonical_json import DEFAULT_MAX_BYTES, JsonObject
from theatre.engine.errors import (
    IsolationLostError,
    PinMismatchError,
    ProgrammeError,
    RehearsalAdapterError,
)
from theatre.engine.models import MAX_EPISODE_BYTES, SINGLE_CALL, EpisodeRunner, InputSanitiser
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    Isolation,
    OracleAdapter,
    RehearsalAdapter,
)
from theatre.engine.replay.context import RunContext
from theatre.engine.replay.workflow import PlannedComputation
from theatre.engine.resolution import COMPUTATION, INVOCATION, RUBRIC, ResolutionStateMachine
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import CommittedRating, TheatreScoringProvider
from theatre.engine.templates import ProductTheatreTemplate

# What the audit trail says of the start of a run: everything that the evidence rests on.


def activation_detail(
    template: ProductTheatreTemplate,
    provider: TheatreScoringProvider,
    computations: Sequence[PlannedComputation],
    sanitiser: InputSanitiser | None,
    context: RunContext,
    tried: Mapping[str, Isolation],
) -> JsonObject:
    """Return what `activated` says in addition to the number of episodes; `tried` is by construct.

    `authors` only where people rate: who may not rate must be known before the result is, and
    evidence holds no person's name that it does not need.
    """
    detail: JsonObject = {
        "adapters": {name: adapter.pin for name, adapter in context.adapters.items()},
        "scorers": dict(provider.scorer_pins),
        "computations": {
            planned.computation.name: planned.computation.version for planned in computations
        },
        "sanitiser": None if sanitiser is None else sanitiser.version,
        "environment": context.environment,
        "previous_environment": context.previous_environment,
        "isolation": {name: one.as_document() for name, one in tried.items()},
    }
    if context.run_nonce:
        detail["run_nonce"] = context.run_nonce.hex()
    if provider.ratings:
        names = (hop.construct_id for hop in template.hops)
        detail["authors"] = {name: context.authors.get(name) for name in names}
    return detail


def refuse_other_interpreter(now: JsonObject | None, begun: JsonObject | None) -> None:
    """Raise PinMismatchError where something else runs the constructs than when the run began.

    Only the beginning is on record: who went on with another program of the same name would be
    certified under the first. Distributions may change, as they do with a release of ours.
    """
    expected, found = ((one or {}).get("interpreter") for one in (begun, now))
    if expected is not None and found != expected:
        raise PinMismatchError(
            f"expected the constructs to be run by {expected}, as when the run began, got "
            f"{found}: bring the old one back, or commit a new theatre"
        )


def refuse_weaker(tried: Mapping[str, Isolation], begun: Mapping[str, Isolation]) -> None:
    """Raise IsolationLostError where a construct could reach more than when the run began."""
    for name, one in tried.items():
        if not one.covers(begun[name]):
            raise IsolationLostError(
                f"expected {name} isolated as when the run began "
                f"({_words(begun[name])}), got {_words(one)}"
            )


def _words(one: Isolation) -> str:
    closed = [name for name in ("files", "processes", "network") if getattr(one, name)]
    return f"{', '.join(closed) or 'nothing'} closed, by {one.by}"


_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*", re.DOTALL)
# Each further dataset becomes a file of that name in the evidence.
_DATASET_FILE = re.compile(r"(?!(?:dataset|gold_labels)$)[A-Za-z0-9_-][A-Za-z0-9_.-]*")
# So do the scores of each rating.
_RATING_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def refuse_unsupported(
    template: ProductTheatreTemplate,
    ratings: Sequence[CommittedRating],
    sanitiser: InputSanitiser | None,
    registry: SchemaRegistry,
    runners: Mapping[str, EpisodeRunner],
) -> None:
    """Raise ProgrammeError listing every committed policy that cannot be obeyed."""
    policy, config = template.execution_policy, template.product_theatre_config
    runner = runners.get(config.episode_runner)
    answers = largest_answers_bytes(template, turns=runner.max_calls if runner else None)
    problems = {
        "execution_policy.sanitise_input needs a sanitiser, and there is none": (
            policy.sanitise_input and sanitiser is None
        ),
        "construct_chain, max_retries, repeats and deterministic_sample must allow "
        f"{ANSWERS_SHARE} bytes of answers at most in one record, not {answers}": (
            answers > ANSWERS_SHARE
        ),
        "episode_runner must be single_call": (
            config.episode_runner != SINGLE_CALL and runner is None
        ),
        "dataset_paths must have names that are file names, not dataset or gold_labels": any(
            name != config.gold_label_dataset_id and not _DATASET_FILE.fullmatch(name)
            for name in config.dataset_paths
        ),
    }
    ResolutionStateMachine(template.programme)
    unmet = [text for text, applies in problems.items() if applies]
    unmet += [
        *(_runner_faults(template, runner) if runner else ()),
        *_chain_faults(template),
        *_input_policy_faults(template),
        *_schema_faults(template, registry),
        *_rating_faults(template, ratings),
    ]
    if unmet:
        raise ProgrammeError(
            f"this version cannot run the template as committed: {'; '.join(unmet)}"
        )


def _runner_faults(template: ProductTheatreTemplate, runner: EpisodeRunner) -> Iterator[str]:
    """Yield what an interactive episode cannot be committed to: its turns depend on answers."""
    if len(template.hops) != runner.constructs:
        called = ", ".join(hop.construct_id for hop in template.hops)
        yield (
            f"an episode_runner must have as many constructs as it plays: {runner.name} plays "
            f"{runner.constructs}, not {len(template.hops)} ({called})"
        )
    if template.execution_policy.deterministic_sample:
        yield "an episode_runner must have deterministic_sample 0"
    if template.execution_policy.sanitise_input:
        yield "an episode_runner must have sanitise_input false: it writes what is sent"


def _chain_faults(template: ProductTheatreTemplate) -> Iterator[str]:
    """Yield what keeps the steps and the chain from being the same calls: none is left out."""
    config = template.product_theatre_config
    under_test = config.construct_under_test
    steps = [step for step in template.programme if step.type == INVOCATION]
    called = [step.construct_id or under_test for step in steps]
    chain = list(config.construct_chain) or called
    if len(set(chain)) != len(chain):
        yield "a chain must name each construct once"
    if called != chain and not (len(called) == 1 and called[0] in chain):
        yield "construct_chain must name the constructs of the construct_invocation steps in order"
    if under_test not in chain:
        yield "the constructs that are called must include construct_under_test"


def _input_policy_faults(template: ProductTheatreTemplate) -> Iterator[str]:
    spec = next(step.input_spec for step in template.programme if step.type == INVOCATION)
    markers, raw_fields = spec.get("role_markers", "break"), spec.get("raw_fields", [])
    if markers not in ("break", "flag"):
        yield f"input_spec.role_markers must be break or flag, got {markers!r:.60}"
    if not isinstance(raw_fields, list):
        yield f"input_spec.raw_fields must be an array of JSON pointers, got {raw_fields!r:.60}"
        return
    for pointer in raw_fields:
        if not (isinstance(pointer, str) and _POINTER.fullmatch(pointer)):
            yield f"input_spec.raw_fields must be JSON pointers, got {pointer!r:.60}"


def _schema_faults(template: ProductTheatreTemplate, registry: SchemaRegistry) -> Iterator[str]:
    for step in template.programme:
        if step.output_spec and step.type not in {INVOCATION, COMPUTATION}:
            yield f"output_spec of step {step.step_id} must be left out: it has no output"
        for fault in registry.inline_faults(step.output_spec):
            where = fault.pointer or "its root"
            yield f"output_spec of step {step.step_id}, at {where}: {fault.detail}"


def _rating_faults(
    template: ProductTheatreTemplate, ratings: Sequence[CommittedRating]
) -> Iterator[str]:
    """Yield what keeps people's scores from being asked for, stored or counted as committed."""
    by_step = {rating.step_id: rating for rating in ratings}
    shared = Counter(rating.criterion_id for rating in ratings if rating.share is not None)
    for step in template.programme:
        if step.type != RUBRIC:
            continue
        rating = by_step.get(step.step_id)
        if rating is None:
            yield f"step {step.step_id} must have its entry in hitl_steps"
            continue
        if not _RATING_FILE.fullmatch(step.step_id):
            yield f"step_id {step.step_id!r:.60} must be a file name: its scores become a file"
        if rating.criterion_id is not None and not rating.in_aggregate:
            yield f"step {step.step_id} must stand before the first aggregation"
        if shared[rating.criterion_id] > 1:
            yield f"criterion {rating.criterion_id} must have a share in one rating only"


def check_adapters(
    template: ProductTheatreTemplate,
    adapters: Mapping[str, OracleAdapter],
    *,
    certificate_run: bool,
) -> None:
    """Check every adapter against the template's pins.

    Raises RehearsalAdapterError for canned answers in a certificate run and PinMismatchError,
    with both versions, for an adapter or a construct that is not the committed one. In a rehearsal
    canned answers may stand in for any of them.
    """
    config = template.product_theatre_config
    for hop in template.hops:
        construct_id = hop.construct_id
        adapter = adapters[construct_id]
        if certificate_run:
            refuse_rehearsal(adapter)
        elif isinstance(adapter, RehearsalAdapter):
            # It stands in for whatever is pinned; its own pin is in every record.
            continue
        own = config.construct_endpoints.get(construct_id, config)
        if not is_of_type(adapter.pin, own.adapter_type):
            raise PinMismatchError(
                f"adapter of {construct_id}: expected the committed type {own.adapter_type}, "
                f"got {adapter.pin}"
            )
        _check_pin(f"adapter of {construct_id}", template.version_pins.adapter_version, adapter.pin)
        place = f" (hop {hop.number})" if len(template.hops) > 1 else ""
        what = f"construct {construct_id}{place}"
        _check_pin(what, hop.construct_version, adapter.computed_version)


def refuse_rehearsal(adapter: OracleAdapter) -> None:
    """Raise RehearsalAdapterError for an adapter whose answers are canned, by its type."""
    if isinstance(adapter, RehearsalAdapter):
        raise RehearsalAdapterError(
            f"expected an adapter that reaches a real construct, got {adapter.pin}: "
            "its canned answers can never back a certificate"
        )


def _check_pin(what: str, pinned: str | None, seen: str | None) -> None:
    if pinned is not None and seen is not None and pinned != seen:
        raise PinMismatchError(
            f"expected {what} in version {pinned} (committed), got {seen}: commit a new theatre "
            "for the new version, or bring the old one back"
        )


# How large an invocation record can become, whatever constructs answer (docs/adr/0055).
#
# A record that was written must be read back, so what a template may ask for is bounded before the
# first call: an answer within its own limits can then never make a run unreadable.


INPUTS_SHARE = DEFAULT_MAX_BYTES // 4
"""What the episode's input may take of a record, in bytes, in all calls together."""

ANSWERS_SHARE = DEFAULT_MAX_BYTES - INPUTS_SHARE

_GROWTH = 4
"""Canonical JSON takes less than four times the bytes it was read from: 1e15 has 16 digits."""


def largest_episode_bytes(template: ProductTheatreTemplate) -> int:
    """Return how long a line of the replay dataset may be, in bytes: every call repeats it."""
    rounds, hops = _rounds_and_hops(template)
    return min(MAX_EPISODE_BYTES, INPUTS_SHARE // (_GROWTH * rounds * hops))


def largest_answers_bytes(template: ProductTheatreTemplate, *, turns: int | None = None) -> int:
    """Return the largest size of all answers and rejected bytes of one record, in bytes.

    Hop k is sent the outputs of the k hops before it, and answers with one more. `turns` is how
    many calls an interactive episode has, whose runner writes what is sent.
    """
    rounds, hops = _rounds_and_hops(template)
    sent_on = hops * (hops - 1) // 2
    if turns is not None:
        hops, sent_on = turns, 0
    rejected = hops * (template.execution_policy.retry_policy.max_retries + 1)
    return rounds * (_GROWTH * (hops + sent_on) + rejected) * MAX_ANSWER_BYTES


def _rounds_and_hops(template: ProductTheatreTemplate) -> tuple[int, int]:
    # Not `template.hops`: chain and steps may still contradict each other here.
    invoked = sum(step.type == INVOCATION for step in template.programme)
    hops = max(len(template.product_theatre_config.construct_chain), invoked)
    policy = template.execution_policy
    return max(policy.repeats, 2 if policy.deterministic_sample else 1), hops
