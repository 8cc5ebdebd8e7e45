package sandbox

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	cerrdefs "github.com/containerd/errdefs"
)

// The carrier is an empty image, the same bytes everywhere and so the same id: the only thing ever created from it is the container
// through which the init volume is written and read back, and that container is never started.
type carrier struct {
	id      string // sha256:<config digest>
	archive []byte // as `docker load` takes it
}

func makeCarrier() (carrier, error) {
	var layer bytes.Buffer
	if err := tar.NewWriter(&layer).Close(); err != nil {
		return carrier{}, err
	}
	layerSum := sha256.Sum256(layer.Bytes())
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "created": "1970-01-01T00:00:00Z", "config": map[string]any{},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(layerSum[:])}},
		"history": []map[string]any{{"created": "1970-01-01T00:00:00Z", "created_by": "harness carrier"}},
	})
	if err != nil {
		return carrier{}, err
	}
	configSum := sha256.Sum256(config)
	digest := hex.EncodeToString(configSum[:])
	manifest, err := json.Marshal([]map[string]any{{
		"Config": digest + ".json", "RepoTags": []string{"harness/carrier:1"}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return carrier{}, err
	}
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		data []byte
	}{{digest + ".json", config}, {"layer.tar", layer.Bytes()}, {"manifest.json", manifest}} {
		if err := tw.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.data))}); err != nil {
			return carrier{}, err
		}
		if _, err := tw.Write(f.data); err != nil {
			return carrier{}, err
		}
	}
	return carrier{id: "sha256:" + digest, archive: out.Bytes()}, tw.Close()
}

// ensureCarrier loads the carrier image where it is missing, and returns its id. Loading it twice is loading it once.
func (v *Venue) ensureCarrier(ctx context.Context) (string, error) {
	c, err := makeCarrier()
	if err != nil {
		return "", fmt.Errorf("sandbox: carrier image: %w", err)
	}
	_, err = v.docker.ImageInspect(ctx, c.id)
	if err == nil {
		return c.id, nil
	}
	if !cerrdefs.IsNotFound(err) {
		return "", fmt.Errorf("sandbox: inspect the carrier image: %w", err)
	}
	if err := v.load(ctx, bytes.NewReader(c.archive)); err != nil {
		return "", err
	}
	if _, err := v.docker.ImageInspect(ctx, c.id); err != nil {
		return "", fmt.Errorf("sandbox: the engine does not know the carrier image by its config digest: %w", err)
	}
	return c.id, nil
}

// load gives an image archive to the engine, and reads its answer to the end: errors come inside it.
func (v *Venue) load(ctx context.Context, archive io.Reader) (err error) {
	res, err := v.docker.ImageLoad(ctx, archive)
	if err != nil {
		return fmt.Errorf("sandbox: load an image: %w", err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if !res.JSON {
		_, err := io.Copy(io.Discard, res.Body)
		return err
	}
	dec := json.NewDecoder(res.Body)
	for {
		var line struct {
			Error string `json:"error"`
		}
		err := dec.Decode(&line)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("sandbox: load an image: %w", err)
		}
		if line.Error != "" {
			return fmt.Errorf("sandbox: load an image: %s", line.Error)
		}
	}
}
