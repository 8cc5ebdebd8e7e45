-- +goose Up

-- One published profile revision. Its bytes never change: profile_revision_guard refuses it.
CREATE TABLE profile_revision (
    name         text NOT NULL,
    version      text NOT NULL,
    digest       text NOT NULL UNIQUE CHECK (digest ~ '^sha256:[0-9a-f]{64}$'),
    canonical    bytea NOT NULL,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_by text NOT NULL CHECK (published_by <> ''),
    PRIMARY KEY (name, version)
);

-- +goose StatementBegin
CREATE FUNCTION profile_revision_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'profile %@% is published and immutable', OLD.name, OLD.version USING ERRCODE = 'HN010';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER profile_revision_guard BEFORE UPDATE OR DELETE ON profile_revision
    FOR EACH ROW EXECUTE FUNCTION profile_revision_guard();

-- What the last check of one engine found for one digest. Ready always ends.
CREATE TABLE profile_readiness (
    engine     text NOT NULL CHECK (engine <> ''),
    digest     text NOT NULL REFERENCES profile_revision (digest),
    state      text NOT NULL CHECK (state IN ('ready', 'unverified', 'blocked')),
    reason     text NOT NULL,
    checked_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL CHECK (expires_at > checked_at),
    links      jsonb NOT NULL,
    PRIMARY KEY (engine, digest)
);

CREATE INDEX profile_readiness_digest ON profile_readiness (digest);

-- What operators said about a digest, kept for good; the last word holds on every engine.
CREATE TABLE profile_block (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest   text NOT NULL REFERENCES profile_revision (digest),
    verdict  text NOT NULL CHECK (verdict IN ('blocked', 'disabled', 'enabled')),
    reason   text NOT NULL CHECK (reason <> ''),
    operator text NOT NULL CHECK (operator <> ''),
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX profile_block_digest ON profile_block (digest, id DESC);

-- The labelled proofs that ran on one engine while the profile was not ready there. They are counted.
CREATE TABLE profile_proof (
    engine text NOT NULL,
    digest text NOT NULL REFERENCES profile_revision (digest),
    run    text NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (engine, digest, run)
);

