-- +goose Up

-- A dump that is loaded into the same cluster changes neither the system identifier nor the timeline, but makes every table anew: the
-- object identifier of this one tells. (A51)
ALTER TABLE control ADD COLUMN relation oid;
UPDATE control SET relation = 'control'::regclass;
ALTER TABLE control ALTER COLUMN relation SET NOT NULL;
