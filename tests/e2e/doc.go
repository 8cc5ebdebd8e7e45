// Package e2e shows the whole chain on the real parts: Postgres, Docker, Vault and git.
package e2e
