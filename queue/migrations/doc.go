// Package migrations holds the SQL of the queue's schema, one goose file per version. The profiles' tables have their versions
// from 100 on. A migration only ever adds: a worker of the version before goes on beside the new one during a rolling restart.
package migrations

import "embed"

// FS holds the goose files.
//
//go:embed *.sql
var FS embed.FS
