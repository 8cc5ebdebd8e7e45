-- Every change of who holds a run, of its state and of its start, as the database made it. The row's lock puts the changes of one run
-- in order.
CREATE TABLE audit_change (
    seq       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    run_id    text NOT NULL,
    was_epoch bigint NOT NULL,
    epoch     bigint NOT NULL,
    was_owner text NOT NULL,
    owner     text NOT NULL,
    was_state text NOT NULL,
    state     text NOT NULL,
    started   boolean NOT NULL,
    final     boolean NOT NULL
);

CREATE FUNCTION audit_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO audit_change (run_id, was_epoch, epoch, was_owner, owner, was_state, state, started, final)
        VALUES (NEW.id, 0, NEW.lease_epoch, '', coalesce(NEW.lease_owner, ''), '', NEW.state, NEW.started_at IS NOT NULL, false);
    ELSIF (OLD.lease_epoch, OLD.lease_owner, OLD.state, OLD.started_at, OLD.finished_at)
        IS DISTINCT FROM (NEW.lease_epoch, NEW.lease_owner, NEW.state, NEW.started_at, NEW.finished_at) THEN
        INSERT INTO audit_change (run_id, was_epoch, epoch, was_owner, owner, was_state, state, started, final)
        VALUES (NEW.id, OLD.lease_epoch, NEW.lease_epoch, coalesce(OLD.lease_owner, ''), coalesce(NEW.lease_owner, ''), OLD.state, NEW.state,
            NEW.started_at IS NOT NULL, NEW.finished_at IS NOT NULL);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER audit_run AFTER INSERT OR UPDATE ON ops_run FOR EACH ROW EXECUTE FUNCTION audit_run();
