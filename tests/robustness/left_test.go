package robustness_test

import (
	"context"
	"strings"

	"github.com/docker/docker/api/types/volume"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/tests/robustness/history"
)

// remains is everything that should be gone once all runs are final and their fences' retention has ended.
func (s *soak) remains(ctx context.Context) []history.Left {
	var all []history.Left
	containers, err := s.containers(ctx)
	require.NoError(s.t, err)
	for _, c := range containers {
		all = append(all, history.Left{What: "container", Name: c.ID, Run: c.Labels["harness.run"]})
	}
	volumes, err := s.engine.VolumeList(ctx, volume.ListOptions{Filters: s.ours()})
	require.NoError(s.t, err)
	for _, v := range volumes.Volumes {
		if v.Labels["harness.init"] == "" { // the one that every sandbox of this release has its init from stays
			all = append(all, history.Left{What: "volume", Name: v.Name, Run: v.Labels["harness.run"]})
		}
	}
	for _, repo := range s.repos {
		for ref := range repo.Refs(s.t) {
			if run, is := strings.CutPrefix(ref, history.FencePrefix); is {
				all = append(all, history.Left{What: "fence", Name: repo.Name, Run: run})
			}
		}
	}
	all = append(all, s.rows(ctx, "job", `SELECT id::text || ' ' || kind || ' ' || state, args ->> 'run' FROM river_job WHERE finalized_at IS NULL`)...)
	all = append(all, s.rows(ctx, "lock", `SELECT target_ref, run_id FROM ref_lock`)...)
	if len(all) > 0 {
		return all // Vault has many tokens, and is only looked through when the rest is gone
	}
	return s.tokens(ctx)
}

func (s *soak) rows(ctx context.Context, what, query string) []history.Left {
	rows, err := s.db.Query(ctx, query)
	require.NoError(s.t, err)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (history.Left, error) {
		l := history.Left{What: what}
		var run *string
		err := row.Scan(&l.Name, &run)
		if run != nil {
			l.Run = *run
		}
		return l, err
	})
	require.NoError(s.t, err)
	return all
}

// tokens are those of this deployment's runs that Vault still knows. One for a single look at a remote, outside of any run, lives for
// two minutes at most: when its revocation fails, it ends by itself.
func (s *soak) tokens(ctx context.Context) []history.Left {
	vault := s.Stack.VaultRoot(s.t)
	list, err := vault.Logical().ListWithContext(ctx, "auth/token/accessors")
	require.NoError(s.t, err)
	keys, _ := list.Data["keys"].([]any)
	var all []history.Left
	for _, key := range keys {
		accessor, _ := key.(string)
		token, err := vault.Auth().Token().LookupAccessorWithContext(ctx, accessor)
		if err != nil {
			continue // it has ended since, or is another test's that is just being revoked
		}
		metadata, _ := token.Data["meta"].(map[string]any)
		text := func(key string) string { value, _ := metadata[key].(string); return value }
		if strings.HasPrefix(text("harness_owner"), s.prefix) && text("harness_purpose") != string(credential.PurposeCheck) {
			all = append(all, history.Left{What: "token", Name: text("harness_purpose") + " of " + text("harness_owner"), Run: text("harness_run")})
		}
	}
	return all
}
