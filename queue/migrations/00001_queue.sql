-- +goose Up

-- The legal transitions of a run's state. What is not here does not happen: ops_run_guard refuses it.
CREATE TABLE run_transition (
    from_state text NOT NULL,
    to_state   text NOT NULL,
    PRIMARY KEY (from_state, to_state)
);

INSERT INTO run_transition (from_state, to_state) VALUES
    ('created', 'running'),
    ('created', 'suspended'),
    ('created', 'cancel_requested'),
    ('created', 'failed'),
    ('created', 'expired'),
    ('created', 'waiting_external'),
    ('running', 'created'),
    ('running', 'waiting_approval'),
    ('running', 'waiting_external'),
    ('running', 'cancel_requested'),
    ('running', 'completed'),
    ('running', 'failed'),
    ('running', 'expired'),
    ('waiting_approval', 'running'),
    ('waiting_approval', 'waiting_external'),
    ('waiting_approval', 'cancel_requested'),
    ('waiting_approval', 'failed'),
    ('waiting_approval', 'expired'),
    ('waiting_external', 'completed'),
    ('waiting_external', 'failed'),
    ('waiting_external', 'cancelled'),
    ('suspended', 'created'),
    ('suspended', 'waiting_external'),
    ('suspended', 'cancel_requested'),
    ('suspended', 'failed'),
    ('suspended', 'expired'),
    ('cancel_requested', 'waiting_external'),
    ('cancel_requested', 'completed'),
    ('cancel_requested', 'failed'),
    ('cancel_requested', 'cancelled');

CREATE TABLE ops_run (
    id               text PRIMARY KEY CHECK (id ~ '^[0-9a-z][0-9a-z-]{7,63}$'),
    state            text NOT NULL DEFAULT 'created' CHECK (state IN (
                         'created', 'running', 'waiting_approval', 'waiting_external', 'suspended', 'cancel_requested',
                         'completed', 'failed', 'cancelled', 'expired')),

    -- What was asked for and what it was pinned to. Immutable.
    definition       text NOT NULL,
    trigger_key      text NOT NULL UNIQUE,
    operation_key    text NOT NULL,
    request_digest   text NOT NULL,
    contract         bytea NOT NULL,
    contract_digest  text NOT NULL,
    repository       text NOT NULL,
    base_ref         text NOT NULL,
    target_ref       text NOT NULL,
    baseline         text NOT NULL,
    profile          text NOT NULL,
    profile_digest   text NOT NULL,
    proof            text NOT NULL DEFAULT '',
    attended         boolean NOT NULL,
    operator         text NOT NULL DEFAULT '',
    supersedes       text UNIQUE REFERENCES ops_run (id),
    queue            text NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    deadline_at      timestamptz NOT NULL,

    -- The lease. A holder is whoever has this epoch and owner while lease_expires_at lies ahead.
    lease_epoch      bigint NOT NULL DEFAULT 0 CHECK (lease_epoch >= 0),
    lease_owner      text,
    lease_worker     text,
    lease_engine     text,
    lease_expires_at timestamptz,
    claimed_at       timestamptz,
    -- Set before the first call that changes something outside; alone decides whether the run may be claimed again.
    started_at       timestamptz,
    stage            text NOT NULL DEFAULT 'emit',
    effect           text NOT NULL DEFAULT 'not_dispatched' CHECK (effect IN (
                         'not_dispatched', 'confirmed', 'not_applied', 'partial', 'unknown')),

    cancel_requested_at timestamptz,
    cancel_by        text,
    cancel_reason    text,

    -- Of a run that waits for the remote to decide.
    next_check_at    timestamptz,
    wait_reason      text,

    -- The job that was dispatched last. Only a hint: no job is the memory of a run.
    job_id           bigint,

    finished_at      timestamptz,
    failed_stage     text,
    code             text,
    disposition      text,
    result           bytea,
    result_digest    text,
    statement        bytea,

    CHECK ((finished_at IS NOT NULL) = (state IN ('completed', 'failed', 'cancelled', 'expired'))),
    CHECK ((finished_at IS NOT NULL) = (result IS NOT NULL AND statement IS NOT NULL)),
    -- A run ends with a settled effect.
    CHECK (finished_at IS NULL OR effect IN ('not_dispatched', 'confirmed', 'not_applied')),
    CHECK (state <> 'completed' OR effect IN ('confirmed', 'not_dispatched')),
    CHECK (state <> 'expired' OR started_at IS NULL),
    CHECK (state <> 'waiting_external' OR next_check_at IS NOT NULL)
);

-- Not over lease_expires_at: a heartbeat then changes no index.
CREATE INDEX ops_run_open ON ops_run (state)
    WHERE state NOT IN ('completed', 'failed', 'cancelled', 'expired');
