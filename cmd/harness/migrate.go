package main

import (
	"context"

	"github.com/rein-aharness/harness"
)

type migrateCmd struct{}

func (migrateCmd) Help() string {
	return `Creates or upgrades the tables of the queue, of the profiles and of River. It may be run at any time and by several at once;
workers of the version before go on meanwhile. Run it with a plain connection, not through a transaction pooler.

Example:

    harness migrate --config /etc/harness/harness.yaml`
}

func (migrateCmd) Run(ctx context.Context, a *app) error {
	config, err := a.config()
	if err != nil {
		return err
	}
	if err := harness.Migrate(ctx, config); err != nil {
		return err
	}
	if a.JSON {
		return a.printJSON(struct {
			Migrated bool `json:"migrated"`
		}{true})
	}
	return a.printf("the schema is current\n")
}
