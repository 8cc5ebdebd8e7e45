package stack

import (
	"os"
	"strings"
	"testing"
)

// Stack is a running stack, as a test uses it.
type Stack struct{ State }

// Load finds the running stack. A stack that is not up, or has a dead part, ends the test: run `make up`.
func Load(t testing.TB) *Stack {
	t.Helper()
	dir, err := Folder()
	if err != nil {
		t.Fatal(err)
	}
	state, err := Read(dir)
	if err != nil {
		t.Fatalf("%v: run make up", err)
	}
	for name, process := range state.Processes {
		if !process.Running() {
			t.Fatalf("%s of the local stack is not running: run make up", name)
		}
	}
	return &Stack{*state}
}

// DockerHost is the engine's address, in the form of DOCKER_HOST.
func (s *Stack) DockerHost() string { return s.Docker.Host }

// Image is the id of an image that is loaded in the engine, "sha256:<config digest>".
func (s *Stack) Image(t testing.TB, name string) string {
	t.Helper()
	id, found := s.Images[name]
	if !found {
		t.Fatalf("the local stack has no image %q: run make up", name)
	}
	return id
}

// Secret is the content of a credential file of the stack, without the line's end.
func (s *Stack) Secret(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(data), "\n")
}
