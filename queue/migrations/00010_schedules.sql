-- +goose Up

-- How many runs may work on the repository while this one does; 0 is any number. Part of the contract, which does not change.
ALTER TABLE ops_run ADD COLUMN concurrency integer NOT NULL DEFAULT 0 CHECK (concurrency >= 0);

-- +goose StatementBegin
CREATE FUNCTION keep_concurrency() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'run %: a contract does not change', OLD.id USING ERRCODE = 'HN003';
END $$;
-- +goose StatementEnd

CREATE TRIGGER ops_run_concurrency BEFORE UPDATE ON ops_run
    FOR EACH ROW WHEN (NEW.concurrency IS DISTINCT FROM OLD.concurrency) EXECUTE FUNCTION keep_concurrency();

-- Whether another run would be one too many for its repository: for itself, or for one that works on it now.
-- +goose StatementBegin
CREATE FUNCTION repository_busy(r ops_run) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(count(*) >= least(nullif(r.concurrency, 0), min(nullif(o.concurrency, 0))), false)
    FROM ref_lock l JOIN ops_run o ON o.id = l.run_id
    WHERE l.repository = r.repository AND l.run_id <> r.id
$$;
-- +goose StatementEnd

-- What a definition said, each time that something else was applied under its name.
CREATE TABLE definition_revision (
    definition text NOT NULL,
    number     integer NOT NULL CHECK (number > 0),
    document   bytea NOT NULL, -- canonical
    digest     text NOT NULL,
    applied_by text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (definition, number)
);

CREATE TRIGGER definition_revision_append_only BEFORE UPDATE OR DELETE ON definition_revision
    FOR EACH ROW EXECUTE FUNCTION append_only();

CREATE TABLE definition (
    name          text PRIMARY KEY,
    revision      integer NOT NULL,
    -- Every due time up to here is decided: recorded as a tick, or missed.
    decided_to    timestamptz NOT NULL,
    -- The first one after it; NULL when there is none.
    next_due      timestamptz,
    paused        boolean NOT NULL DEFAULT false,
    paused_by     text NOT NULL DEFAULT '',
    paused_reason text NOT NULL DEFAULT '',
    paused_at     timestamptz,
    FOREIGN KEY (name, revision) REFERENCES definition_revision (definition, number)
);
CREATE INDEX definition_due ON definition (next_due) WHERE NOT paused;

-- Whatever a clock does, no due time is decided twice.
-- +goose StatementBegin
CREATE FUNCTION definition_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.decided_to < OLD.decided_to THEN
        RAISE EXCEPTION 'definition %: what is decided stays decided', OLD.name USING ERRCODE = 'HN002';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

CREATE TRIGGER definition_guard BEFORE UPDATE ON definition FOR EACH ROW EXECUTE FUNCTION definition_guard();

-- One row per due time that counts and per attempt at it. It is recorded in the transaction that moves decided_to, and emitted
-- afterwards.
CREATE TABLE definition_tick (
    definition  text NOT NULL,
    due_at      timestamptz NOT NULL,
    attempt     integer NOT NULL CHECK (attempt > 0),
    revision    integer NOT NULL,
    trigger_key text NOT NULL UNIQUE,
    supersedes  text UNIQUE REFERENCES ops_run (id),
    missed      integer NOT NULL DEFAULT 0, -- due times before this one that did not count
    -- pending: to be emitted. emitted: its run is under way. ended: its run is over, and what follows from that is decided.
    -- refused: nothing was emitted, for the reason that code names. dropped: the database was restored, nobody knows.
    state       text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'emitted', 'ended', 'refused', 'dropped')),
    run_id      text REFERENCES ops_run (id),
    code        text NOT NULL DEFAULT '', -- of the last try that failed
    tries       integer NOT NULL DEFAULT 0,
    next_try_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (definition, due_at, attempt),
    FOREIGN KEY (definition, revision) REFERENCES definition_revision (definition, number),
    CHECK ((run_id IS NOT NULL) = (state IN ('emitted', 'ended'))),
    CHECK ((supersedes IS NOT NULL) = (attempt > 1))
);
CREATE INDEX definition_tick_pending ON definition_tick (next_try_at) WHERE state = 'pending';
CREATE INDEX definition_tick_waiting ON definition_tick (definition) WHERE state = 'pending' AND attempt = 1;
CREATE INDEX definition_tick_emitted ON definition_tick (run_id) WHERE state = 'emitted';
