"""What the database itself refuses: to the application's role, and to the owner of the tables."""

from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
from psycopg import errors

from backend.database.models import Base
from backend.database.sessions import APPLICATION, OWNER
from tests.backend.databases import A_TEMPLATE, A_USER, COMMITMENT, HASH, USER_ID, Database
from theatre.engine.canonical_json import sha256_hex
from theatre.engine.state_machine import VALID_TRANSITIONS, TheatreState

THEATRE_ID = "018f0000-0000-7000-8000-00000000000a"
OTHER_THEATRE_ID = "018f0000-0000-7000-8000-00000000000b"
CERTIFICATE_ID = "018f0000-0000-7000-8000-00000000000c"
MOMENT = "2026-11-21T12:00:05Z"
ONLY_ADDED_TO = (
    *("construct_decisions", "debate_evaluations", "debate_events", "human_scores"),
    *("log_checkpoints", "log_entries", "log_queue", "log_tiles", "sealed_bundles"),
    *("theatre_audit_events", "theatre_certificates", "theatre_coins", "theatre_episode_scores"),
    *("theatre_templates", "trust_documents"),
)
CERTIFICATE: Mapping[str, Any] = {
    "id": CERTIFICATE_ID,
    "theatre_id": THEATRE_ID,
    "template_id": "a_template_v1",
    "construct_id": "a-construct",
    "document": b"{}",
    "document_sha256": sha256_hex(b"{}"),
    "sigstore": b"{}",
    "statement_sha256": HASH,
    "criteria_json": "{}",
    "scores_json": "{}",
    "replay_count": 3,
    "evidence_bundle_hash": HASH,
    "ground_truth_hash": HASH,
    "results_hash": HASH,
    "audit_head": HASH,
    "construct_version": "v",
    "scorer_version": "v",
    "methodology_version": "v",
    "verification_tier": "UNVERIFIED",
    "commitment_hash": HASH,
    "issuer": "local",
    "ground_truth_source": "CUSTOM",
    "execution_path": "replay",
    "issued_at": MOMENT,
    "theatre_committed_at": MOMENT,
    "theatre_resolved_at": MOMENT,
}
EVENT: Mapping[str, Any] = {
    "theatre_id": THEATRE_ID,
    "seq": 0,
    "event_type": "created",
    "detail_json": "{}",
    "prev_entry_hash": "0" * 64,
    "entry_hash": HASH,
    "entry": b"{}",
    "created_at": MOMENT,
}
EPISODE: Mapping[str, Any] = {
    "theatre_id": THEATRE_ID,
    "seq": 1,
    "episode_id": "one",
    "invocation_status": "success",
    "outcome": "scored",
    "scores_json": "{}",
    "line": b"{}",
}
HUMAN_SCORE: Mapping[str, Any] = {
    "theatre_id": THEATRE_ID,
    "step_id": "rate",
    "identity": "ada",
    "episode_seq": 1,
    "user_id": USER_ID,
    "score": 0.5,
    "audit_seq": 0,
    "created_at": MOMENT,
}
DEBATE_RUN_ID = "018f0000-0000-7000-8000-00000000000d"
DEBATE_RUN: Mapping[str, Any] = {
    "id": DEBATE_RUN_ID,
    "user_id": USER_ID,
    "debate_id": "a-debate",
    "run_id": "a-run",
    "evaluation_mode": "posthoc",
    "artefact_sha256": HASH,
    "head_hash": HASH,
    "events": 1,
    "turns": 1,
    "is_closed": False,
    "created_at": MOMENT,
    "updated_at": MOMENT,
}
DEBATE_EVENT: Mapping[str, Any] = {
    "debate_run_id": DEBATE_RUN_ID,
    "seq": 0,
    "event_type": "debate_opened",
    "entry_hash": HASH,
    "entry": b"{}",
}
DEBATE_EVALUATION: Mapping[str, Any] = {
    "debate_run_id": DEBATE_RUN_ID,
    "artefact_sha256": HASH,
    "evaluator": "crit",
    "sha256": sha256_hex(b"{}"),
    "document": b"{}",
    "created_at": MOMENT,
}
SEALED_BUNDLE: Mapping[str, Any] = {
    "theatre_id": THEATRE_ID,
    "sha256": HASH,
    "size_bytes": 1,
    "sealed_at": MOMENT,
}
DECIDED = f"""
    INSERT INTO construct_decisions (construct_id, user_id, decision, decided_at, queue_end)
    VALUES ('a-construct', '{USER_ID}', 'confirmed', '{MOMENT}', 0)
"""  # noqa: S608 - a constant
COMMITTED = (
    f"commitment_hash = '{HASH}', committed_at = now(), version_pins = '{{}}',"
    " dataset_hashes = '{}', receipt = ''"
)
CERTIFIED = (
    f"state = 'RESOLVED', {COMMITTED}, outcome = 'certified', resolved_at = now(),"
    f" certificate_id = '{CERTIFICATE_ID}'"
)
TO_RESOLVED = "state = 'RESOLVED', outcome = 'failed', resolved_at = now()"


