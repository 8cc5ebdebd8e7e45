package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// startDocker starts an engine of the stack's own: its containerd, then dockerd. Nothing of it is shared with an
// engine that is there already, and no host network setting is touched.
func (s *State) startDocker(ctx context.Context) error {
	folder := s.data("docker")
	if err := clearEngine(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := s.writeEngineConfig(folder); err != nil {
		return err
	}
	return s.runDocker(ctx)
}

// writeEngineConfig writes the configuration of both daemons, and says in the state where the engine will be.
func (s *State) writeEngineConfig(folder string) error {
	// A containerd of our own: dockerd would take the machine's if that has one running.
	containerdSocket := filepath.Join(folder, "containerd.sock")
	config := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\n  address = %q\n",
		filepath.Join(folder, "containerd"), filepath.Join(folder, "containerd.run"), containerdSocket)
	if err := writeFile(filepath.Join(folder, "containerd.toml"), []byte(config)); err != nil {
		return err
	}
	s.Docker = Docker{Host: "unix://" + filepath.Join(folder, "docker.sock")}
	runsc, err := exec.LookPath("runsc")
	if err != nil {
		return err
	}
	daemon, err := json.MarshalIndent(map[string]any{
		"hosts":          []string{s.Docker.Host},
		"containerd":     containerdSocket,
		"data-root":      filepath.Join(folder, "root"),
		"exec-root":      filepath.Join(folder, "exec"),
		"pidfile":        filepath.Join(folder, "dockerd.pid"),
		"storage-driver": "overlay2",
		"log-level":      "warn",
		"bridge":         "none",
		"iptables":       false,
		"ip-forward":     false,
		"ip-masq":        false,
		"runtimes": map[string]any{
			"runsc": map[string]any{
				"path":        runsc,
				"runtimeArgs": []string{"--platform=ptrace", "--network=none", "--ignore-cgroups"},
			},
		},
	}, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(folder, "daemon.json"), daemon)
}

// runDocker starts both daemons on what the data folder holds.
func (s *State) runDocker(ctx context.Context) error {
	containerd, err := launch(exec.Command("containerd", "--config", s.data("docker", "containerd.toml")), s.log("containerd"))
	s.Processes["containerd"] = containerd
	if err != nil {
		return err
	}
	if err := await(ctx, containerd, s.log("containerd"), 60*time.Second, func(ctx context.Context) error {
		connection, err := new(net.Dialer).DialContext(ctx, "unix", s.data("docker", "containerd.sock"))
		if err != nil {
			return err
		}
		return connection.Close()
	}); err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	dockerd, err := launch(exec.Command("dockerd", "--config-file", s.data("docker", "daemon.json")), s.log("dockerd"))
	s.Processes["dockerd"] = dockerd
	if err != nil {
		return err
	}
	return await(ctx, dockerd, s.log("dockerd"), 60*time.Second, func(ctx context.Context) error {
		_, err := s.Docker.call(ctx, http.MethodGet, "/_ping", nil)
		return err
	})
}

// stopDocker removes the containers and ends the engine.
func (s *State) stopDocker(ctx context.Context) error {
	var problems []error
	if s.Processes["dockerd"].Running() {
		problems = append(problems, s.Docker.removeContainers(ctx))
	}
	for _, part := range []string{"dockerd", "containerd"} {
		problems = append(problems, s.Processes[part].Stop(syscall.SIGTERM, 30*time.Second))
	}
	return errors.Join(problems...)
}

func (d Docker) removeContainers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	list, err := d.call(ctx, http.MethodGet, "/containers/json?all=1", nil)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	var containers []struct{ ID string }
	if err := json.Unmarshal(list, &containers); err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	var problems []error
	for _, container := range containers {
		_, err := d.call(ctx, http.MethodDelete, "/containers/"+container.ID+"?force=1&v=1", nil)
		// Its owner may be removing it in this moment.
		var answer *statusError
		if err != nil && !(errors.As(err, &answer) && (answer.status == http.StatusNotFound || answer.status == http.StatusConflict)) {
			problems = append(problems, fmt.Errorf("remove container %.12s: %w", container.ID, err))
		}
	}
	return errors.Join(problems...)
}

// statusError is an answer of the engine that is not a success.
type statusError struct {
	status int
	said   string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.status, http.StatusText(e.status), e.said)
}

// load loads an image archive. The engine gives the image the id that the archive's config has.
func (d Docker) load(ctx context.Context, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	answer, err := d.call(ctx, http.MethodPost, "/images/load?quiet=1", file)
	// A failure inside the stream still has status 200.
	if err == nil && strings.Contains(string(answer), `"errorDetail"`) {
		err = errors.New(string(answer))
	}
	if err != nil {
		return fmt.Errorf("load %s: %w", filepath.Base(archive), err)
	}
	return nil
}

func (d Docker) hasImage(ctx context.Context, id string) bool {
	_, err := d.call(ctx, http.MethodGet, "/images/"+id+"/json", nil)
	return err == nil
}

// call makes one request of the engine's API and returns the answer's body, at most 16 MiB of it.
func (d Docker) call(ctx context.Context, method, path string, body io.Reader) ([]byte, error) {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(d.Host, "unix://"))
		},
		DisableKeepAlives: true,
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/x-tar")
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		return nil, &statusError{response.StatusCode, strings.TrimSpace(string(answer))}
	}
	return answer, nil
}

// clearEngine unmounts all that engines left mounted under the folder, the latest first, and removes the folder.
func clearEngine(folder string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(mounts)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		fields := strings.Fields(lines[i])
		if len(fields) < 5 || !strings.HasPrefix(fields[4], folder+"/") {
			continue
		}
		if err := syscall.Unmount(fields[4], syscall.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", fields[4], err)
		}
	}
	return os.RemoveAll(folder)
}