CREATE INDEX ops_run_open_ref ON ops_run (repository, target_ref, created_at)
    WHERE state NOT IN ('completed', 'failed', 'cancelled', 'expired');
CREATE INDEX ops_run_created ON ops_run (created_at DESC, id DESC);
CREATE INDEX ops_run_definition ON ops_run (definition, created_at DESC);
CREATE INDEX ops_run_operation ON ops_run (operation_key);

-- +goose StatementBegin
CREATE FUNCTION ops_run_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'created' OR NEW.lease_epoch <> 0 OR NEW.started_at IS NOT NULL THEN
            RAISE EXCEPTION 'run % does not begin as created', NEW.id USING ERRCODE = 'HN001';
        END IF;
        RETURN NEW;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'run % cannot be deleted', OLD.id USING ERRCODE = 'HN004';
    END IF;
    IF OLD.finished_at IS NOT NULL THEN
        RAISE EXCEPTION 'run % is final', OLD.id USING ERRCODE = 'HN001';
    END IF;
    IF NEW.state <> OLD.state AND NOT EXISTS (
        SELECT FROM run_transition t WHERE t.from_state = OLD.state AND t.to_state = NEW.state) THEN
        RAISE EXCEPTION 'run %: no transition from % to %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'HN001';
    END IF;
    IF NEW.lease_epoch < OLD.lease_epoch THEN
        RAISE EXCEPTION 'run %: an epoch never falls', OLD.id USING ERRCODE = 'HN002';
    END IF;
    IF OLD.started_at IS NOT NULL AND NEW.started_at IS DISTINCT FROM OLD.started_at THEN
        RAISE EXCEPTION 'run %: a start is not taken back', OLD.id USING ERRCODE = 'HN003';
    END IF;
    IF (NEW.id, NEW.definition, NEW.trigger_key, NEW.operation_key, NEW.request_digest, NEW.contract, NEW.contract_digest,
        NEW.repository, NEW.base_ref, NEW.target_ref, NEW.baseline, NEW.profile, NEW.profile_digest, NEW.proof,
        NEW.attended, NEW.operator, NEW.queue, NEW.created_at, NEW.deadline_at)
       IS DISTINCT FROM
       (OLD.id, OLD.definition, OLD.trigger_key, OLD.operation_key, OLD.request_digest, OLD.contract, OLD.contract_digest,
        OLD.repository, OLD.base_ref, OLD.target_ref, OLD.baseline, OLD.profile, OLD.profile_digest, OLD.proof,
        OLD.attended, OLD.operator, OLD.queue, OLD.created_at, OLD.deadline_at)
       OR NEW.supersedes IS DISTINCT FROM OLD.supersedes THEN
        RAISE EXCEPTION 'run %: a contract does not change', OLD.id USING ERRCODE = 'HN003';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER ops_run_guard BEFORE INSERT OR UPDATE OR DELETE ON ops_run
    FOR EACH ROW EXECUTE FUNCTION ops_run_guard();

-- Which kind of job a run needs now: 'run' for another attempt to claim it, 'reconcile' for somebody to settle it, NULL for
-- none. Claim, takeover and the tick all ask here, so that they agree.
-- +goose StatementBegin
CREATE FUNCTION run_due(r ops_run) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT CASE
        WHEN r.finished_at IS NOT NULL THEN NULL
        WHEN r.lease_expires_at > clock_timestamp() THEN NULL
        WHEN r.state = 'cancel_requested' THEN 'reconcile'
        WHEN r.state = 'waiting_external' THEN
            CASE WHEN r.next_check_at <= clock_timestamp() THEN 'reconcile' END
        WHEN r.state IN ('waiting_approval', 'suspended') THEN
            CASE WHEN r.deadline_at <= clock_timestamp() THEN 'reconcile' END
        WHEN r.started_at IS NOT NULL OR r.deadline_at <= clock_timestamp() THEN 'reconcile'
        ELSE 'run'
    END
$$;
-- +goose StatementEnd