def fill(database: Database) -> Database:
    """Add a row to every table that evidence is in, and two drafts."""
    database.add("users", A_USER)
    database.add("theatre_templates", A_TEMPLATE)
    for theatre_id in (THEATRE_ID, OTHER_THEATRE_ID):
        database.add_theatre(theatre_id)
    database.add("theatre_audit_events", EVENT)
    database.add("theatre_episode_scores", EPISODE)
    database.add("human_scores", HUMAN_SCORE)
    database.add("sealed_bundles", SEALED_BUNDLE)
    database.add("theatre_certificates", CERTIFICATE)
    database.add("theatre_coins", {"theatre_id": THEATRE_ID, "coin": bytes(32)})
    database.add("log_queue", {"type": "key/v1", "entry": b"{}"})
    database.add("log_entries", {"log_index": 0, "entry": b"{}"})
    database.add("log_tiles", {"path": "tile/1/000.p/1", "data": bytes(32)})
    database.add("log_checkpoints", {"seq": 0, "size": 1, "checkpoint": b""})
    database.add("trust_documents", {"seq": 0, "document": b"{}", "created_at": MOMENT})
    database.add("debate_runs", DEBATE_RUN)
    database.add("debate_events", DEBATE_EVENT)
    database.add("debate_evaluations", DEBATE_EVALUATION)
    with database.connected(OWNER) as connection:
        connection.execute(DECIDED)
    return database


@pytest.fixture
def filled(database: Database) -> Database:
    """A database of the test's own, with evidence."""
    return fill(database)


@pytest.fixture(scope="module")
def evidence(module_database: Database) -> Database:
    """One database with evidence and a committed theatre, in which everything is refused."""
    fill(module_database)
    commit(module_database)
    return module_database


def change(database: Database, statement: str, role: str = APPLICATION) -> None:
    with database.connected(role) as connection:
        connection.execute(statement.encode())


def commit(database: Database) -> None:
    with database.connected(APPLICATION) as connection:
        assigned = ", ".join(f"{column} = %({column})s" for column in COMMITMENT)
        statement = f"UPDATE theatres SET state = 'COMMITTED', {assigned} WHERE id = %(id)s"  # noqa: S608
        connection.execute(statement.encode(), {**COMMITMENT, "id": THEATRE_ID})


def resolve(database: Database) -> None:
    commit(database)
    for assigned in ("state = 'ACTIVE'", "state = 'SETTLING'", TO_RESOLVED):
        change(database, f"UPDATE theatres SET {assigned} WHERE id = '{THEATRE_ID}'")  # noqa: S608


@pytest.mark.parametrize("table", ONLY_ADDED_TO)
@pytest.mark.parametrize("statement", ["UPDATE {} SET {} = {}", "DELETE FROM {}", "TRUNCATE {}"])
def test_evidence_is_only_added_to(evidence: Database, table: str, statement: str) -> None:
    column = Base.metadata.tables[table].columns.keys()[-1]
    written = statement.format(table, column, column)
    with pytest.raises(errors.InsufficientPrivilege, match=f"permission denied for table {table}"):
        change(evidence, written, APPLICATION)
    if statement.startswith("TRUNCATE"):
        written += " CASCADE"
    with pytest.raises(
        errors.IntegrityConstraintViolation,
        match=r"^expected \w+ to be only added to, got (UPDATE|DELETE|TRUNCATE)",
    ):
        change(evidence, written, OWNER)
    assert evidence.rows(f"SELECT count(*) FROM {table}") == [{"count": 1}]  # noqa: S608


