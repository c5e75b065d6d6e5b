"""How large an invocation record can become, whatever constructs answer (docs/adr/0055).

A record that was written must be read back, so what a template may ask for is bounded before the
first call: an answer within its own limits can then never make a run unreadable.
"""

from __future__ import annotations

from theatre.engine.canonical_json import DEFAULT_MAX_BYTES
from theatre.engine.models import MAX_EPISODE_BYTES
from theatre.engine.oracle_contract import MAX_ANSWER_BYTES
from theatre.engine.templates import ProductTheatreTemplate

INPUTS_SHARE = DEFAULT_MAX_BYTES // 4
"""What the episode's input may take of a record, in bytes, in all calls together."""

ANSWERS_SHARE = DEFAULT_MAX_BYTES - INPUTS_SHARE

_GROWTH = 4
"""Canonical JSON takes less than four times the bytes it was read from: 1e15 has 16 digits."""


def largest_episode_bytes(template: ProductTheatreTemplate) -> int:
    """Return how long a line of the replay dataset may be, in bytes: every call repeats it."""
    calls = _rounds(template) * _hops(template)
    return min(MAX_EPISODE_BYTES, INPUTS_SHARE // (_GROWTH * calls))


def largest_answers_bytes(template: ProductTheatreTemplate, *, turns: int | None = None) -> int:
    """Return the largest size of all answers and rejected bytes of one record, in bytes.

    Hop k is sent the outputs of the k hops before it, and answers with one more. `turns` is how
    many calls an interactive episode has, whose runner writes what is sent.
    """
    hops = _hops(template) if turns is None else turns
    sent_on = hops * (hops - 1) // 2 if turns is None else 0
    rejected = hops * (template.execution_policy.retry_policy.max_retries + 1)
    return _rounds(template) * (_GROWTH * (hops + sent_on) + rejected) * MAX_ANSWER_BYTES


def _hops(template: ProductTheatreTemplate) -> int:
    # Not `template.hops`: chain and steps may still contradict each other here.
    invoked = sum(step.type == "construct_invocation" for step in template.programme)
    return max(len(template.product_theatre_config.construct_chain), invoked)


def _rounds(template: ProductTheatreTemplate) -> int:
    return 2 if template.execution_policy.deterministic_sample else 1
