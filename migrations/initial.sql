-- The schema of the service. backend/database/models is compared with it by a test.

-- People, their keys, constructs and uploads.

CREATE TABLE users (
    id UUID NOT NULL,
    username VARCHAR(100) NOT NULL,
    email VARCHAR(254) NOT NULL,
    password_hash TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    disabled_at TIMESTAMPTZ,
    is_operator BOOLEAN DEFAULT false NOT NULL,
    token_generation INTEGER DEFAULT 0 NOT NULL,
    CONSTRAINT pk_users PRIMARY KEY (id),
    CONSTRAINT ck_users_username CHECK (username <> '')
);
CREATE UNIQUE INDEX uq_users_email ON users (lower(email));
CREATE UNIQUE INDEX uq_users_username ON users (lower(username));

-- A spent invite has its user; the service may spend them, and only the operator makes them.
CREATE TABLE invites (
    id UUID NOT NULL,
    code_sha256 VARCHAR(64) NOT NULL,
    note VARCHAR(200) NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    revoked_at TIMESTAMPTZ,
    used_at TIMESTAMPTZ,
    used_by UUID,
    CONSTRAINT pk_invites PRIMARY KEY (id),
    CONSTRAINT ck_invites_code_sha256 CHECK (code_sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_invites_whole_use CHECK (num_nonnulls(used_at, used_by) IN (0, 2)),
    CONSTRAINT fk_invites_used_by FOREIGN KEY (used_by) REFERENCES users (id),
    CONSTRAINT uq_invites_code_sha256 UNIQUE (code_sha256)
);

CREATE TABLE api_keys (
    id UUID NOT NULL,
    user_id UUID NOT NULL,
    name VARCHAR(100) NOT NULL,
    secret_sha256 VARCHAR(64) NOT NULL,
    scopes VARCHAR(50)[] NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    last_used_at TIMESTAMPTZ,
    revoked_at TIMESTAMPTZ,
    CONSTRAINT pk_api_keys PRIMARY KEY (id),
    CONSTRAINT ck_api_keys_secret_sha256 CHECK (secret_sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT fk_api_keys_user_id FOREIGN KEY (user_id) REFERENCES users (id),
    CONSTRAINT uq_api_keys_secret_sha256 UNIQUE (secret_sha256)
);
CREATE INDEX ix_api_keys_user_id ON api_keys (user_id);

CREATE TABLE registered_constructs (
    construct_id VARCHAR(255) NOT NULL,
    user_id UUID NOT NULL,
    author VARCHAR(200),
    created_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_registered_constructs PRIMARY KEY (construct_id),
    CONSTRAINT ck_registered_constructs_construct_id CHECK (construct_id <> ''),
    CONSTRAINT fk_registered_constructs_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE INDEX ix_registered_constructs_user_id ON registered_constructs (user_id);

CREATE TABLE construct_decisions (
    seq BIGINT GENERATED ALWAYS AS IDENTITY,
    construct_id VARCHAR(255) NOT NULL,
    user_id UUID NOT NULL,
    decision VARCHAR(20) NOT NULL,
    decided_at TIMESTAMPTZ NOT NULL,
    queue_end BIGINT NOT NULL,
    CONSTRAINT pk_construct_decisions PRIMARY KEY (seq),
    CONSTRAINT ck_construct_decisions_decision CHECK (decision IN ('confirmed', 'rejected',
        'released')),
    CONSTRAINT fk_construct_decisions_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE INDEX ix_construct_decisions_construct_id_seq ON construct_decisions (construct_id, seq);

CREATE TABLE idempotency_keys (
    user_id UUID NOT NULL,
    key VARCHAR(255) NOT NULL,
    method VARCHAR(10) NOT NULL,
    path TEXT NOT NULL,
    body_sha256 VARCHAR(64) NOT NULL,
    status SMALLINT,
    headers JSONB,
    answer BYTEA,
    created_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_idempotency_keys PRIMARY KEY (user_id, key),
    CONSTRAINT ck_idempotency_keys_body_sha256 CHECK (body_sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_idempotency_keys_whole_answer CHECK (num_nonnulls(status, headers, answer) IN (0,
        3)),
    CONSTRAINT fk_idempotency_keys_user_id FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE
        CASCADE
);
CREATE INDEX ix_idempotency_keys_created_at ON idempotency_keys (created_at);

CREATE TABLE datasets (
    sha256 VARCHAR(64) NOT NULL,
    user_id UUID NOT NULL,
    size_bytes BIGINT NOT NULL,
    lines_total INTEGER NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_datasets PRIMARY KEY (sha256, user_id),
    CONSTRAINT ck_datasets_sha256 CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_datasets_not_empty CHECK (size_bytes > 0 AND lines_total > 0),
    CONSTRAINT fk_datasets_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);

-- Templates by content, theatres and what a run leaves.

CREATE TABLE theatre_templates (
    sha256 VARCHAR(64) NOT NULL,
    template_id TEXT NOT NULL,
    template_family VARCHAR(50) NOT NULL,
    execution_path VARCHAR(10),
    display_name VARCHAR(100) NOT NULL,
    description TEXT,
    schema_version VARCHAR(20) NOT NULL,
    template_json JSONB NOT NULL,
    document BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    content_hash VARCHAR(64) NOT NULL,
    CONSTRAINT pk_theatre_templates PRIMARY KEY (sha256),
    CONSTRAINT uq_theatre_templates_template_id_sha256 UNIQUE (template_id, sha256),
    CONSTRAINT ck_theatre_templates_sha256 CHECK (sha256 = encode(sha256(document), 'hex')),
    CONSTRAINT ck_theatre_templates_content_hash CHECK (content_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_theatre_templates_execution_path CHECK (execution_path IN ('replay', 'market'))
);
CREATE INDEX ix_theatre_templates_execution_path ON theatre_templates (execution_path);
CREATE INDEX ix_theatre_templates_template_family ON theatre_templates (template_family);

CREATE TABLE theatres (
    id UUID NOT NULL,
    user_id UUID NOT NULL,
    template_id TEXT NOT NULL,
    template_sha256 VARCHAR(64) NOT NULL,
    construct_id TEXT,
    state VARCHAR(20) NOT NULL,
    version INTEGER DEFAULT 1 NOT NULL,
    commitment_hash VARCHAR(64),
    committed_at TIMESTAMPTZ,
    version_pins JSONB,
    dataset_hashes JSONB,
    receipt BYTEA,
    is_certificate_run BOOLEAN,
    run_status VARCHAR(20),
    run_epoch INTEGER DEFAULT 0 NOT NULL,
    progress INTEGER DEFAULT 0 NOT NULL,
    total_episodes INTEGER DEFAULT 0 NOT NULL,
    failure_count INTEGER DEFAULT 0 NOT NULL,
    refused_count INTEGER DEFAULT 0 NOT NULL,
    pending_step TEXT,
    error VARCHAR(2000),
    started_at TIMESTAMPTZ,
    heartbeat_at TIMESTAMPTZ,
    cancel_requested_at TIMESTAMPTZ,
    outcome VARCHAR(20),
    outcome_reason VARCHAR(2000),
    resolved_at TIMESTAMPTZ,
    certificate_id UUID,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    rehearsal_sha256 VARCHAR(64),
    answers_sha256 VARCHAR(64),
    run_job_id BIGINT,
    lost_workers INTEGER DEFAULT 0 NOT NULL,
    usage_sums JSONB,
    CONSTRAINT pk_theatres PRIMARY KEY (id),
    CONSTRAINT fk_theatres_template_id_template_sha256 FOREIGN KEY (template_id, template_sha256)
        REFERENCES theatre_templates (template_id, sha256),
    CONSTRAINT ck_theatres_state CHECK (state IN ('DRAFT', 'COMMITTED', 'ACTIVE', 'SETTLING',
        'RESOLVED', 'ARCHIVED')),
    CONSTRAINT ck_theatres_run_status CHECK (run_status IN ('queued', 'running', 'waiting_hitl',
        'waiting_budget', 'succeeded', 'failed', 'cancelled')),
    CONSTRAINT ck_theatres_outcome CHECK (outcome IN ('certified', 'no_certificate', 'failed',
        'void')),
    CONSTRAINT ck_theatres_commitment_hash CHECK (commitment_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_theatres_rehearsal_sha256 CHECK (rehearsal_sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_theatres_answers_sha256 CHECK (answers_sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_theatres_only_rehearsed CHECK ((rehearsal_sha256 IS NULL AND answers_sha256 IS
        NULL) OR is_certificate_run IS FALSE),
    CONSTRAINT ck_theatres_rehearsal_never_certified CHECK (outcome IS DISTINCT FROM 'certified' OR
        is_certificate_run IS TRUE),
    CONSTRAINT ck_theatres_whole_commitment CHECK (num_nonnulls(commitment_hash, committed_at,
        version_pins, dataset_hashes, receipt) IN (0, 5)),
    CONSTRAINT ck_theatres_committed_before_it_moves CHECK (state = 'DRAFT' OR commitment_hash IS
        NOT NULL),
    CONSTRAINT ck_theatres_resolved_with_an_outcome CHECK ((state IN ('RESOLVED', 'ARCHIVED')) =
        (outcome IS NOT NULL) AND (outcome IS NULL) = (resolved_at IS NULL)),
    CONSTRAINT ck_theatres_certified_with_a_certificate CHECK ((certificate_id IS NOT NULL) =
        (outcome IS NOT DISTINCT FROM 'certified')),
    CONSTRAINT ck_theatres_counts CHECK (progress >= 0 AND total_episodes >= 0 AND failure_count >=
        0 AND refused_count >= 0),
    CONSTRAINT fk_theatres_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE INDEX ix_theatres_construct_id ON theatres (construct_id);
CREATE INDEX ix_theatres_construct_id_resolved_at_id ON theatres (construct_id, resolved_at, id);
CREATE INDEX ix_theatres_state ON theatres (state);
CREATE INDEX ix_theatres_template_id_template_sha256 ON theatres (template_id, template_sha256);
CREATE INDEX ix_theatres_unfinished ON theatres (run_status) WHERE run_status IN ('queued',
    'running');
CREATE INDEX ix_theatres_user_id_created_at_id ON theatres (user_id, created_at, id);

CREATE TABLE theatre_coins (
    theatre_id UUID NOT NULL,
    coin BYTEA NOT NULL,
    CONSTRAINT pk_theatre_coins PRIMARY KEY (theatre_id),
    CONSTRAINT uq_theatre_coins_coin UNIQUE (coin),
    CONSTRAINT ck_theatre_coins_whole CHECK (octet_length(coin) = 32),
    CONSTRAINT fk_theatre_coins_theatre_id FOREIGN KEY (theatre_id) REFERENCES theatres (id)
);

CREATE TABLE theatre_audit_events (
    theatre_id UUID NOT NULL,
    seq INTEGER NOT NULL,
    event_type VARCHAR(50) NOT NULL,
    from_state VARCHAR(20),
    to_state VARCHAR(20),
    detail_json JSONB NOT NULL,
    prev_entry_hash VARCHAR(64) NOT NULL,
    entry_hash VARCHAR(64) NOT NULL,
    entry BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_theatre_audit_events PRIMARY KEY (theatre_id, seq),
    CONSTRAINT ck_theatre_audit_events_seq CHECK (seq >= 0),
    CONSTRAINT ck_theatre_audit_events_from_state CHECK (from_state IN ('DRAFT', 'COMMITTED',
        'ACTIVE', 'SETTLING', 'RESOLVED', 'ARCHIVED')),
    CONSTRAINT ck_theatre_audit_events_to_state CHECK (to_state IN ('DRAFT', 'COMMITTED', 'ACTIVE',
        'SETTLING', 'RESOLVED', 'ARCHIVED')),
    CONSTRAINT ck_theatre_audit_events_prev_entry_hash CHECK (prev_entry_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_theatre_audit_events_entry_hash CHECK (entry_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT fk_theatre_audit_events_theatre_id FOREIGN KEY (theatre_id) REFERENCES theatres (id)
);
CREATE INDEX ix_theatre_audit_events_theatre_id_created_at ON theatre_audit_events (theatre_id,
    created_at);

CREATE TABLE theatre_episode_scores (
    theatre_id UUID NOT NULL,
    seq INTEGER NOT NULL,
    episode_id TEXT NOT NULL,
    invocation_status VARCHAR(20) NOT NULL,
    outcome VARCHAR(20) NOT NULL,
    latency_ms INTEGER,
    scores_json JSONB NOT NULL,
    line BYTEA NOT NULL,
    scored_at TIMESTAMPTZ DEFAULT now() NOT NULL,
    CONSTRAINT pk_theatre_episode_scores PRIMARY KEY (theatre_id, seq),
    CONSTRAINT ck_theatre_episode_scores_seq CHECK (seq BETWEEN 1 AND 10000000),
    CONSTRAINT ck_theatre_episode_scores_invocation_status CHECK (invocation_status IN ('success',
        'timeout', 'error', 'refused')),
    CONSTRAINT ck_theatre_episode_scores_outcome CHECK (outcome IN ('scored', 'missing', 'excluded',
        'unscored', 'not_run')),
    CONSTRAINT ck_theatre_episode_scores_latency_ms CHECK (latency_ms >= 0),
    CONSTRAINT fk_theatre_episode_scores_theatre_id FOREIGN KEY (theatre_id) REFERENCES theatres
        (id)
);
CREATE INDEX ix_theatre_episode_scores_failed ON theatre_episode_scores (theatre_id, seq) WHERE
    outcome = 'missing';

CREATE TABLE human_scores (
    theatre_id UUID NOT NULL,
    step_id TEXT NOT NULL,
    identity VARCHAR(400) NOT NULL,
    episode_seq INTEGER NOT NULL,
    user_id UUID NOT NULL,
    score DOUBLE PRECISION NOT NULL,
    comment TEXT,
    audit_seq INTEGER NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_human_scores PRIMARY KEY (theatre_id, step_id, identity, episode_seq),
    CONSTRAINT fk_human_scores_theatre_id_audit_seq FOREIGN KEY (theatre_id, audit_seq) REFERENCES
        theatre_audit_events (theatre_id, seq),
    CONSTRAINT fk_human_scores_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE INDEX ix_human_scores_user_id ON human_scores (user_id);

CREATE TABLE sealed_bundles (
    theatre_id UUID NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    size_bytes BIGINT NOT NULL,
    sealed_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_sealed_bundles PRIMARY KEY (theatre_id),
    CONSTRAINT ck_sealed_bundles_sha256 CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_sealed_bundles_not_empty CHECK (size_bytes > 0),
    CONSTRAINT fk_sealed_bundles_theatre_id FOREIGN KEY (theatre_id) REFERENCES theatres (id)
);

CREATE TABLE theatre_certificates (
    id UUID NOT NULL,
    theatre_id UUID NOT NULL,
    template_id TEXT NOT NULL,
    construct_id TEXT NOT NULL,
    document BYTEA NOT NULL,
    document_sha256 VARCHAR(64) NOT NULL,
    sigstore BYTEA NOT NULL,
    statement_sha256 VARCHAR(64) NOT NULL,
    criteria_json JSONB NOT NULL,
    scores_json JSONB NOT NULL,
    composite_score DOUBLE PRECISION,
    precision DOUBLE PRECISION,
    recall DOUBLE PRECISION,
    reply_accuracy DOUBLE PRECISION,
    brier_score DOUBLE PRECISION,
    ece DOUBLE PRECISION,
    replay_count INTEGER NOT NULL,
    evidence_bundle_hash VARCHAR(64) NOT NULL,
    ground_truth_hash VARCHAR(64) NOT NULL,
    results_hash VARCHAR(64),
    audit_head VARCHAR(64) NOT NULL,
    construct_version TEXT NOT NULL,
    construct_chain_versions JSONB,
    scorer_version TEXT NOT NULL,
    methodology_version TEXT NOT NULL,
    dataset_hash VARCHAR(64),
    verification_tier VARCHAR(20) NOT NULL,
    commitment_hash VARCHAR(64) NOT NULL,
    issuer VARCHAR(200) NOT NULL,
    ground_truth_source VARCHAR(100) NOT NULL,
    execution_path VARCHAR(10) NOT NULL,
    issued_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    theatre_committed_at TIMESTAMPTZ NOT NULL,
    theatre_resolved_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_theatre_certificates PRIMARY KEY (id),
    CONSTRAINT uq_theatre_certificates_theatre_id UNIQUE (theatre_id),
    CONSTRAINT uq_theatre_certificates_id_theatre_id UNIQUE (id, theatre_id),
    CONSTRAINT uq_theatre_certificates_statement_sha256 UNIQUE (statement_sha256),
    CONSTRAINT ck_theatre_certificates_document_sha256 CHECK (document_sha256 =
        encode(sha256(document), 'hex')),
    CONSTRAINT ck_theatre_certificates_statement_sha256 CHECK (statement_sha256 ~
        '^[0-9a-f]{64}$'),
    CONSTRAINT ck_theatre_certificates_verification_tier CHECK (verification_tier IN ('UNVERIFIED',
        'BACKTESTED', 'PROVEN')),
    CONSTRAINT ck_theatre_certificates_execution_path CHECK (execution_path IN ('replay',
        'market')),
    CONSTRAINT ck_theatre_certificates_evidence_bundle_hash CHECK (evidence_bundle_hash ~
        '^[0-9a-f]{64}$'),
    CONSTRAINT ck_theatre_certificates_ground_truth_hash CHECK (ground_truth_hash ~
        '^[0-9a-f]{64}$'),
    CONSTRAINT ck_theatre_certificates_commitment_hash CHECK (commitment_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_theatre_certificates_dataset_hash CHECK (dataset_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_theatre_certificates_results_hash CHECK (results_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_theatre_certificates_audit_head CHECK (audit_head ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_theatre_certificates_expires_at CHECK ((verification_tier = 'UNVERIFIED') =
        (expires_at IS NULL)),
    CONSTRAINT ck_theatre_certificates_replay_count CHECK (replay_count > 0),
    CONSTRAINT fk_theatre_certificates_theatre_id FOREIGN KEY (theatre_id) REFERENCES theatres (id)
);
CREATE INDEX ix_theatre_certificates_construct_id_issued_at_id ON theatre_certificates
    (construct_id, issued_at, id);
CREATE INDEX ix_theatre_certificates_issued_at_id ON theatre_certificates (issued_at, id);
CREATE INDEX ix_theatre_certificates_template_id ON theatre_certificates (template_id);
CREATE INDEX ix_theatre_certificates_verification_tier ON theatre_certificates (verification_tier);

ALTER TABLE theatres ADD CONSTRAINT fk_theatres_certificate_id_id FOREIGN KEY (certificate_id, id)
    REFERENCES theatre_certificates (id, theatre_id);

-- The transparency log (docs/adr/0184): what is to be logged, in the transaction of its effect; the
-- entries in their places; the tiles above them; what was signed; the keys that sign.

CREATE TABLE log_queue (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    type VARCHAR(20) NOT NULL,
    theatre_id UUID,
    entry BYTEA,
    reason VARCHAR(20),
    construct_id TEXT,
    construct_version TEXT,
    close_by TIMESTAMPTZ,
    queued_at TIMESTAMPTZ DEFAULT now() NOT NULL,
    queued_in BIGINT DEFAULT pg_current_xact_id()::text::bigint NOT NULL,
    CONSTRAINT pk_log_queue PRIMARY KEY (id),
    CONSTRAINT ck_log_queue_type CHECK (type IN ('commitment/v1', 'certificate/v1', 'void/v1',
        'revocation/v1', 'key/v1', 'dispute/v1', 'attestation/v1', 'telemetry/v1')),
    CONSTRAINT ck_log_queue_entry CHECK (octet_length(entry) <= 1024),
    CONSTRAINT ck_log_queue_of_a_theatre CHECK ((theatre_id IS NOT NULL) = (type IN
        ('commitment/v1', 'certificate/v1', 'void/v1'))),
    CONSTRAINT ck_log_queue_of_a_construct CHECK (num_nonnulls(construct_id, construct_version,
        close_by) = CASE type WHEN 'commitment/v1' THEN 3 ELSE 0 END),
    CONSTRAINT ck_log_queue_void_for_a_reason CHECK ((type = 'void/v1') = (reason IS NOT NULL) AND
        (type = 'void/v1') = (entry IS NULL)),
    CONSTRAINT fk_log_queue_theatre_id FOREIGN KEY (theatre_id) REFERENCES theatres (id)
);
CREATE INDEX ix_log_queue_construct_id ON log_queue (construct_id) WHERE type = 'commitment/v1';
CREATE INDEX ix_log_queue_queued_in ON log_queue (queued_in);
CREATE INDEX ix_log_queue_type ON log_queue (type) WHERE theatre_id IS NULL;
CREATE UNIQUE INDEX uq_log_queue_closing ON log_queue (theatre_id) WHERE type IN ('certificate/v1',
    'void/v1');
CREATE UNIQUE INDEX uq_log_queue_commitment ON log_queue (theatre_id) WHERE type = 'commitment/v1';
CREATE UNIQUE INDEX uq_log_queue_entry ON log_queue (sha256(entry));

CREATE TABLE log_entries (
    log_index BIGINT NOT NULL,
    leaf BYTEA GENERATED ALWAYS AS (sha256('\x00'::bytea || entry)) STORED NOT NULL,
    queue_id BIGINT,
    entry BYTEA NOT NULL,
    CONSTRAINT pk_log_entries PRIMARY KEY (log_index),
    CONSTRAINT uq_log_entries_queue_id UNIQUE (queue_id),
    CONSTRAINT uq_log_entries_leaf UNIQUE (leaf),
    CONSTRAINT ck_log_entries_log_index CHECK (log_index >= 0),
    CONSTRAINT ck_log_entries_entry CHECK (octet_length(entry) <= 1024),
    CONSTRAINT fk_log_entries_queue_id FOREIGN KEY (queue_id) REFERENCES log_queue (id)
);

CREATE TABLE log_tiles (
    path TEXT NOT NULL,
    data BYTEA NOT NULL,
    CONSTRAINT pk_log_tiles PRIMARY KEY (path)
);

CREATE TABLE log_checkpoints (
    seq BIGINT NOT NULL,
    size BIGINT NOT NULL,
    checkpoint BYTEA NOT NULL,
    signed_at TIMESTAMPTZ DEFAULT now() NOT NULL,
    CONSTRAINT pk_log_checkpoints PRIMARY KEY (seq),
    CONSTRAINT ck_log_checkpoints_counts CHECK (seq >= 0 AND size >= 0)
);
CREATE INDEX ix_log_checkpoints_size ON log_checkpoints (size);

CREATE TABLE trust_documents (
    seq INTEGER NOT NULL,
    document BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_trust_documents PRIMARY KEY (seq),
    CONSTRAINT ck_trust_documents_seq CHECK (seq >= 0)
);

-- Verifications, which have a row before their ground truth is read (docs/adr/0150).

CREATE TABLE verifications (
    id UUID NOT NULL,
    user_id UUID NOT NULL,
    request JSONB NOT NULL,
    min_replays INTEGER NOT NULL,
    phase VARCHAR(20) NOT NULL,
    job_id BIGINT,
    lost_workers INTEGER DEFAULT 0 NOT NULL,
    records INTEGER DEFAULT 0 NOT NULL,
    waits_until TIMESTAMPTZ,
    error_code VARCHAR(100),
    error VARCHAR(2000),
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_verifications PRIMARY KEY (id),
    CONSTRAINT ck_verifications_phase CHECK (phase IN ('queued', 'ingesting', 'handed_over',
        'failed')),
    CONSTRAINT ck_verifications_counts CHECK (records >= 0 AND lost_workers >= 0 AND min_replays >
        0),
    CONSTRAINT ck_verifications_failed_for_a_reason CHECK (phase <> 'failed' OR error_code IS NOT
        NULL),
    CONSTRAINT fk_verifications_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE INDEX ix_verifications_unfinished ON verifications (phase) WHERE phase IN ('queued',
    'ingesting');
CREATE INDEX ix_verifications_user_id_created_at_id ON verifications (user_id, created_at, id);

-- What the operator lets a user's runs spend on judges, and what is left of it (docs/adr/0195).
-- A unit is `micros`, millionths of the currency of the operator's prices, or `tokens`.

CREATE TABLE judge_budgets (
    user_id UUID NOT NULL,
    unit VARCHAR(10) NOT NULL,
    allowed BIGINT NOT NULL,
    per_run BIGINT NOT NULL,
    per_day BIGINT NOT NULL,
    reserved BIGINT DEFAULT 0 NOT NULL,
    spent BIGINT DEFAULT 0 NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_judge_budgets PRIMARY KEY (user_id, unit),
    CONSTRAINT ck_judge_budgets_unit CHECK (unit IN ('micros', 'tokens')),
    CONSTRAINT ck_judge_budgets_limits CHECK (per_run >= 0 AND per_day >= 0),
    CONSTRAINT ck_judge_budgets_balance CHECK (reserved >= 0 AND spent >= 0 AND allowed - reserved -
        spent >= 0),
    CONSTRAINT fk_judge_budgets_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);

-- The same for one run, by its theatre, and for one day in UTC.
CREATE TABLE judge_limits (
    user_id UUID NOT NULL,
    unit VARCHAR(10) NOT NULL,
    subject VARCHAR(36) NOT NULL,
    allowed BIGINT NOT NULL,
    reserved BIGINT DEFAULT 0 NOT NULL,
    spent BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT pk_judge_limits PRIMARY KEY (user_id, unit, subject),
    CONSTRAINT ck_judge_limits_balance CHECK (reserved >= 0 AND spent >= 0 AND allowed - reserved -
        spent >= 0),
    CONSTRAINT fk_judge_limits_user_id_unit FOREIGN KEY (user_id, unit) REFERENCES judge_budgets
        (user_id, unit)
);

CREATE TABLE judge_calls (
    id UUID NOT NULL,
    theatre_id UUID NOT NULL,
    user_id UUID NOT NULL,
    epoch INTEGER NOT NULL,
    provider VARCHAR(20) NOT NULL,
    model VARCHAR(200) NOT NULL,
    request_sha256 VARCHAR(64) NOT NULL,
    unit VARCHAR(10) NOT NULL,
    day DATE NOT NULL,
    reserved BIGINT NOT NULL,
    reserved_at TIMESTAMPTZ NOT NULL,
    spent BIGINT,
    settled_as VARCHAR(20),
    settled_at TIMESTAMPTZ,
    answer BYTEA,
    CONSTRAINT pk_judge_calls PRIMARY KEY (id),
    CONSTRAINT ck_judge_calls_request_sha256 CHECK (request_sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_judge_calls_settled_as CHECK (settled_as IN ('counted', 'refused', 'not-sent',
        'not-counted', 'above-maximum', 'worker-lost')),
    CONSTRAINT ck_judge_calls_amounts CHECK (reserved >= 0 AND spent BETWEEN 0 AND reserved),
    CONSTRAINT ck_judge_calls_whole_settlement CHECK (num_nonnulls(spent, settled_as, settled_at) IN
        (0, 3) AND (answer IS NULL OR settled_at IS NOT NULL)),
    CONSTRAINT fk_judge_calls_theatre_id FOREIGN KEY (theatre_id) REFERENCES theatres (id),
    CONSTRAINT fk_judge_calls_user_id_unit FOREIGN KEY (user_id, unit) REFERENCES judge_budgets
        (user_id, unit)
);
CREATE INDEX ix_judge_calls_open ON judge_calls (theatre_id) WHERE settled_at IS NULL;
CREATE INDEX ix_judge_calls_theatre_id ON judge_calls (theatre_id);
CREATE INDEX ix_judge_calls_lost ON judge_calls (user_id, unit) WHERE settled_as = 'worker-lost';

-- Debates as event logs that only grow, and what evaluators said of them (docs/adr/0153).

CREATE TABLE debate_runs (
    id UUID NOT NULL,
    user_id UUID NOT NULL,
    debate_id VARCHAR(200) NOT NULL,
    run_id VARCHAR(200) NOT NULL,
    evaluation_mode VARCHAR(20) NOT NULL,
    document BYTEA,
    artefact_sha256 VARCHAR(64) NOT NULL,
    head_hash VARCHAR(64) NOT NULL,
    events INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    is_closed BOOLEAN NOT NULL,
    version INTEGER DEFAULT 1 NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_debate_runs PRIMARY KEY (id),
    CONSTRAINT uq_debate_runs_user_id_debate_id_run_id UNIQUE (user_id, debate_id, run_id),
    CONSTRAINT ck_debate_runs_artefact_sha256 CHECK (artefact_sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_debate_runs_head_hash CHECK (head_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_debate_runs_counts CHECK (events > 0 AND turns > 0),
    CONSTRAINT ck_debate_runs_document CHECK (document IS NULL OR (is_closed AND artefact_sha256 =
        encode(sha256(document), 'hex'))),
    CONSTRAINT fk_debate_runs_user_id FOREIGN KEY (user_id) REFERENCES users (id)
);
CREATE INDEX ix_debate_runs_user_id_created_at_id ON debate_runs (user_id, created_at, id);

CREATE TABLE debate_events (
    debate_run_id UUID NOT NULL,
    seq INTEGER NOT NULL,
    event_type VARCHAR(50) NOT NULL,
    entry_hash VARCHAR(64) NOT NULL,
    entry BYTEA NOT NULL,
    CONSTRAINT pk_debate_events PRIMARY KEY (debate_run_id, seq),
    CONSTRAINT ck_debate_events_entry_hash CHECK (entry_hash ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_debate_events_seq CHECK (seq >= 0),
    CONSTRAINT fk_debate_events_debate_run_id FOREIGN KEY (debate_run_id) REFERENCES debate_runs
        (id)
);

CREATE TABLE debate_evaluations (
    debate_run_id UUID NOT NULL,
    artefact_sha256 VARCHAR(64) NOT NULL,
    evaluator VARCHAR(20) NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    document BYTEA NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    CONSTRAINT pk_debate_evaluations PRIMARY KEY (debate_run_id, artefact_sha256, evaluator,
        sha256),
    CONSTRAINT ck_debate_evaluations_artefact_sha256 CHECK (artefact_sha256 ~ '^[0-9a-f]{64}$'),
    CONSTRAINT ck_debate_evaluations_sha256 CHECK (sha256 = encode(sha256(document), 'hex')),
    CONSTRAINT fk_debate_evaluations_debate_run_id FOREIGN KEY (debate_run_id) REFERENCES
        debate_runs (id)
);

-- What nobody may change, whatever their role (docs/adr/0077).

CREATE FUNCTION echelon_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'expected % to be only added to, got %', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE FUNCTION echelon_guard_new_theatre() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state <> 'DRAFT' THEN
        RAISE EXCEPTION 'expected a new theatre in DRAFT, got %', NEW.state
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

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
    IF OLD.state NOT IN ('DRAFT', 'COMMITTED') AND
            (NEW.is_certificate_run, NEW.rehearsal_sha256, NEW.answers_sha256)
            IS DISTINCT FROM
            (OLD.is_certificate_run, OLD.rehearsal_sha256, OLD.answers_sha256) THEN
        RAISE EXCEPTION 'expected the run of theatre % to stay what it began as, got a change',
            OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF NEW.run_epoch < OLD.run_epoch THEN
        RAISE EXCEPTION 'expected the epoch of theatre % to rise, got % after %',
            OLD.id, NEW.run_epoch, OLD.run_epoch
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    NEW.version := OLD.version + 1;
    RETURN NEW;
END $$;

CREATE FUNCTION echelon_guard_debate_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.user_id, NEW.debate_id, NEW.run_id, NEW.evaluation_mode, NEW.created_at)
            IS DISTINCT FROM
            (OLD.id, OLD.user_id, OLD.debate_id, OLD.run_id, OLD.evaluation_mode, OLD.created_at)
            OR NEW.document IS DISTINCT FROM OLD.document THEN
        RAISE EXCEPTION 'expected run % of a debate to stay whose and of what it is, got a change',
            OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.is_closed OR NEW.events <= OLD.events THEN
        RAISE EXCEPTION 'expected run % of a debate to be open and only to grow, got a change',
            OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    NEW.version := OLD.version + 1;
    RETURN NEW;
END $$;

-- A commitment in the log is closed once, by what its theatre came to, and called for only then.

CREATE FUNCTION echelon_guard_closing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM log_queue
            WHERE theatre_id = NEW.theatre_id AND type = 'commitment/v1') THEN
        RAISE EXCEPTION 'expected a commitment that % closes, got none of theatre %',
            NEW.type, NEW.theatre_id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION echelon_guard_closed_theatre() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    closing TEXT;
    expected TEXT;
BEGIN
    SELECT type INTO closing FROM log_queue
        WHERE theatre_id = NEW.id AND type IN ('certificate/v1', 'void/v1');
    IF NEW.outcome = 'certified' THEN
        expected := 'certificate/v1';
    ELSIF EXISTS (SELECT FROM log_queue
            WHERE theatre_id = NEW.id AND type = 'commitment/v1') THEN
        expected := 'void/v1';
    END IF;
    IF closing IS DISTINCT FROM expected THEN
        RAISE EXCEPTION 'expected theatre % to close its commitment with %, got %',
            NEW.id, coalesce(expected, 'nothing'), coalesce(closing, 'nothing')
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION echelon_guard_called_theatre() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM log_queue JOIN log_entries ON log_entries.queue_id = log_queue.id
            WHERE theatre_id = NEW.id AND type = 'commitment/v1') THEN
        RAISE EXCEPTION 'expected the commitment of theatre % in a checkpoint before a call', NEW.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

-- A call to a judge is reserved by its row before it is made, and settled once. Balances move with
-- the rows alone: the service cannot write them, so no fault of it can spend what is not there.

CREATE FUNCTION echelon_reserve_judge_call() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    SELECT user_id INTO NEW.user_id FROM theatres WHERE id = NEW.theatre_id;
    -- This row first, always: calls of one user wait for each other here, and nowhere crosswise.
    UPDATE judge_budgets SET reserved = reserved + NEW.reserved
        WHERE user_id = NEW.user_id AND unit = NEW.unit;
    IF NOT FOUND OR NEW.settled_at IS NOT NULL THEN
        RAISE EXCEPTION 'expected an open call of a user with a budget in %, got another', NEW.unit
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ck_judge_budgets_balance';
    END IF;
    INSERT INTO judge_limits (user_id, unit, subject, allowed)
        SELECT user_id, unit, NEW.theatre_id::text, per_run FROM judge_budgets
            WHERE user_id = NEW.user_id AND unit = NEW.unit
        UNION ALL
        SELECT user_id, unit, NEW.day::text, per_day FROM judge_budgets
            WHERE user_id = NEW.user_id AND unit = NEW.unit
        ON CONFLICT DO NOTHING;
    UPDATE judge_limits SET reserved = reserved + NEW.reserved
        WHERE user_id = NEW.user_id AND unit = NEW.unit
            AND subject IN (NEW.theatre_id::text, NEW.day::text);
    RETURN NEW;
END $$;

CREATE FUNCTION echelon_settle_judge_call() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF (NEW.id, NEW.theatre_id, NEW.user_id, NEW.epoch, NEW.provider, NEW.model, NEW.request_sha256,
            NEW.unit, NEW.day, NEW.reserved, NEW.reserved_at)
            IS DISTINCT FROM
            (OLD.id, OLD.theatre_id, OLD.user_id, OLD.epoch, OLD.provider, OLD.model,
            OLD.request_sha256, OLD.unit, OLD.day, OLD.reserved, OLD.reserved_at)
            OR OLD.settled_at IS NOT NULL AND
            ((NEW.spent, NEW.settled_as, NEW.settled_at)
            IS DISTINCT FROM (OLD.spent, OLD.settled_as, OLD.settled_at)
            OR NEW.answer IS NOT NULL) THEN
        RAISE EXCEPTION 'expected call % of a judge to stay what it was, got a change', OLD.id
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    IF OLD.settled_at IS NULL AND NEW.settled_at IS NOT NULL THEN
        UPDATE judge_budgets SET reserved = reserved - NEW.reserved, spent = spent + NEW.spent
            WHERE user_id = NEW.user_id AND unit = NEW.unit;
        UPDATE judge_limits SET reserved = reserved - NEW.reserved, spent = spent + NEW.spent
            WHERE user_id = NEW.user_id AND unit = NEW.unit
                AND subject IN (NEW.theatre_id::text, NEW.day::text);
    END IF;
    RETURN NEW;
END $$;

-- What is signed is what is there: the next entries without a gap, and no tree twice.

CREATE FUNCTION echelon_guard_checkpoint() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last log_checkpoints;
    entries BIGINT;
BEGIN
    SELECT * INTO last FROM log_checkpoints ORDER BY seq DESC LIMIT 1;
    SELECT count(*) INTO entries FROM log_entries WHERE log_index >= coalesce(last.size, 0);
    IF NEW.seq <> coalesce(last.seq + 1, 0) OR NEW.size <> coalesce(last.size, 0) + entries
            OR NEW.size <> (SELECT coalesce(max(log_index) + 1, 0) FROM log_entries) THEN
        RAISE EXCEPTION 'expected checkpoint % of the next entries, got one of % with % entries',
            NEW.seq, NEW.size, entries
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON theatre_templates
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON theatre_certificates
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON theatre_episode_scores
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON theatre_audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON human_scores
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON sealed_bundles
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON debate_events
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON debate_evaluations
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON construct_decisions
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON theatre_coins
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON log_queue
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON log_entries
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON log_tiles
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON log_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE OR TRUNCATE ON trust_documents
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE DELETE OR TRUNCATE ON theatres
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE DELETE OR TRUNCATE ON debate_runs
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER refuse_change BEFORE DELETE OR TRUNCATE ON judge_calls
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_refuse_change();
CREATE TRIGGER reserve_judge_call BEFORE INSERT ON judge_calls
    FOR EACH ROW EXECUTE FUNCTION echelon_reserve_judge_call();
CREATE TRIGGER settle_judge_call BEFORE UPDATE ON judge_calls
    FOR EACH ROW EXECUTE FUNCTION echelon_settle_judge_call();
CREATE TRIGGER guard_new_theatre BEFORE INSERT ON theatres
    FOR EACH ROW EXECUTE FUNCTION echelon_guard_new_theatre();
CREATE TRIGGER guard_theatre BEFORE UPDATE ON theatres
    FOR EACH ROW EXECUTE FUNCTION echelon_guard_theatre();
CREATE TRIGGER guard_closed_theatre BEFORE UPDATE ON theatres
    FOR EACH ROW WHEN (NEW.state = 'RESOLVED' AND OLD.state <> 'RESOLVED')
    EXECUTE FUNCTION echelon_guard_closed_theatre();
-- A theatre that ends without a call passes through ACTIVE with no episodes.
CREATE TRIGGER guard_called_theatre BEFORE UPDATE ON theatres
    FOR EACH ROW WHEN (NEW.state = 'ACTIVE' AND OLD.state <> 'ACTIVE'
        AND NEW.is_certificate_run IS TRUE AND NEW.total_episodes > 0)
    EXECUTE FUNCTION echelon_guard_called_theatre();
CREATE TRIGGER guard_closing BEFORE INSERT ON log_queue
    FOR EACH ROW WHEN (NEW.type IN ('certificate/v1', 'void/v1'))
    EXECUTE FUNCTION echelon_guard_closing();
CREATE TRIGGER guard_checkpoint BEFORE INSERT ON log_checkpoints
    FOR EACH ROW EXECUTE FUNCTION echelon_guard_checkpoint();
CREATE TRIGGER guard_debate_run BEFORE UPDATE ON debate_runs
    FOR EACH ROW EXECUTE FUNCTION echelon_guard_debate_run();

-- Every change of a theatre is announced to those that wait for it (docs/adr/0116).

CREATE FUNCTION echelon_announce_theatre() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('echelon_theatres', NEW.id::text);
    RETURN NULL;
END $$;

CREATE TRIGGER announce_theatre AFTER UPDATE ON theatres
    FOR EACH ROW EXECUTE FUNCTION echelon_announce_theatre();

-- The writer of the log waits for what is queued, a run for its commitment in a checkpoint.

CREATE FUNCTION echelon_announce_queue() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('echelon_log', 'queue');
    RETURN NULL;
END $$;

CREATE FUNCTION echelon_announce_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('echelon_theatres', theatre_id::text) FROM log_queue
        WHERE id = NEW.queue_id AND type = 'commitment/v1';
    RETURN NULL;
END $$;

CREATE TRIGGER announce_queue AFTER INSERT ON log_queue
    FOR EACH STATEMENT EXECUTE FUNCTION echelon_announce_queue();
CREATE TRIGGER announce_entry AFTER INSERT ON log_entries
    FOR EACH ROW EXECUTE FUNCTION echelon_announce_entry();

-- The role of the service. It belongs to the whole server: other databases may use it.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'echelon_app') THEN
        CREATE ROLE echelon_app NOLOGIN;
        GRANT echelon_app TO CURRENT_USER;
    END IF;
END $$;

GRANT USAGE ON SCHEMA public TO echelon_app;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO echelon_app;
-- Whether a user is an operator or disabled, and which invites there are, the operator says alone.
GRANT INSERT (id, username, email, password_hash, created_at) ON users TO echelon_app;
GRANT UPDATE (used_at, used_by) ON invites TO echelon_app;
GRANT INSERT ON api_keys, registered_constructs, idempotency_keys, datasets,
    theatre_templates, theatres, theatre_coins, theatre_audit_events, theatre_episode_scores,
    human_scores, sealed_bundles, theatre_certificates, verifications,
    debate_runs, debate_events, debate_evaluations, judge_calls,
    log_queue, log_entries, log_tiles, log_checkpoints, trust_documents TO echelon_app;
GRANT DELETE ON api_keys, idempotency_keys, datasets TO echelon_app;
GRANT UPDATE (password_hash, token_generation) ON users TO echelon_app;
GRANT UPDATE (last_used_at, revoked_at) ON api_keys TO echelon_app;
GRANT UPDATE (user_id, author, created_at) ON registered_constructs TO echelon_app;
GRANT UPDATE (status, headers, answer) ON idempotency_keys TO echelon_app;
GRANT UPDATE (
    state, commitment_hash, committed_at, version_pins, dataset_hashes, receipt,
    is_certificate_run, rehearsal_sha256, answers_sha256, run_status, run_epoch, run_job_id,
    lost_workers, progress, total_episodes, failure_count, refused_count, usage_sums, pending_step, error, started_at, heartbeat_at,
    cancel_requested_at, outcome, outcome_reason, resolved_at, certificate_id, updated_at
) ON theatres TO echelon_app;
GRANT UPDATE (phase, job_id, lost_workers, records, waits_until, error_code, error, updated_at)
    ON verifications TO echelon_app;
GRANT UPDATE (artefact_sha256, head_hash, events, turns, is_closed, updated_at)
    ON debate_runs TO echelon_app;
-- Budgets are the operator's to set; what is reserved and spent of them follows from the calls.
GRANT UPDATE (spent, settled_as, settled_at, answer) ON judge_calls TO echelon_app;
