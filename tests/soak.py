"""What `make test` leaves to `make soak-PART`: what takes long and says little about one change.

A file is named as a whole, or with the beginnings of functions, but for `test_`, and of cases in
them. `.ci/run` runs one part for each commit, so that all have their turn; `make soak` runs
everything, with larger numbers.
"""

from collections.abc import Iterator, Mapping
from functools import cache

_NAMES: Mapping[str, str] = {
    # Processes, databases, stores and disks that die, stop, wait or fill up, at any moment.
    "chaos": """
tests/backend/test_accounts.py: of_two_at_once
tests/backend/test_axion_runs.py
tests/backend/test_backups.py
tests/backend/test_broken_uploads.py
tests/backend/test_changed_rows.py
tests/backend/test_connections.py: a_real_service
tests/backend/test_crash_points.py
tests/backend/test_debates.py: of_twenty_submissions_at
tests/backend/test_embedded_server.py: a_folder_of_sockets | a_home_that_was_removed |
    a_server_that_does_not_start | a_stale_pid_file | a_user_outlives | after_a_kill |
    an_ordinary_user_keeps | data_of_another_major | data_that_came_out_of_reach | root_has |
    rows_outlive | the_home_stays_closed | two_processes_at_once
tests/backend/test_evidence_store.py: a_disk_that_is_full | a_server_that_is_away |
    a_removed_object[moto | other_bytes[moto | the_same_bytes[moto | what_is_not_there[moto |
    what_one_machine[moto
tests/backend/test_flat_memory.py
tests/backend/test_fsck.py: a_log_that_differs[a certificate is signed |
    a_log_that_differs[an earlier | a_log_that_differs[an entry is gone |
    a_log_that_differs[nothing | a_log_that_differs[the keys | an_earlier_checkpoint
tests/backend/test_full_disk.py
tests/backend/test_guards.py: a_run_that_kills | runs_that_lost_workers | a_suspect_is_cleared
tests/backend/test_hostile_verifications.py
tests/backend/test_idempotency.py: a_first_request_that_does_not_end | twenty_at_once_have
tests/backend/test_local_copies.py: what_the_store_holds
tests/backend/test_logged_runs.py: a_revoked_key_signs_no_more | a_theatre_whose_commitment |
    a_writer_that_is_killed
tests/backend/test_lost_ingestions.py
tests/backend/test_lost_workers.py
tests/backend/test_migrations.py: the_alembic_program | an_embedded_database | without_an_address
tests/backend/test_named_endpoints.py: a_verification_names_no | what_the_operator_allows
tests/backend/test_paid_runs.py: a_call_that_counts | a_new_day | a_waiting_run_is |
    calls_under_way | what_was_answered_but_not_recorded
tests/backend/test_paid_workers.py
tests/backend/test_postgres_versions.py
tests/backend/test_ratings.py: a_theatre_waits_on_when_the_service_starts_again |
    people_have_as_long_as_was_committed | what_waits_for_people_past_its_day
tests/backend/test_rehearsals.py: a_killed_rehearsal
tests/backend/test_restored_service.py
tests/backend/test_run_journal.py: a_long_journal
tests/backend/test_serve.py: a_request_at_work_is_finished |
    a_service_that_stops_waits_for_no_run | settings_that_are_missing |
    the_service_runs_its_own_database
tests/backend/test_shared_evidence.py
tests/backend/test_store_outage.py
tests/backend/test_theatre_bridge.py: a_run_outlives_its_connections |
    an_answer_that_was_preferred | of_twenty_runs | one_key_queues | what_a_stopped_service_left
tests/backend/test_uncalled.py: a_cancellation_of_which | a_queued_run | a_run_that_goes_on |
    a_template_says_itself | a_worker_that_begins | of_a_cancellation_and |
    the_service_looks_for | twenty_runs
tests/backend/test_verifications.py: a_limit_that_is_reached_for_long | a_service_that_knows
tests/theatre/api/test_pytest_plugin.py: a_run_belongs_to_one_worker
tests/theatre/cli/test_demo_ends.py
tests/theatre/cli/test_http_refusals.py: a_run_stopped_while_a_program_starts | a_run_that_goes_on
tests/theatre/cli/test_judged_verification.py: a_key_that_is_refused_stops_the_run
tests/theatre/cli/test_plain_drafts.py: a_tool_that_the_server_has_not
tests/theatre/cli/test_run_log.py: a_run_that_is_killed_at_any
tests/theatre/cli/test_score_and_inspect.py: an_unfinished_run
tests/theatre/cli/test_streams.py
tests/theatre/cli/test_verify_command.py: the_same_command_goes_on
tests/theatre/cli/test_verify_stops.py
tests/theatre/construct_kit/test_stdio_server.py: a_signal_ends_a_call
tests/theatre/debate/test_construct_sweeps.py: a_construct_hears_what_a_sweep_varies["--port
tests/theatre/debate/test_runs.py: a_killed_sweep
tests/theatre/files/test_datasets.py:
    a_line_without_an_end_is_refused_at_the_limit_not_read_to_its_end[5
tests/theatre/files/test_run_journal.py: a_full_disk
tests/theatre/files/test_theatre_store.py: a_reader_takes_no_lock | the_lock_of_a_killed
tests/theatre/oracles/test_container.py
tests/theatre/oracles/test_isolation.py: a_network_that |
    a_thief_takes_nothing[landlock-callable | a_thief_takes_nothing[landlock-served |
    a_thief_takes_nothing[landlock-stdin | a_thief_takes_nothing[namespaces-callable |
    a_thief_takes_nothing[namespaces-served-ordinary |
    a_thief_takes_nothing[namespaces-served-root | a_thief_takes_nothing[namespaces-stdin |
    memory_is_closed_to_the_construct_by_what_starts_it[served |
    memory_is_closed_to_the_construct_by_what_starts_it[stdin |
    the_same_thief_takes_everything_where_nothing_isolates[callable |
    the_same_thief_takes_everything_where_nothing_isolates[stdin
tests/theatre/oracles/test_local_isolation.py: a_call_beyond_the_cpu_limit |
    the_cpu_limit_counts_each_call
tests/theatre/oracles/test_served.py: a_death_that_takes_its_time | the_start_is_no_part
tests/theatre/oracles/test_served_process.py: the_program_ends_with_a_runner
tests/theatre/test_computation_steps.py: what_is_larger_than_the_memory
tests/theatre/test_concurrency.py
tests/theatre/test_easel_chain.py: as_committed_a_death | the_death_of_any_construct
tests/theatre/test_rated_runs.py: a_process_that_dies
tests/theatre/test_resume.py: a_killed_run | a_process_that_dies_between |
    a_run_that_is_killed_again | a_sealed_bundle_counts | an_interrupted_run |
    an_interruption_after_the_end | data_that_are_gone_in_the_middle | data_that_changed |
    episodes_missing_before | events_that_a_crash_kept_back | the_shipped_cartograph_resumes |
    the_template_alone
tests/theatre/test_resume_concurrent.py
""",
    # Changed bundles and requests in number, and what draws them at random.
    "mutants": """
tests/backend/test_debates.py: events_that_do_not_fit | the_database_itself | what_is_no_artefact
tests/backend/test_forged_rows.py: a_thief | no_route_believes_a_row_that_is_not_signed[many
tests/backend/test_fsck.py: a_row_that
tests/backend/test_idempotency.py: a_key_is_visible
tests/backend/test_rehearsals.py: what_lies_outside
tests/backend/test_schemathesis.py
tests/backend/test_strict_json.py: a_body_that_is_no_strict | more_members
tests/backend/test_submitted_values.py: no_value_at_any_place
tests/theatre/construct_kit/test_http_server.py: a_call_that_is | a_port_that_does |
    a_repeat_after_a | a_taken_port | the_oldest_answers | what_is_not_even
tests/theatre/construct_kit/test_stdio_server.py: a_huge_line | a_last_line_without |
    a_line_of_exactly | a_line_that_is_no_envelope | nothing_that_a_construct |
    prints_come_with_the | the_end_of_input
tests/theatre/construct_kit/test_versions_and_loading.py: a_module_that_cannot |
    a_program_of_its | exactly_one | what_is_not_there
tests/theatre/fixtures/test_cartograph_construct.py: malformed_parameters
tests/theatre/fixtures/test_observer_ground_truth.py: a_change_of_any_field
tests/theatre/fixtures/test_observer_http.py: a_baseline_refuses | an_argument_that_is
tests/theatre/oracles/test_construct_files.py: a_served_program_runs
tests/theatre/oracles/test_hostile.py: a_case_ends[stdio | a_whole_theatre
tests/theatre/oracles/test_local_answers.py: a_longer_line_is
tests/theatre/oracles/test_local_process.py: a_daemon_that_outlived | an_exit_after_each
tests/theatre/oracles/test_python_callable.py: a_callable_that_was | an_edit_shows_at
tests/theatre/oracles/test_sanitise.py: a_mebibyte_of_hostile_json | hostile_text_is_cleaned |
    the_same_text_comes
tests/theatre/oracles/test_served.py: a_program_that_ends
tests/theatre/scorers/test_load_scorers.py: no_answer
tests/theatre/test_broken_engine.py: a_build_with_a_defect_is_refused_by_both[further
tests/theatre/test_bundle_check_hostile.py: no_bytes | no_json | no_member | no_template |
    values_are_the_same
tests/theatre/test_bundle_check_rated.py: a_result_that_does_not_follow
tests/theatre/test_bundle_check_runs.py: parts_that_were_tampered_with_are_named[a |
    parts_that_were_tampered_with_are_named[both | parts_that_were_tampered_with_are_named[records
tests/theatre/test_bundle_mutations.py
tests/theatre/test_canonical_json_fast.py: every_character_has_its_form
tests/theatre/test_canonical_json_numbers.py: random_doubles_have_the_form_of | the_neighbours
tests/theatre/test_schema_registry.py: a_shipped_schema_is_valid
tests/theatre/test_template_credentials.py: hostile_text
tests/theatre/test_validation_cache.py: each_is_told
tests/theatre/test_verify_bundle.py: it_refuses_what_the_check_refuses |
    no_difference_stands_on_the_list_in_vain | no_document_makes_it_crash |
    what_trivial_players_are_said_to_score
tests/theatre/transparency/test_proof_mutations.py: every_byte
""",
    # All of the shipped data, through every shipped theatre, fake and agent.
    "data": """
tests/backend/test_accounts.py: the_operator_makes
tests/backend/test_coins.py: what_ends_without_a_bundle_never_reveals_it[r
tests/backend/test_fsck_tables.py: a_column_that
tests/backend/test_named_endpoints.py: nor_is_one_run | nor_is_one_whose
tests/backend/test_paid_runs.py: a_run_waits
tests/backend/test_planted_secrets.py
tests/backend/test_postgres_run.py
tests/backend/test_registered_services.py: a_tool
tests/backend/test_rehearsals.py: canned_answers_in_the_records | no_role
tests/backend/test_serve.py: a_planted_secret
tests/backend/test_theatre_bridge.py: a_rehearsal_takes | cartograph_over_http |
    episodes_are_asked
tests/backend/test_verifications.py: a_clone | the_literal_path | what_falls_short_ends_without
tests/docs/test_sealed_evidence.py:
    a_sealed_bundle_is_of_the_shipped_template_and_passes_both_checks[product_axion_p
tests/test_wheel.py: the_installed_wheel_serves
tests/theatre/axion/test_adversary_matrix.py
tests/theatre/axion/test_axion_command_line.py: an_agent_that_has | thresholds_are_told_with
tests/theatre/axion/test_axion_liars.py
tests/theatre/axion/test_axion_pair.py
tests/theatre/axion/test_axion_theatre.py
tests/theatre/axion/test_interface_mode_enforcement.py: every_agent_proposes
tests/theatre/axion/test_m4_separation.py
tests/theatre/axion/test_p6_token_misuse_detected.py: an_honest_agent | bait | every_trap
tests/theatre/axion/test_shipped_agents.py: it_answers
tests/theatre/axion/test_two_process_byte_identity.py
tests/theatre/cli/test_adversaries_command.py
tests/theatre/cli/test_judged_certificate.py: a_claim_counts_once_by_the_majority |
    a_run_that_was_too_short | passes_are_committed_and_averaged
tests/theatre/cli/test_judged_verification.py: a_change_whose_judge_cannot_be_read |
    a_judge_behind_chat | judge_and_words_are_both_published
tests/theatre/cli/test_plain_drafts.py:
    a_draft_pins_what_is_asked_and_its_twin_has_another_version[mcp | a_tool_behind_http
tests/theatre/cli/test_plain_theatres.py: a_budget | a_certificate_that_says | a_mistake |
    a_model_is_certified_by_what_it_is_asked[anthropic | a_tool
tests/theatre/cli/test_reproduce_command.py: a_certificate_from_elsewhere |
    a_construct_that_varies | a_few_that_move_no_score
tests/theatre/cli/test_reproduced_theatres.py
tests/theatre/cli/test_run_log.py: its_reproduction
tests/theatre/cli/test_verify_services.py: no_change_is_too_odd | an_answer_of_another_shape
tests/theatre/construct_kit/test_docs_constructs.py: the_python_construct_answers_over
tests/theatre/construct_kit/test_versions_and_loading.py: the_version_of_a_module |
    the_version_of_a_package
tests/theatre/debate/test_debate_judge.py:
    a_turn_without_a_usable_answer_has_no_figure_and_no_mean_goes_on_without_it[4 |
    a_turn_without_a_usable_answer_has_no_figure_and_no_mean_goes_on_without_it[m |
    a_turn_without_a_usable_answer_has_no_figure_and_no_mean_goes_on_without_it[t
tests/theatre/debate/test_debate_theatres.py
tests/theatre/debate/test_sanity_of_evaluators.py: no_deleted_falsifier_raises |
    white_space_and_order
tests/theatre/fixtures/test_cartograph_ground_truth.py
tests/theatre/fixtures/test_easel_constructs.py: the_runner_starts_it | another_process
tests/theatre/fixtures/test_easel_ground_truth.py
tests/theatre/fixtures/test_easel_requests.py: rebuilding
tests/theatre/fixtures/test_observer_construct.py: every_python
tests/theatre/oracles/test_construct_files.py: what_runs
tests/theatre/oracles/test_dataset_copies.py: no_shipped_construct
tests/theatre/pages/test_verify_js.py: no_line_of_a
tests/theatre/test_adversarial.py
tests/theatre/test_adversarial_easel.py
tests/theatre/test_adversaries.py: a_rehearsal_that_is_worth_nothing |
    what_is_foretold_is_what_a_certificate_would_say[constant |
    what_is_foretold_is_what_a_certificate_would_say[copied |
    what_is_foretold_is_what_a_certificate_would_say[empty |
    what_is_foretold_is_what_a_certificate_would_say[garbage |
    who_knows_nothing_stays_below_the_construct[product_axion_pair |
    who_knows_nothing_stays_below_the_construct[product_axion_v1 |
    who_knows_nothing_stays_below_the_construct[product_debate_auditor |
    who_knows_nothing_stays_below_the_construct[product_debate_control |
    who_knows_nothing_stays_below_the_construct[product_debate_team |
    who_knows_nothing_stays_below_the_construct[product_easel |
    who_knows_nothing_stays_below_the_construct[product_observer
tests/theatre/test_bundle_check_processes.py: a_chain_of_processes
tests/theatre/test_bundle_check_runs.py: a_bundle_in_parts | a_caller_hears_of |
    other_committed_choices_pass
tests/theatre/test_determinism.py: an_episode_that_failed | every_call_of_a
tests/theatre/test_distinct_evidence.py: baselines_that_were_not |
    what_the_shipped_datasets_give_away_is_known[product_axion |
    what_the_shipped_datasets_give_away_is_known[product_debate |
    what_the_shipped_datasets_give_away_is_known[product_easel_ |
    what_the_shipped_datasets_give_away_is_known[product_observer_adv
tests/theatre/test_easel_requests_theatre.py
tests/theatre/test_easel_theatre.py
tests/theatre/test_failed_steps.py: a_certificate_says_which_steps
tests/theatre/test_fakes.py
tests/theatre/test_observer_theatre.py
tests/theatre/test_output_spec.py: a_large_misfit_is
tests/theatre/test_published_results.py: two_stubs |
    the_certificate_has_both_parts_and_the_gap_of_every_score[product_observer |
    a_run_gives_the_published_results_byte_for_byte[product_easel |
    a_run_gives_the_published_results_byte_for_byte[product_observer
tests/theatre/test_record_limits.py
tests/theatre/test_settled_evidence.py: past_a_thousand
tests/theatre/verification/test_comparison.py
tests/theatre/verification/test_oracle_ranking.py
tests/theatre/verification/test_text_adversaries.py
""",
    # Figures that pages quote, each measured again, the benchmarks that measure others, and more of
    # what commands, the plug-in and installations do.
    "figures": """
tests/backend/test_api_page.py
tests/benchmarks/test_benchmarks.py
tests/docs/test_debate_page.py
tests/docs/test_easel_requests_page.py
tests/docs/test_easel_theatre_page.py
tests/docs/test_gallery_page.py:
    a_bundle_is_of_the_pinned_draft_and_its_scores_are_recomputed[gallery_l
tests/docs/test_models_page.py: the_bundles_of_a_role |
    a_bundle_is_of_the_pinned_draft_and_its_scores_are_recomputed[models_c |
    a_bundle_is_of_the_pinned_draft_and_its_scores_are_recomputed[models_k | the_dataset |
    the_differences
tests/docs/test_observer_page.py
tests/docs/test_python_page.py: the_python_page | the_test_of_the_ci_page
tests/docs/test_readme.py: a_page_that_shows_another_score | sha256sum | the_demo_prints |
    the_strangers_lines
tests/docs/test_recipes.py: a_recipe_does_what_its_page_says[agent_with_tools |
    a_recipe_does_what_its_page_says[chain_of_two | a_recipe_does_what_its_page_says[code_change |
    a_recipe_does_what_its_page_says[extraction | a_recipe_does_what_its_page_says[judged_text |
    a_recipe_does_what_its_page_says[question_answering |
    a_recipe_does_what_its_page_says[retrieval
tests/docs/test_sealed_evidence.py: the_commands_of_the_pages |
    a_sealed_bundle_is_of_the_shipped_template_and_passes_both_checks[product_debate |
    a_sealed_bundle_is_of_the_shipped_template_and_passes_both_checks[product_easel |
    a_sealed_bundle_is_of_the_shipped_template_and_passes_both_checks[product_observer
tests/docs/test_templates_doc.py: the_example_runs
tests/test_wheel.py: a_command_of_an_extra | the_core_alone | the_wheel_holds_the
tests/theatre/api/test_functions.py: a_committed_callable_is | an_edit_of_the_module
tests/theatre/api/test_pytest_plugin.py: a_test_file | copies | refusing | the_function_itself
tests/theatre/axion/test_model_agent.py: who_does
tests/theatre/cli/test_audit_group.py: chains_and_plays_are_computed_again[product_easel |
    the_bound
tests/theatre/cli/test_author_mistakes.py:
    a_program_that_ends_before_it_is_asked_ends_the_run_before_the_first_call[node
tests/theatre/cli/test_cli.py: a_file_name_that | a_scorer_that_is_not | paths_may_hold
tests/theatre/cli/test_demo.py
tests/theatre/cli/test_export_command.py: an_export_that_nobody
tests/theatre/cli/test_extras.py: a_command_that_asks_a_judge
tests/theatre/cli/test_judged_verification.py: of_three_judges_the
tests/theatre/cli/test_lazy_group.py: a_run_of_a_local_program
tests/theatre/cli/test_qualified_verification.py: a_judge_that_is_qualified
tests/theatre/cli/test_qualify_command.py:
    a_judge_is_asked_about_each_claim_and_his_exchanges_are_kept[anthropic
tests/theatre/debate/test_runs.py: estimators_recover
tests/theatre/scorers/computations/test_paired_separation.py: auroc | mcnemar
tests/theatre/test_calibration.py: the_brier_score_is | the_curve_is
tests/theatre/test_calibration_null.py: equal_probabilities
tests/theatre/test_corrected_coverage.py: a_score_holds
tests/theatre/test_easel_chain.py: scores_of_authors
tests/theatre/test_integration.py: many_calls_at_a_time
tests/theatre/test_interval_coverage.py: a_resampled_interval | wilsons_interval
tests/theatre/test_isolated_runs.py: a_construct_that_could_read
tests/theatre/test_mixed_coverage.py: an_interval_with_a_human_part
tests/theatre/test_qualification.py:
    the_interval_holds_the_truth_in_93_to_97_of_a_hundred[right0 |
    the_interval_holds_the_truth_in_93_to_97_of_a_hundred[right2
tests/theatre/test_rlmf_export.py: a_large_run
tests/theatre/test_scoring_bootstrap.py: bca_agrees
tests/theatre/test_scoring_corrections.py: a_rate_holds | graded_labels
tests/theatre/test_scoring_differences.py: a_resampled_difference | dealt_units | fishers |
    mcnemar
tests/theatre/test_scoring_holdout_gap.py: a_gap_is_flagged_as_often | a_gap_is_the_difference
tests/theatre/test_scoring_intervals.py: the_interval_is_that_of_scipy
tests/theatre/verification/test_github.py: a_range_of_commits
tests/theatre/verification/test_judge_controls.py: a_judge_that_does_not_look |
    a_judge_that_knows | what_words_tell | words_do_not_tell
tests/theatre/verification/test_local_history.py: ten_thousand
tests/theatre/verification/test_run_controls.py: each_of_several | enough_controls
""",
    # Pages in a real browser, and what is dropped into them, in number.
    "pages": """
tests/backend/test_accounts.py: an_invite_registers_one
tests/backend/test_certificates.py: a_run_begins | a_run_counts | certificates_are_listed | old |
    the_newest
tests/backend/test_coins.py: a_commitment_names
tests/backend/test_conditional.py: one_range_is_sent
tests/backend/test_construct_claims.py: the_operator_decides_about
tests/backend/test_described_examples.py
tests/backend/test_evidence.py: a_file_that_the_manifest | an_audit |
    anybody_downloads_the_check | episodes_are_listed | the_audit_chain |
    what_a_template_withholds
tests/backend/test_hostile_names.py: markup
tests/backend/test_judged_templates.py: a_committed_one_is
tests/backend/test_logged_runs.py: with_hashes
tests/backend/test_pages_of_processes.py
tests/backend/test_pages_under_attack.py: a_session_ends | hostile_words | of_a_run_that_withholds
tests/backend/test_rated_on_pages.py: a_session_is_no
tests/backend/test_ratings.py: a_stranger | a_theatre_that_waits | nobody_scores_twice_not
tests/backend/test_rival.py
tests/backend/test_served_pages.py: a_page_follows | a_page_says | certificates_of_one |
    many_who | pages_show_what_programs
tests/backend/test_submitted_values.py: nothing_of_human_scores
tests/backend/test_theatre_bridge.py: a_run_without
tests/backend/test_theatre_routes.py: a_theatre_that_did | its_owner_reads_the |
    of_twenty_commits_at | of_twenty_creations_with | pages_go_on_where
tests/backend/test_uploads_and_templates.py: who_watches
tests/pages/test_dropped_bundles.py:
    a_changed_bundle_is_refused_and_the_changed_file_is_named[many | a_page_that_is_saved
tests/pages/test_forged_certificates.py: a_signature_of_something_else |
    what_a_server_says_by_its_own_script
tests/pages/test_page_walk.py: a_report_shows | every_page_is_legible
tests/pages/test_signed_in.py
tests/pages/test_windows.py
tests/theatre/pages/test_verify_js.py: a_file_that_is_changed_is_named[many |
    many_changed_bundles | who_has_not_the_key_changes_nothing_unseen[many
tests/theatre/pages/test_written_fields.py:
    every_text_of_a_schema_is_text_on_every_page[certificate-attribute |
    every_text_of_a_schema_is_text_on_every_page[certificate-comment |
    every_text_of_a_schema_is_text_on_every_page[certificate-image |
    every_text_of_a_schema_is_text_on_every_page[certificate-r |
    every_text_of_a_schema_is_text_on_every_page[template-attribute |
    every_text_of_a_schema_is_text_on_every_page[template-comment |
    every_text_of_a_schema_is_text_on_every_page[template-image |
    every_text_of_a_schema_is_text_on_every_page[template-r
""",
}


