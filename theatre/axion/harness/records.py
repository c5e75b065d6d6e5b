"""The record of an episode, as `report.json` has it."""

from __future__ import annotations

from theatre.axion.common.hashing import Document, hash_json
from theatre.axion.env.metrics_oracle import env_entropy
from theatre.axion.env.state import GridState
from theatre.axion.harness.episode_plan import EpisodeAccount, EpisodePlan
from theatre.axion.harness.probes import Probe
from theatre.axion.harness.recorded_claims import strictest
from theatre.axion.interfaces.base import Interface
from theatre.axion.kernel.probe_engine import FAIL, INCONCLUSIVE, PASS

_CHECKS = ("attempted", "passed", "failed", "inconclusive", "mirrored", "pivotal")
_MS_DECIMALS, _SHARE_DECIMALS = 3, 8
WALLCLOCK = "wallclock_"
"""How the names of members begin that no second run repeats."""


def episode_record(
    plan: EpisodePlan, name: str, interface: Interface, account: EpisodeAccount, end: GridState
) -> Document:
    """Return the record; `audit_chain_ok` is added once the whole log is verified.

    `probes` are the literal verdicts. `claims` is the result of all recorded claims, probed or not,
    and `worlds` what those about energy did in worlds that were shown once more (mci_latent).
    `passed`: every probe that was asked for is passed, P5 by the strictest of these, and no
    proposal was denied for anything but the trap of P3. `replay_fidelity` is the share of executed
    steps that are the argmax of the published model; None without factors.
    """
    tally, executed = account.tally, len(account.actions)
    has_factors = interface.has_factors
    fidelity = account.faithful / executed if has_factors and executed else None
    claims, worlds = account.claims, _worlds_verdict(interface, account)
    held = strictest(claims.verdict, *([] if worlds is None else [worlds]))
    return {
        "episode": plan.number,
        "agent": name,
        "scenario": plan.scenario,
        "scenario_seed": plan.seed,
        "clutter": plan.clutter,
        "steps": plan.steps,
        "interface_mode": interface.mode.value,
        "env_entropy": env_entropy(plan.state),
        "probes": {probe.value: tally.result(probe) for probe in Probe},
        "offers": {probe.value: tally.offered[probe] for probe in Probe},
        "taken": {probe.value: tally.taken[probe] for probe in Probe},
        "claims": claims.verdict,
        "worlds": worlds,
        "passed": tally.passed
        and (Probe.P5 not in plan.probes or held == PASS)
        and not account.invariants,
        "invariant_failures": account.invariants,
        "replay_fidelity": None if fidelity is None else round(fidelity, _SHARE_DECIMALS),
        "published_models": len(account.models) if has_factors else None,
        "executed_steps": executed,
        **{f"p5_checks_{kind}": tally.checks(kind) for kind in _CHECKS},
        "p5_challenges": len(tally.verdicts),
        "p5_challenges_passed": tally.challenges(PASS),
        "p5_challenges_failed": tally.challenges(FAIL),
        "p5_bound_choices": account.bound,
        "claims_true": claims.true,
        "claims_false": claims.false,
        "claims_inconclusive": claims.inconclusive,
        "claims_pivotal": claims.pivotal,
        "claims_silent_steps": claims.silent,
        "worlds_true": account.revisited[PASS],
        "worlds_false": account.revisited[FAIL],
        "objects_at_start": len(plan.state.objects),
        "objects_collected": len(end.self.inventory),
        "energy_at_end": end.self.energy,
        "actions_hash": hash_json(account.actions),
        f"{WALLCLOCK}ms_policy_gate": round(account.gate_ms, _MS_DECIMALS),
        f"{WALLCLOCK}ms_p5": round(account.p5_ms, _MS_DECIMALS),
    }


def _worlds_verdict(interface: Interface, account: EpisodeAccount) -> str | None:
    """Return the verdict on claims about energy; None where factors are no projection."""
    if interface.projection is None:
        return None
    if account.revisited[FAIL]:
        return FAIL
    return PASS if account.revisited[PASS] else INCONCLUSIVE
