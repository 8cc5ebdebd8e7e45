package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// need is a program the stack runs and the Debian package that has it.
type need struct{ program, debian string }

var needs = []need{
	{"dockerd", "docker.io"},
	{"containerd", "docker.io"},
	{"runsc", "runsc"},
	{"postgres", "postgresql"},
	{"pgbouncer", "pgbouncer"},
	{"ssh", "openssh-client"},
	{"git", "git"},
	{"gcc", "gcc"},
	{"make", "make"},
}

// installMissing installs what the stack needs and the machine lacks. Without root it installs nothing and the error
// says what to do.
func installMissing(ctx context.Context, output io.Writer) error {
	var packages []string
	for _, need := range needs {
		if !installed(need) && !slices.Contains(packages, need.debian) {
			packages = append(packages, need.debian)
			if need.debian == "gcc" {
				packages = append(packages, "libc6-dev")
			}
		}
	}
	if os.Geteuid() != 0 {
		problem := "the stack starts a Docker engine, which needs root"
		if len(packages) > 0 {
			problem += "; also missing, to be installed as root: apt-get install -y --no-install-recommends " + strings.Join(packages, " ")
		}
		return errors.New(problem)
	}
	if len(packages) == 0 {
		return nil
	}
	fmt.Fprintf(output, "packages: installing %s\n", strings.Join(packages, " "))
	for _, arguments := range [][]string{
		{"update", "-qq"},
		append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...),
	} {
		apt := exec.CommandContext(ctx, "apt-get", arguments...)
		// In runlevel 1 the packages' services are not started; the stack runs its own.
		apt.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		if transcript, err := apt.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", arguments[0], err, transcript)
		}
	}
	for _, need := range needs {
		if !installed(need) {
			return fmt.Errorf("%s is still missing after the package %s was installed", need.program, need.debian)
		}
	}
	return nil
}

func installed(n need) bool {
	if n.program == "postgres" {
		_, err := postgresProgram(n.program)
		return err == nil
	}
	_, err := exec.LookPath(n.program)
	return err == nil
}