-- An operation key means one change: it is bound to the request's content for ever.
CREATE TABLE operation (
    key        text PRIMARY KEY,
    digest     text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Who works on a repository's ref. It belongs to the claimed run and to no epoch but its last.
CREATE TABLE ref_lock (
    repository text NOT NULL,
    target_ref text NOT NULL,
    run_id     text NOT NULL UNIQUE REFERENCES ops_run (id),
    epoch      bigint NOT NULL,
    taken_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (repository, target_ref)
);

-- The evidence chain of each run, in its canonical bytes.
CREATE TABLE run_fact (
    run_id text NOT NULL REFERENCES ops_run (id),
    seq    integer NOT NULL,
    digest text NOT NULL,
    bytes  bytea NOT NULL CHECK (octet_length(bytes) <= 16777216),
    PRIMARY KEY (run_id, seq)
);

-- +goose StatementBegin
CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'HN004';
END $$;
-- +goose StatementEnd

CREATE TRIGGER run_fact_append_only BEFORE UPDATE OR DELETE ON run_fact
    FOR EACH ROW EXECUTE FUNCTION append_only();

-- The one transaction that a run may publish. Its pack is kept and never built again.
CREATE TABLE run_intent (
    run_id         text PRIMARY KEY REFERENCES ops_run (id),
    transaction_id text NOT NULL UNIQUE,
    epoch          bigint NOT NULL,
    target_ref     text NOT NULL,
    old_value      text NOT NULL,
    base_ref       text NOT NULL,
    base_commit    text NOT NULL,
    commit_hash    text NOT NULL,
    fence_ref      text NOT NULL,
    fence_value    text NOT NULL,
    pack           bytea NOT NULL,
    pack_digest    text NOT NULL,
    saved_at       timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TRIGGER run_intent_append_only BEFORE UPDATE OR DELETE ON run_intent
    FOR EACH ROW EXECUTE FUNCTION append_only();

-- The fence refs that were, or may have been, created on remotes, until retention deletes them.
CREATE TABLE run_fence (
    run_id     text PRIMARY KEY REFERENCES ops_run (id),
    fence_ref  text NOT NULL,
    value      text NOT NULL,
    epoch      bigint NOT NULL,
    due_at     timestamptz,
    deleted_at timestamptz
);
CREATE INDEX run_fence_due ON run_fence (due_at) WHERE deleted_at IS NULL AND due_at IS NOT NULL;

-- Accessors of the tokens that were created for runs. Never a token.
CREATE TABLE run_token (
    accessor    text PRIMARY KEY,
    run_id      text REFERENCES ops_run (id), -- NULL for a readiness check's
    epoch       bigint NOT NULL,
    purpose     text NOT NULL,
    expires_at  timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at  timestamptz
);
CREATE INDEX run_token_live ON run_token (expires_at) WHERE revoked_at IS NULL;
CREATE INDEX run_token_run ON run_token (run_id);

-- What the sessions wrote, masked and bounded by the worker. Outside the evidence, kept for a set time.
CREATE TABLE session_log (
    run_id     text NOT NULL REFERENCES ops_run (id),
    epoch      bigint NOT NULL,
    seq        integer NOT NULL,
    bytes      bytea NOT NULL CHECK (octet_length(bytes) <= 1048576),
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, epoch, seq)
);
CREATE INDEX session_log_age ON session_log (written_at);

-- What is to be told outward, once per run and endpoint.
CREATE TABLE delivery (
    id              text PRIMARY KEY,
    run_id          text NOT NULL REFERENCES ops_run (id),
    endpoint        text NOT NULL,
    required        boolean NOT NULL,
    state           text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'abandoned')),
    body            bytea NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error      text NOT NULL DEFAULT '',
    job_id          bigint,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at     timestamptz,
    UNIQUE (run_id, endpoint),
    CHECK (NOT (required AND state = 'abandoned'))
);
CREATE INDEX delivery_pending ON delivery (next_attempt_at) WHERE state = 'pending';

-- One row: what holds for all workers of this database.
CREATE TABLE control (
    one               boolean PRIMARY KEY DEFAULT true CHECK (one),
    paused            boolean NOT NULL DEFAULT false,
    paused_by         text NOT NULL DEFAULT '',
    paused_reason     text NOT NULL DEFAULT '',
    paused_at         timestamptz,
    system_identifier text NOT NULL,
    timeline          integer NOT NULL,
    adopted_by        text NOT NULL DEFAULT '',
    adopted_at        timestamptz
);

-- +goose StatementBegin
CREATE FUNCTION current_timeline() RETURNS integer LANGUAGE sql VOLATILE AS $$
    SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer
$$;
-- +goose StatementEnd

INSERT INTO control (system_identifier, timeline)
SELECT system_identifier::text, current_timeline() FROM pg_control_system();

-- The worker processes, for the operator and for tidying up after dead ones. Decides nothing.
CREATE TABLE worker (
    owner      text PRIMARY KEY,
    worker_id  text NOT NULL,
    engine     text NOT NULL,
    queues     text[] NOT NULL,
    version    text NOT NULL,
    concurrency integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    beat_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    stopped_at timestamptz
);
CREATE INDEX worker_beat ON worker (beat_at);

-- Work that one process at a time does now and then.
CREATE TABLE chore (
    name       text PRIMARY KEY,
    next_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    owner      text NOT NULL DEFAULT '',
    last_error text NOT NULL DEFAULT ''
);
