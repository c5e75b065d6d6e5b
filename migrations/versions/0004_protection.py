"""What nobody may change, and what the application's role may do (docs/adr/0077)."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

APPLICATION = "echelon_app"
ONLY_ADDED_TO = (
    "theatre_templates",
    "theatre_certificates",
    "theatre_episode_scores",
    "theatre_audit_events",
    "human_scores",
)

REFUSE_CHANGE = """
CREATE FUNCTION echelon_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'expected % to be only added to, got %', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'integrity_constraint_violation';
END $$
"""

GUARD_NEW_THEATRE = """
CREATE FUNCTION echelon_guard_new_theatre() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state <> 'DRAFT' THEN
        RAISE EXCEPTION 'expected a new theatre in DRAFT, got %', NEW.state
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$
"""

GUARD_THEATRE = """
CREATE FUNCTION echelon_guard_theatre() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.user_id, NEW.created_at, NEW.template_id, NEW.template_sha256)
            IS DISTINCT FROM
            (OLD.id, OLD.user_id, OLD.created_at, OLD.template_id, OLD.template_sha256)
            OR NEW.construct_id IS DISTINCT FROM OLD.construct_id THEN
        RAISE EXCEPTION 'expected theatre % to stay whose and of what it is, got a change', OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.state <> OLD.state AND (OLD.state, NEW.state) NOT IN (
            ('DRAFT', 'COMMITTED'), ('COMMITTED', 'ACTIVE'), ('ACTIVE', 'SETTLING'),
            ('SETTLING', 'RESOLVED'), ('RESOLVED', 'ARCHIVED')) THEN
        RAISE EXCEPTION 'expected theatre % to take the next step from %, got a step to %',
            OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.state <> 'DRAFT' AND
            (NEW.commitment_hash, NEW.committed_at, NEW.version_pins, NEW.dataset_hashes,
             NEW.receipt)
            IS DISTINCT FROM
            (OLD.commitment_hash, OLD.committed_at, OLD.version_pins, OLD.dataset_hashes,
             OLD.receipt) THEN
        RAISE EXCEPTION 'expected the commitment of theatre % to stay as it is, got a change',
            OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.state IN ('RESOLVED', 'ARCHIVED') AND
            (NEW.outcome, NEW.outcome_reason, NEW.resolved_at, NEW.certificate_id)
            IS DISTINCT FROM
            (OLD.outcome, OLD.outcome_reason, OLD.resolved_at, OLD.certificate_id) THEN
        RAISE EXCEPTION 'expected the outcome of theatre % to stay as it is, got a change', OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.run_epoch < OLD.run_epoch THEN
        RAISE EXCEPTION 'expected the epoch of theatre % to rise, got % after %',
            OLD.id, NEW.run_epoch, OLD.run_epoch
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    NEW.version := OLD.version + 1;
    RETURN NEW;
END $$
"""

# A role is of the whole server: other databases may use it, so that nothing drops it.
MAKE_ROLE = f"""
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{APPLICATION}') THEN
        CREATE ROLE {APPLICATION} NOLOGIN;
        GRANT {APPLICATION} TO CURRENT_USER;
    END IF;
END $$
"""

GRANTS = f"""
GRANT USAGE ON SCHEMA public TO {APPLICATION};
GRANT SELECT ON ALL TABLES IN SCHEMA public TO {APPLICATION};
GRANT INSERT ON users, api_keys, registered_constructs, idempotency_keys, datasets,
    theatre_templates, theatres, theatre_certificates, theatre_episode_scores,
    theatre_audit_events, human_scores TO {APPLICATION};
GRANT UPDATE (email, password_hash, disabled_at) ON users TO {APPLICATION};
GRANT UPDATE (last_used_at, revoked_at) ON api_keys TO {APPLICATION};
GRANT UPDATE (author, confirmed_at) ON registered_constructs TO {APPLICATION};
GRANT UPDATE (status, headers, answer), DELETE ON idempotency_keys TO {APPLICATION};
GRANT UPDATE (
    state, commitment_hash, committed_at, version_pins, dataset_hashes, receipt,
    is_certificate_run, run_status, run_epoch, progress, total_episodes, failure_count,
    refused_count, pending_step, error, started_at, heartbeat_at, cancel_requested_at,
    outcome, outcome_reason, resolved_at, certificate_id, updated_at
) ON theatres TO {APPLICATION}
"""


def upgrade() -> None:
    """Make role and triggers, and grant what the application needs."""
    for function in (REFUSE_CHANGE, GUARD_NEW_THEATRE, GUARD_THEATRE, MAKE_ROLE):
        op.execute(function)
    for table in ONLY_ADDED_TO:
        _refuse(table, "UPDATE OR DELETE OR TRUNCATE")
    _refuse("theatres", "DELETE OR TRUNCATE")
    for moment, guard in (("INSERT", "guard_new_theatre"), ("UPDATE", "guard_theatre")):
        op.execute(
            f"CREATE TRIGGER {guard} BEFORE {moment} ON theatres "
            f"FOR EACH ROW EXECUTE FUNCTION echelon_{guard}()"
        )
    for grant in GRANTS.split(";"):
        op.execute(grant)


def downgrade() -> None:
    """Drop the triggers and take the rights back; the role stays."""
    op.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {APPLICATION}")
    op.execute(f"REVOKE USAGE ON SCHEMA public FROM {APPLICATION}")
    for name in ("guard_theatre", "guard_new_theatre", "refuse_change"):
        op.execute(f"DROP FUNCTION echelon_{name}() CASCADE")


def _refuse(table: str, events: str) -> None:
    op.execute(
        f"CREATE TRIGGER refuse_change BEFORE {events} ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change()"
    )
