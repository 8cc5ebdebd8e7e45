package credential_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// A28: a failure that shows a released value, in its subject or further in, keeps stage, code and meaning and loses its words.
func TestAFailureThatNamesAReleasedValueIsConcealed(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	route := v.route("demo", canary, file("demo"))
	session := begin(t, v.open(v.config()), &ledger{}, route.Policy)
	_, err := session.Read(t.Context(), route)
	require.NoError(t, err)

	for name, err := range map[string]error{
		"in the subject":     evidence.Fail(evidence.StageCapture, evidence.CodeFileTypeRefused, "a/"+canary, context.Canceled),
		"cut in the subject": evidence.Fail(evidence.StageCapture, evidence.CodeFileTypeRefused, "a/"+canary[:12], context.Canceled),
		"further in": evidence.Fail(evidence.StageCapture, evidence.CodeFileTypeRefused, "a",
			fmt.Errorf("walk %s: %w", strconv.Quote(canary), context.Canceled)),
	} {
		concealed := session.Conceal(fmt.Errorf("the stage: %w", err))
		require.Equal(t, evidence.CodeFileTypeRefused, evidence.CodeOf(concealed), name)
		require.ErrorIs(t, concealed, context.Canceled, name)
		var failure *evidence.Failure
		require.ErrorAs(t, concealed, &failure, name)
		require.Equal(t, evidence.StageCapture, failure.Stage)
		for _, text := range []string{failure.Subject, concealed.Error(), fmt.Sprintf("%+v %#v", concealed, concealed)} {
			require.NotContains(t, text, canary[:12], name)
		}
	}
	require.NotContains(t, session.Conceal(errors.New(canary)).Error(), canary)
	plain := evidence.Fail(evidence.StageCapture, evidence.CodeFileTypeRefused, "a", errors.New("a pipe"))
	require.Equal(t, plain, session.Conceal(plain))
	require.NoError(t, session.Conceal(nil))
}
