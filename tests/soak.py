"""What `make test` leaves to `make soak-PART`: what takes long and says little about one change.

Each name is the beginning of test ids. `.ci/run` runs one part of the four for each commit, so
that all have their turn; `make soak` runs everything, with larger numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

PARTS: Mapping[str, tuple[str, ...]] = {
    # Processes, databases, stores and disks that die, stop, wait or fill up, at any moment.
    "chaos": (
        "tests/backend/test_axion_runs.py",
        "tests/backend/test_bucket_backups.py",
        "tests/backend/test_changed_rows.py::test_a_killed_run",
        "tests/backend/test_crash_points.py",
        "tests/backend/test_database_outage.py",
        "tests/backend/test_embedded_server.py::test_a_home_that_was_removed",
        "tests/backend/test_embedded_server.py::test_a_server_whose_keeper",
        "tests/backend/test_embedded_server.py::test_a_stale_pid_file",
        "tests/backend/test_embedded_server.py::test_after_a_kill",
        "tests/backend/test_flat_memory.py",
        "tests/backend/test_full_disk.py",
        "tests/backend/test_journal_crash.py",
        "tests/backend/test_lost_ingestions.py",
        "tests/backend/test_lost_workers.py",
        "tests/backend/test_ratings.py::test_a_theatre_waits_on_when_the_service_starts_again",
        "tests/backend/test_ratings.py::test_people_have_as_long_as_was_committed",
        "tests/backend/test_shared_evidence.py",
        "tests/backend/test_slow_disk.py",
        "tests/backend/test_store_outage.py",
        "tests/backend/test_suspects.py",
        "tests/backend/test_theatre_bridge.py::test_a_run_outlives_its_connections",
        "tests/backend/test_theatre_bridge.py::test_what_a_stopped_service_left",
        "tests/theatre/cli/test_demo_ends.py",
        "tests/theatre/cli/test_streams.py",
        "tests/theatre/cli/test_verify_stops.py",
        "tests/theatre/debate/test_killed_sweep.py",
        "tests/theatre/oracles/test_hostile.py::test_a_case_ends_as_the_table_says_and_the_next_call_is_answered[stdio-burns-cpu",
        "tests/theatre/oracles/test_isolation.py::test_a_thief_takes_nothing[landlock-callable-ordinary",
        "tests/theatre/oracles/test_isolation.py::test_a_thief_takes_nothing[landlock-callable-root",
        "tests/theatre/oracles/test_isolation.py::test_a_thief_takes_nothing[landlock-served-ordinary",
        "tests/theatre/oracles/test_isolation.py::test_a_thief_takes_nothing[landlock-served-root",
        "tests/theatre/oracles/test_isolation.py::test_a_thief_takes_nothing[namespaces-callable-ordinary",
        "tests/theatre/oracles/test_isolation.py::test_a_thief_takes_nothing[namespaces-callable-root",
        "tests/theatre/oracles/test_isolation.py::test_a_thief_takes_nothing[namespaces-served-ordinary",
        "tests/theatre/oracles/test_isolation.py::test_a_thief_takes_nothing[namespaces-served-root",
        "tests/theatre/test_concurrency.py",
        "tests/theatre/test_easel_chain.py::test_as_committed_a_death",
        "tests/theatre/test_easel_chain.py::test_the_death_of_any_construct",
        "tests/theatre/test_resume.py::test_a_killed_run",
        "tests/theatre/test_resume.py::test_a_process_that_dies_between",
        "tests/theatre/test_resume.py::test_a_run_that_is_killed_again",
        "tests/theatre/test_resume.py::test_an_interrupted_run",
        "tests/theatre/test_resume.py::test_an_interruption_after_the_end",
        "tests/theatre/test_resume.py::test_data_that_are_gone_in_the_middle",
        "tests/theatre/test_resume.py::test_events_that_a_crash_kept_back",
        "tests/theatre/test_resume.py::test_the_shipped_cartograph_resumes",
        "tests/theatre/test_resume_concurrent.py",
    ),
    # Changed bundles and requests in number, and what draws them at random.
    "mutants": (
        "tests/backend/test_schemathesis.py",
        "tests/theatre/oracles/test_hostile.py::test_a_whole_theatre",
        "tests/theatre/test_broken_engine.py::test_a_build_with_a_defect_is_refused_by_both[further",
        "tests/theatre/test_bundle_check_hostile.py::test_no_bytes",
        "tests/theatre/test_bundle_check_hostile.py::test_no_json",
        "tests/theatre/test_bundle_check_hostile.py::test_no_member_of_another_kind_makes_the_check_raise[other1",
        "tests/theatre/test_bundle_check_hostile.py::test_no_template",
        "tests/theatre/test_bundle_check_runs.py::test_parts_that_were_tampered_with_are_named[a",
        "tests/theatre/test_bundle_check_runs.py::test_parts_that_were_tampered_with_are_named[both",
        "tests/theatre/test_bundle_check_runs.py::test_parts_that_were_tampered_with_are_named[records",
        "tests/theatre/test_bundle_mutations.py",
        "tests/theatre/test_shipped_bundle_mutations.py",
        "tests/theatre/test_verify_bundle.py::test_it_refuses_what_the_check_refuses",
        "tests/theatre/test_verify_bundle.py::test_no_difference_stands_on_the_list_in_vain",
        "tests/theatre/test_verify_bundle.py::test_what_trivial_players_are_said_to_score",
    ),
    # All of the shipped data, through every shipped theatre, fake and agent.
    "data": (
        "tests/docs/test_sealed_evidence.py::test_a_sealed_bundle_is_of_the_shipped_template_and_passes_both_checks[product_axion_p",
        "tests/theatre/axion/test_adversary_matrix.py",
        "tests/theatre/axion/test_axion_liars.py",
        "tests/theatre/axion/test_axion_pair.py",
        "tests/theatre/axion/test_axion_theatre.py",
        "tests/theatre/axion/test_m4_separation.py",
        "tests/theatre/axion/test_two_process_byte_identity.py::test_a_suite_writes_the_same_bytes_twice[mci_latent",
        "tests/theatre/cli/test_adversaries_command.py",
        "tests/theatre/cli/test_reproduced_theatres.py::test_a_shipped_theatre_comes_out_again",
        "tests/theatre/cli/test_reproduced_theatres.py::test_a_theatre_with_a_construct_of_its_own",
        "tests/theatre/debate/test_debate_theatres.py",
        "tests/theatre/test_adversarial.py",
        "tests/theatre/test_adversarial_easel.py",
        "tests/theatre/test_adversaries.py::test_a_rehearsal_that_is_worth_nothing",
        "tests/theatre/test_adversaries.py::test_who_knows_nothing_stays_below_the_construct[product_axion_pair",
        "tests/theatre/test_adversaries.py::test_who_knows_nothing_stays_below_the_construct[product_debate_auditor",
        "tests/theatre/test_adversaries.py::test_who_knows_nothing_stays_below_the_construct[product_debate_control",
        "tests/theatre/test_distinct_evidence.py::test_what_the_shipped_datasets_give_away_is_known[product_axion",
        "tests/theatre/test_distinct_evidence.py::test_what_the_shipped_datasets_give_away_is_known[product_debate",
        "tests/theatre/test_distinct_evidence.py::test_what_the_shipped_datasets_give_away_is_known[product_easel_",
        "tests/theatre/test_distinct_evidence.py::test_what_the_shipped_datasets_give_away_is_known[product_observer_adv",
        "tests/theatre/test_easel_requests_theatre.py",
        "tests/theatre/test_fakes.py",
        "tests/theatre/test_observer_theatre.py",
        "tests/theatre/test_published_results.py::test_two_runs_give_the_published_results_byte_for_byte[product_easel",
        "tests/theatre/test_published_results.py::test_two_runs_give_the_published_results_byte_for_byte[product_observer",
        "tests/theatre/verification/test_comparison.py",
        "tests/theatre/verification/test_oracle_ranking.py::test_inventing_claims",
        "tests/theatre/verification/test_text_adversaries.py",
    ),
    # Figures that pages quote, each measured again, and the benchmarks that measure others.
    "figures": (
        "tests/benchmarks/test_benchmarks.py",
        "tests/docs/test_debate_page.py",
        "tests/docs/test_easel_requests_page.py",
        "tests/docs/test_easel_theatre_page.py",
        "tests/docs/test_observer_page.py",
    ),
}


def part_of(test_id: str) -> str | None:
    """Return the part of the soak that has a test; None for one of `make test`."""
    for part, names in PARTS.items():
        if test_id.startswith(names):
            return part
    return None