def test_the_application_confirms_no_owner_of_a_construct(evidence: Database) -> None:
    with pytest.raises(
        errors.InsufficientPrivilege, match="permission denied for table construct_decisions"
    ):
        change(evidence, DECIDED)
    columns = {column.name for column in Base.metadata.tables["registered_constructs"].columns}
    assert columns == {"construct_id", "user_id", "author", "created_at"}


@pytest.mark.parametrize("table", sorted(Base.metadata.tables))
def test_the_application_owns_nothing_and_switches_no_trigger_off(
    evidence: Database, table: str
) -> None:
    for statement in (f"ALTER TABLE {table} DISABLE TRIGGER ALL", f"DROP TABLE {table} CASCADE"):
        with pytest.raises(errors.InsufficientPrivilege):
            change(evidence, statement)
    for statement in ("SET session_replication_role = replica", f"SET ROLE {OWNER}"):
        with pytest.raises(errors.InsufficientPrivilege):
            change(evidence, statement)
    with pytest.raises(errors.InsufficientPrivilege):
        change(evidence, "CREATE TABLE public.own ()")


@pytest.mark.parametrize("role", [APPLICATION, OWNER])
@pytest.mark.parametrize(
    "assigned",
    [
        f"commitment_hash = '{'cd' * 32}'",
        "committed_at = now()",
        """version_pins = '{"a": 1}'""",
        """dataset_hashes = '{"a": 1}'""",
        "receipt = 'other'",
        ", ".join(f"{column} = NULL" for column in COMMITMENT),
    ],
)
def test_what_was_committed_never_changes(evidence: Database, role: str, assigned: str) -> None:
    statement = f"UPDATE theatres SET {assigned} WHERE id = '{THEATRE_ID}'"  # noqa: S608
    with pytest.raises(errors.IntegrityConstraintViolation, match="expected the commitment of"):
        change(evidence, statement, role)
    change(evidence, f"UPDATE theatres SET progress = 1 WHERE id = '{THEATRE_ID}'")  # noqa: S608


@pytest.mark.parametrize(
    "column", ["id", "user_id", "template_id", "template_sha256", "construct_id", "created_at"]
)
def test_a_draft_already_stays_whose_and_of_what_it_is(evidence: Database, column: str) -> None:
    other = "now()" if column == "created_at" else f"'{CERTIFICATE_ID}'"
    statement = f"UPDATE theatres SET {column} = {other} WHERE id = '{OTHER_THEATRE_ID}'"  # noqa: S608
    with pytest.raises(errors.InsufficientPrivilege):
        change(evidence, statement)
    with pytest.raises(errors.IntegrityConstraintViolation, match="stay whose and of what it is"):
        change(evidence, statement, OWNER)


@pytest.mark.parametrize("role", [APPLICATION, OWNER])
def test_a_theatre_is_never_removed(evidence: Database, role: str) -> None:
    refused = errors.InsufficientPrivilege if role == APPLICATION else psycopg.IntegrityError
    for statement in ("DELETE FROM theatres", "TRUNCATE theatres CASCADE"):
        with pytest.raises(refused):
            change(evidence, statement, role)
    assert evidence.rows("SELECT count(*) FROM theatres") == [{"count": 2}]


