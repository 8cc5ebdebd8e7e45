-- +goose Up

-- What run ids are made of, with the trigger key: the same for as long as this database and its copies live. (A51)
ALTER TABLE control ADD COLUMN salt uuid NOT NULL DEFAULT gen_random_uuid();
