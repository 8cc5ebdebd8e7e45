package admission_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue/admission"
	"github.com/rein-aharness/harness/repotx"
)

func allowedInput() admission.Input {
	return admission.Input{
		Actor: evidence.ActorAgent, Contract: "sha256:00", Repository: "example.org/a",
		Grant: repotx.Grant{
			Repository: "example.org/a", BaseRef: "refs/heads/main", TargetRef: "refs/heads/main",
			Bounds: repotx.Bounds{Paths: []string{"**/*.go", "docs/**", "*.md"}},
		},
		Profile: repotx.Bounds{Paths: []string{"**"}},
	}
}

// B5: the same input gives the same decision in whatever order its lists come.
func TestPermutedInputsGiveOneDecision(t *testing.T) {
	t.Parallel()
	want, err := admission.Decide(allowedInput())
	require.NoError(t, err)
	require.Equal(t, admission.Allowed, want.Outcome)
	require.NoError(t, want.Err())
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		in := allowedInput()
		random.Shuffle(len(in.Grant.Paths), func(i, j int) {
			in.Grant.Paths[i], in.Grant.Paths[j] = in.Grant.Paths[j], in.Grant.Paths[i]
		})
		got, err := admission.Decide(in)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// A18, A33, B5, B35: each reason alone blocks, and is named.
func TestEachReasonBlocks(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]func(*admission.Input){
		"actor_invalid":           func(in *admission.Input) { in.Actor = "someone" },
		"grant_invalid":           func(in *admission.Input) { in.Grant.Paths = nil },
		"repository_mismatch":     func(in *admission.Input) { in.Repository = "example.org/b" },
		"profile_bounds_invalid":  func(in *admission.Input) { in.Profile.Paths = nil },
		"symlinks_exceed_profile": func(in *admission.Input) { in.Grant.Symlinks = true },
		"fencing_required":        func(in *admission.Input) { in.WaivesFencing, in.RequiresFencing = true, true },
		"manifest_required":       func(in *admission.Input) { in.WaivesManifest, in.RequiresManifest = true, true },
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			in := allowedInput()
			change(&in)
			d, err := admission.Decide(in)
			require.NoError(t, err)
			require.Equal(t, admission.Blocked, d.Outcome)
			require.Equal(t, []string{reason}, d.Reasons)
			require.Equal(t, evidence.CodeAdmissionDenied, evidence.CodeOf(d.Err()))
		})
	}
}

// B5, B35: what is waived stays visible in the reasons, and every change of the input changes the id.
func TestWaiversStayVisible(t *testing.T) {
	t.Parallel()
	in := allowedInput()
	plain, err := admission.Decide(in)
	require.NoError(t, err)
	in.WaivesFencing, in.Proof = true, "first proof"
	d, err := admission.Decide(in)
	require.NoError(t, err)
	require.Equal(t, []string{"fencing_waived", "proof_labelled", "standing_grant"}, d.Reasons)
	require.NotEqual(t, plain.ID, d.ID)
}