def test_the_database_knows_the_same_thirty_six_steps_as_the_engine(filled: Database) -> None:
    """The state is forced onto the row, with its trigger off, and then moved with it on."""
    filled.add("theatre_templates", {**A_TEMPLATE, **OTHER_TEMPLATE})
    taken = {state: [] for state in TheatreState}  # type: dict[TheatreState, list[TheatreState]]
    with filled.connected(OWNER) as connection:
        for step, (start, target) in enumerate((a, b) for a in TheatreState for b in TheatreState):
            theatre_id = f"018f0000-0000-7000-8000-1{step:011d}"
            filled.add_theatre(theatre_id, **COMMITMENT)
            for trigger, state in (("DISABLE", start), ("ENABLE", target)):
                connection.execute(f"ALTER TABLE theatres {trigger} TRIGGER guard_theatre".encode())
                ended = state in {TheatreState.RESOLVED, TheatreState.ARCHIVED}
                outcome = "'failed', resolved_at = '2026-11-21T12:00:00Z'"
                assigned = f"outcome = {outcome if ended else 'NULL, resolved_at = NULL'}"
                statement = f"UPDATE theatres SET state = '{state}', {assigned} WHERE id = %s"  # noqa: S608
                try:
                    connection.execute(statement.encode(), [theatre_id])
                except errors.IntegrityConstraintViolation:
                    continue
                if trigger == "ENABLE" and state is not start:
                    taken[start].append(target)
    assert {state: tuple(targets) for state, targets in taken.items()} == dict(VALID_TRANSITIONS)


OTHER_TEMPLATE: Mapping[str, Any] = {"document": b"{}", "sha256": sha256_hex(b"{}")}


def test_a_theatre_begins_as_a_draft(evidence: Database) -> None:
    with pytest.raises(errors.IntegrityConstraintViolation, match="new theatre in DRAFT, got ACTI"):
        evidence.add_theatre(CERTIFICATE_ID, state="ACTIVE", **COMMITMENT)


@pytest.mark.parametrize("role", [APPLICATION, OWNER])
def test_what_a_run_began_as_never_changes(filled: Database, role: str) -> None:
    commit(filled)
    change(filled, f"UPDATE theatres SET is_certificate_run = false WHERE id = '{THEATRE_ID}'")  # noqa: S608
    change(filled, f"UPDATE theatres SET state = 'ACTIVE' WHERE id = '{THEATRE_ID}'")  # noqa: S608
    for assigned in (
        "is_certificate_run = true",
        "is_certificate_run = NULL",
        f"rehearsal_sha256 = '{HASH}'",
        f"answers_sha256 = '{HASH}'",
    ):
        with pytest.raises(errors.IntegrityConstraintViolation, match="stay what it began as"):
            change(filled, f"UPDATE theatres SET {assigned} WHERE id = '{THEATRE_ID}'", role)  # noqa: S608


def test_an_outcome_never_changes_and_an_epoch_never_falls(filled: Database) -> None:
    resolve(filled)
    for assigned in ("outcome = 'void'", "outcome_reason = 'x'", "resolved_at = now()"):
        with pytest.raises(errors.IntegrityConstraintViolation, match="expected the outcome of"):
            change(filled, f"UPDATE theatres SET {assigned} WHERE id = '{THEATRE_ID}'")  # noqa: S608
    change(filled, "UPDATE theatres SET run_epoch = 2")
    with pytest.raises(errors.IntegrityConstraintViolation, match="to rise, got 1 after 2"):
        change(filled, "UPDATE theatres SET run_epoch = 1")


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("state = 'COMMITTED'", "committed_before_it_moves"),
        (f"commitment_hash = '{HASH}'", "whole_commitment"),
        (f"state = 'ELSEWHERE', {COMMITTED}", "state"),
        ("outcome = 'failed', resolved_at = now()", "resolved_with_an_outcome"),
        (f"certificate_id = '{CERTIFICATE_ID}'", "certified_with_a_certificate"),
        (f"answers_sha256 = '{HASH}'", "only_rehearsed"),
        (f"rehearsal_sha256 = '{HASH}', is_certificate_run = true", "only_rehearsed"),
        (CERTIFIED, "rehearsal_never_certified"),
        (f"{CERTIFIED}, is_certificate_run = false", "rehearsal_never_certified"),
        ("run_status = 'asleep'", "run_status"),
        ("progress = -1", "counts"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(
    evidence: Database, statement: str, constraint: str
) -> None:
    written = f"UPDATE theatres SET {statement} WHERE id = '{OTHER_THEATRE_ID}'"  # noqa: S608
    # The condition is to be seen, not the trigger that comes before it.
    with evidence.connected("postgres") as connection:
        connection.execute("SET session_replication_role = replica")
        with pytest.raises(errors.CheckViolation, match=f'"ck_theatres_{constraint}"'):
            connection.execute(written.encode())
    assert evidence.rows("SELECT state FROM theatres WHERE id = %s", OTHER_THEATRE_ID) == [
        {"state": "DRAFT"}
    ]


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"id": USER_ID}, "uq_theatre_certificates_theatre_id"),
        ({"theatre_id": OTHER_THEATRE_ID, "document": b"[]"}, "document_sha256"),
        (
            {"theatre_id": OTHER_THEATRE_ID, "verification_tier": "GOLD", "expires_at": MOMENT},
            "verification_tier",
        ),
        ({"theatre_id": OTHER_THEATRE_ID, "expires_at": MOMENT}, "expires_at"),
        ({"theatre_id": OTHER_THEATRE_ID, "replay_count": 0}, "replay_count"),
        (
            {"theatre_id": USER_ID, "statement_sha256": "cd" * 32},
            "fk_theatre_certificates_theatre_id",
        ),
        ({"theatre_id": OTHER_THEATRE_ID}, "uq_theatre_certificates_statement_sha256"),
    ],
)
def test_a_theatre_has_one_certificate_whose_bytes_are_those_that_were_hashed(
    evidence: Database, changes: Mapping[str, Any], refusal: str
) -> None:
    other = {"id": OTHER_THEATRE_ID, **changes}
    with pytest.raises(psycopg.IntegrityError, match=refusal):
        evidence.add("theatre_certificates", {**CERTIFICATE, **other})
    assert evidence.rows("SELECT count(*) FROM theatre_certificates") == [{"count": 1}]


