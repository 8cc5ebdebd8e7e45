-- +goose Up

-- An endpoint may be told more of a run than its result. A worker that knows of results only goes on telling those. (A50)
ALTER TABLE delivery ADD COLUMN record text NOT NULL DEFAULT 'result' CHECK (record IN ('result', 'history', 'metrics'));
ALTER TABLE delivery DROP CONSTRAINT delivery_run_id_endpoint_key;
ALTER TABLE delivery ADD UNIQUE (run_id, endpoint, record);
