"""Everything that can be refused before a construct is called for the first time.

A committed policy that this version cannot obey is refused, never ignored: a certificate that
says "sanitised" or "repeated" must mean it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from theatre.engine.errors import PinMismatchError, ProgrammeError, RehearsalAdapterError
from theatre.engine.oracle_contract import OracleAdapter, RehearsalAdapter
from theatre.engine.resolution import INVOCATION, ResolutionStateMachine
from theatre.engine.templates import ProductTheatreTemplate

# Each further dataset becomes a file of that name in the evidence.
_FILE_NAME = re.compile(r"(?!(?:dataset|gold_labels)$)[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def refuse_unsupported(template: ProductTheatreTemplate) -> None:
    """Raise ProgrammeError listing every committed policy that cannot be obeyed yet."""
    policy, config = template.execution_policy, template.product_theatre_config
    problems = {
        "execution_policy.sanitise_input must be committed as false": policy.sanitise_input,
        "execution_policy.deterministic_sample must be 0": policy.deterministic_sample > 0,
        "construct_chain must name one construct": len(config.construct_chain) > 1,
        "construct_endpoints must be left out": bool(config.construct_endpoints),
        "episode_runner must be single_call": config.episode_runner != "single_call",
        "output_spec must be left out": any(step.output_spec for step in template.programme),
        "construct_invocation must name construct_under_test": any(
            step.type == INVOCATION and step.construct_id != config.construct_under_test
            for step in template.programme
        ),
        "dataset_paths must have names that are file names, not dataset or gold_labels": any(
            name != config.gold_label_dataset_id and not _FILE_NAME.fullmatch(name)
            for name in config.dataset_paths
        ),
    }
    unmet = [text for text, applies in problems.items() if applies]
    if unmet:
        raise ProgrammeError(
            f"this version cannot run the template as committed: {'; '.join(unmet)}"
        )
    ResolutionStateMachine(template.programme)


def check_adapters(
    template: ProductTheatreTemplate,
    adapters: Mapping[str, OracleAdapter],
    *,
    certificate_run: bool,
) -> None:
    """Hold every adapter against the template's pins.

    Raises RehearsalAdapterError for canned answers in a certificate run and PinMismatchError,
    with both versions, for an adapter or a construct that is not the committed one.
    """
    for step in ResolutionStateMachine(template.programme).invocations:
        construct_id = step.construct_id or ""
        adapter = adapters[construct_id]
        if certificate_run:
            refuse_rehearsal(adapter)
        _check_pin(f"adapter of {construct_id}", template.version_pins.adapter_version, adapter.pin)
        pinned = template.version_pins.constructs[construct_id]
        _check_pin(f"construct {construct_id}", pinned, adapter.computed_version)


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
