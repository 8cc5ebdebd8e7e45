package canary_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/tests/deployment"
)

// How the session gets the canaries.
const (
	blockFile     = "block" // a file of several lines
	oddFile       = "odd"   // one line that every way of quoting changes
	tokenVariable = "CANARY_TOKEN"
	linesVariable = "CANARY_LINES"
)

// planted are new values for one session, in the order: a block, an odd one, a token, lines.
func planted() []canary {
	return []canary{
		{"block", "-----BEGIN CANARY-----\n" + rand.Text() + rand.Text() + "\n" + rand.Text() + "+/" + rand.Text() + "\n" + rand.Text() + "==\n-----END CANARY-----\n"},
		{"odd", rand.Text()[:8] + `%+="'\<&>é ?/` + rand.Text()[:8]},
		{"token", "canary_" + rand.Text()},
		{"lines", rand.Text() + "\n\t" + rand.Text() + `"\n` + rand.Text()},
	}
}

// routes store the canaries in Vault and are the lanes that bring them to a session.
func routes(t *testing.T, d *deployment.Deployment, canaries []canary) []credential.Route {
	t.Helper()
	fields := map[string]string{}
	for _, c := range canaries {
		fields[c.name] = c.value
	}
	path, policy := d.Stack.Credential(t, fields)
	inject := []credential.Injection{
		{Kind: credential.InjectFile, Target: blockFile},
		{Kind: credential.InjectFile, Target: oddFile},
		{Kind: credential.InjectEnv, Target: tokenVariable},
		{Kind: credential.InjectEnv, Target: linesVariable},
	}
	var all []credential.Route
	for i, c := range canaries {
		all = append(all, credential.Route{
			Revision: c.name + "@1.0.0", Path: path, Policy: policy, Field: c.name, TTLSeconds: 300, Inject: inject[i],
		})
	}
	return all
}

// deployed are the secrets that the deployment itself lives on.
func deployed(t *testing.T, d *deployment.Deployment) []canary {
	t.Helper()
	st := d.Stack
	database, err := d.Config.Database.URL()
	require.NoError(t, err)
	parsed, err := url.Parse(database)
	require.NoError(t, err)
	password, given := parsed.User.Password()
	require.True(t, given)
	signing, err := st.VaultRoot(t).KVv2("secret").Get(t.Context(), "harness/signing")
	require.NoError(t, err)
	key, _ := signing.Data["private_key"].(string)
	block, _ := pem.Decode([]byte(key))
	require.NotNil(t, block)
	_, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	all := []canary{
		{"database password", password},
		{"AppRole secret id", st.Secret(t, st.Vault.SecretIDFile)},
		{"publish password", st.Secret(t, st.Git.PasswordFile)},
		{"publish key", st.Secret(t, st.Git.SSHKeyFile)},
		{"signing key", key},
		{"seed of the signing key", string(block.Bytes[len(block.Bytes)-32:])},
		{"basic authorization", base64.StdEncoding.EncodeToString([]byte(st.Git.Username + ":" + st.Secret(t, st.Git.PasswordFile)))},
	}
	for _, c := range all {
		require.Greater(t, len(strings.TrimSpace(c.value)), 12, c.name)
	}
	return all
}