def settle_both(database: Database) -> None:
    for step in ("COMMITTED", "ACTIVE", "SETTLING"):
        with database.connected(APPLICATION) as connection:
            statement = """
                UPDATE theatres SET state = %(step)s, commitment_hash = %(commitment_hash)s,
                    committed_at = %(committed_at)s, version_pins = %(version_pins)s,
                    dataset_hashes = %(dataset_hashes)s, receipt = %(receipt)s,
                    is_certificate_run = true
            """
            connection.execute(statement, {**COMMITMENT, "step": step})


def queue(database: Database, kind: str, theatre_id: str = THEATRE_ID) -> None:
    """Queue the entry of a commitment, or one that closes it."""
    row: dict[str, Any] = {"type": kind, "theatre_id": theatre_id}
    if kind == "void/v1":
        row["reason"] = "failed"
    else:
        row["entry"] = f"{kind} of {theatre_id}".encode()
    if kind == "commitment/v1":
        row |= {"construct_id": "a-construct", "construct_version": "v", "close_by": MOMENT}
    database.add("log_queue", row)


@pytest.mark.parametrize(
    ("queued", "assigned", "refusal"),
    [
        ((), CERTIFIED, "with certificate/v1, got nothing"),
        (("commitment/v1",), CERTIFIED, "with certificate/v1, got nothing"),
        (("commitment/v1", "void/v1"), CERTIFIED, "with certificate/v1, got void/v1"),
        (("commitment/v1",), TO_RESOLVED, "with void/v1, got nothing"),
        (("commitment/v1", "certificate/v1"), TO_RESOLVED, "with void/v1, got certificate/v1"),
        ((), TO_RESOLVED, None),
        (("commitment/v1", "void/v1"), TO_RESOLVED, None),
        (("commitment/v1", "certificate/v1"), CERTIFIED, None),
    ],
)
def test_a_commitment_of_the_log_is_closed_by_what_its_theatre_came_to(
    filled: Database, queued: tuple[str, ...], assigned: str, refusal: str | None
) -> None:
    settle_both(filled)
    for kind in queued:
        queue(filled, kind)
    assigned = assigned.replace(f" {COMMITTED},", "")
    resolved = f"UPDATE theatres SET {assigned} WHERE id = '{THEATRE_ID}'"  # noqa: S608
    if refusal is None:
        change(filled, resolved)
    else:
        with pytest.raises(psycopg.IntegrityError, match=refusal):
            change(filled, resolved)