def _names_of(part: str) -> Iterator[str]:
    for line in _NAMES[part].strip().split("\ntests/"):
        file, _, names = f"tests/{line.removeprefix('tests/')}".partition(":")
        yield from (f"{file}::test_{one.strip()}" if one else file for one in names.split("|"))


PARTS: Mapping[str, tuple[str, ...]] = {part: (*_names_of(part),) for part in _NAMES}

KEPT: tuple[str, ...] = (
    "tests/backend/test_debates.py::test_events_that_do_not_fit[another past",
    "tests/backend/test_debates.py::test_the_database_itself[False-DELETE FROM debate_events",
    "tests/backend/test_debates.py::test_the_database_itself[True-UPDATE debate_events",
    "tests/backend/test_fsck.py::test_a_row_that[chain-",
    "tests/backend/test_fsck.py::test_a_row_that[result-",
    'tests/backend/test_idempotency.py::test_a_key_is_visible_ascii[""',
    "tests/backend/test_rehearsals.py::test_what_lies_outside[../secret",
    "tests/backend/test_rehearsals.py::test_what_lies_outside[bob's",
    "tests/backend/test_strict_json.py::test_a_body_that_is_no_strict[create_theatre",
    "tests/backend/test_strict_json.py::test_a_body_that_is_no_strict[submit_scores",
    "tests/backend/test_submitted_values.py::test_no_value_at_any_place[{",
    "tests/theatre/axion/test_interface_mode_enforcement.py::test_every_agent_proposes[pseudo_c",
    "tests/theatre/axion/test_shipped_agents.py::test_it_answers[pseudo-0",
    "tests/theatre/construct_kit/test_stdio_server.py::test_a_line_that_is_no_envelope[{}",
    "tests/theatre/construct_kit/test_stdio_server.py::test_a_signal_ends_a_call[answer-15",
    "tests/theatre/construct_kit/test_versions_and_loading.py::test_a_module_that_cannot_be[raising",
    "tests/theatre/construct_kit/test_versions_and_loading.py::test_exactly_one[options0",
    "tests/theatre/construct_kit/test_versions_and_loading.py::test_what_is_not_there[no such name",
    "tests/theatre/fixtures/test_cartograph_construct.py::test_malformed_parameters[input_data1",
    "tests/theatre/fixtures/test_easel_constructs.py::test_the_runner_starts_it_under[easel",
    "tests/theatre/fixtures/test_easel_requests.py::test_rebuilding_gives_the_committed_bytes[3.13",
    "tests/theatre/fixtures/test_observer_ground_truth.py::test_a_change_of_any_field[content",
    "tests/theatre/fixtures/test_observer_ground_truth.py::test_a_change_of_any_field[prev_hash",
    "tests/theatre/fixtures/test_observer_http.py::test_a_baseline_refuses[no ",
    "tests/theatre/oracles/test_construct_files.py::test_what_runs[below",
    "tests/theatre/oracles/test_dataset_copies.py::test_no_shipped_construct_is_taken[product_observer_v1",
    "tests/theatre/oracles/test_hostile.py::test_a_case_ends[stdio-allocates",
    "tests/theatre/oracles/test_hostile.py::test_a_case_ends[stdio-answers-twice",
    "tests/theatre/oracles/test_hostile.py::test_a_case_ends[stdio-complains-and-dies",
    "tests/theatre/oracles/test_hostile.py::test_a_case_ends[stdio-endless-stdout",
    "tests/theatre/oracles/test_hostile.py::test_a_case_ends[stdio-hang",
    "tests/theatre/oracles/test_hostile.py::test_a_case_ends[stdio-leaves-a-grandchild",
    "tests/theatre/oracles/test_hostile.py::test_a_case_ends[stdio-not-json",
    "tests/theatre/oracles/test_hostile.py::test_a_case_ends[stdio-slow-drip",
    "tests/theatre/oracles/test_hostile.py::test_a_case_ends[stdio-wrong-version",
    "tests/theatre/oracles/test_sanitise.py::test_a_mebibyte_of_hostile_json[many names",
    "tests/theatre/oracles/test_sanitise.py::test_hostile_text_is_cleaned[joiners",
    "tests/theatre/oracles/test_sanitise.py::test_hostile_text_is_cleaned[tokens",
    "tests/theatre/scorers/test_load_scorers.py::test_no_answer_and_no_expectation[exact_match",
    "tests/theatre/scorers/test_load_scorers.py::test_no_answer_and_no_expectation[llm_judge",
    "tests/theatre/test_bundle_check_processes.py::test_a_chain_of_processes_passes[2-4",
    "tests/theatre/test_failed_steps.py::test_a_certificate_says_which_steps[broken",
    "tests/theatre/test_failed_steps.py::test_a_certificate_says_which_steps[fits",
    "tests/theatre/test_failed_steps.py::test_a_certificate_says_which_steps[skipped",
    "tests/theatre/test_integration.py::test_many_calls_at_a_time[5-3",
    "tests/theatre/test_interval_coverage.py::test_wilsons_interval[right or wrong, 80 % right, 60",
    "tests/theatre/test_isolated_runs.py::test_a_construct_that_could_read[isolated",
    "tests/theatre/test_isolated_runs.py::test_a_construct_that_could_read[reads files",
    "tests/theatre/test_schema_registry.py::test_a_shipped_schema_is_valid[echelon_rlmf",
    "tests/theatre/test_schema_registry.py::test_a_shipped_schema_is_valid[echelon_theatre_schema_v2_2",
    "tests/theatre/test_scoring_corrections.py::test_a_rate_holds[0.9, 0.9-400",
    "tests/theatre/test_template_credentials.py::test_hostile_text[a:",
    "tests/theatre/test_verify_bundle.py::test_no_document_makes_it_crash[NaN",
    "tests/theatre/verification/test_judge_controls.py::test_a_judge_that_does_not_look[copying",
)
"""Of tests that a part names as a whole, the cases that `make test` has all the same."""


def part_of(test_id: str) -> str | None:
    """Return the part of the soak that has a test; None for one of `make test`."""
    path, _, rest = test_id.partition("::")
    function, _, case = rest.partition("[")
    for part, name, begin in _names_in(path):
        if function.startswith(name) and case.startswith(begin):
            return part
    return None


@cache
def _names_in(path: str) -> list[tuple[str | None, str, str]]:
    """Return part, beginning of the function and of the case of each name in a file."""
    every = [(None, KEPT), *PARTS.items()]
    split = [(part, *name.partition("::")[::2]) for part, names in every for name in names]
    return [(part, *name.partition("[")[::2]) for part, file, name in split if file == path]