def test_a_commitment_is_logged_once_and_closed_once(filled: Database) -> None:
    with pytest.raises(psycopg.IntegrityError, match="expected a commitment that void/v1 closes"):
        queue(filled, "void/v1")
    queue(filled, "commitment/v1")
    with pytest.raises(errors.UniqueViolation, match="uq_log_queue_commitment"):
        queue(filled, "commitment/v1")
    queue(filled, "void/v1")
    with pytest.raises(errors.UniqueViolation, match="uq_log_queue_closing"):
        queue(filled, "certificate/v1")


def test_a_certificate_run_begins_once_its_commitment_is_in_a_checkpoint(filled: Database) -> None:
    commit(filled)
    begins = f"""
        UPDATE theatres SET state = 'ACTIVE', total_episodes = %s, is_certificate_run = %s
        WHERE id = '{THEATRE_ID}'
    """  # noqa: S608
    queue(filled, "commitment/v1")
    with filled.connected(APPLICATION) as connection:
        with pytest.raises(psycopg.IntegrityError, match="in a checkpoint before a call"):
            connection.execute(begins.encode(), [1, True])
        # A rehearsal is none, and what ends without a call passes by.
        for episodes, is_certificate_run in ((1, False), (0, True)):
            with connection.transaction(force_rollback=True):
                connection.execute(begins.encode(), [episodes, is_certificate_run])
        (row,) = connection.execute("SELECT id FROM log_queue WHERE type = 'commitment/v1'")
        entry = "INSERT INTO log_entries (log_index, queue_id, entry) VALUES (1, %s, 'an entry')"
        connection.execute(entry, [row["id"]])
        connection.execute(begins.encode(), [1, True])


def test_a_checkpoint_signs_the_next_entries_and_no_tree_twice(filled: Database) -> None:
    for seq, size in ((0, 1), (2, 1), (1, 2), (1, 0)):
        with pytest.raises(psycopg.IntegrityError, match="expected checkpoint"):
            filled.add("log_checkpoints", {"seq": seq, "size": size, "checkpoint": b""})
    filled.add("log_entries", {"log_index": 2, "entry": b"behind a gap"})
    with pytest.raises(psycopg.IntegrityError, match="expected checkpoint"):
        filled.add("log_checkpoints", {"seq": 1, "size": 2, "checkpoint": b""})


def test_a_theatre_is_certified_by_its_own_certificate_only(filled: Database) -> None:
    settle_both(filled)
    for theatre_id in (THEATRE_ID, OTHER_THEATRE_ID):
        for kind in ("commitment/v1", "certificate/v1"):
            queue(filled, kind, theatre_id)
    certified = "state = 'RESOLVED', outcome = 'certified', resolved_at = now()"
    resolved = f"UPDATE theatres SET {certified}, certificate_id = '{CERTIFICATE_ID}' WHERE id = "  # noqa: S608
    with pytest.raises(errors.ForeignKeyViolation, match="fk_theatres_certificate_id_id"):
        change(filled, f"{resolved} '{OTHER_THEATRE_ID}'")
    change(filled, f"{resolved} '{THEATRE_ID}'")


def test_a_sequence_number_is_recorded_once_a_theatre(evidence: Database) -> None:
    with pytest.raises(errors.UniqueViolation, match="pk_theatre_episode_scores"):
        evidence.add("theatre_episode_scores", EPISODE)
    with pytest.raises(errors.UniqueViolation, match="pk_theatre_audit_events"):
        evidence.add("theatre_audit_events", EVENT)
    with pytest.raises(errors.UniqueViolation, match="pk_human_scores"):
        evidence.add("human_scores", HUMAN_SCORE)


def test_names_of_users_differ_by_more_than_case(evidence: Database) -> None:
    other = {**A_USER, "id": THEATRE_ID}
    with pytest.raises(errors.UniqueViolation, match="uq_users_username"):
        evidence.add("users", {**other, "username": "ADA", "email": "other@example.org"})
    with pytest.raises(errors.UniqueViolation, match="uq_users_email"):
        evidence.add("users", {**other, "username": "other", "email": "Ada@Example.org"})
