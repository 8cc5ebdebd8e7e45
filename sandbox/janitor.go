package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
)

// Labels are what a container says of itself to the janitor.
type Labels struct {
	Container string
	Run       string // empty for a container that never was a sandbox
	Epoch     int64
	Owner     string
	Expires   time.Time
}

// retiredInit is how long the init volume of another release is kept while nothing uses it.
const retiredInit = 7 * 24 * time.Hour

// Janitor removes what is left over on the engine under its name, in whatever state it is: every container past its expiry, every
// sandbox of which expired says that its lease is over, and init volumes of other releases that nothing has used for a week. now
// is the caller's; expired may be nil. What could not be removed, or judged, is in the error; the rest is removed all the same. It
// returns what it removed. (A25)
func (v *Venue) Janitor(ctx context.Context, now time.Time, expired func(Labels) (bool, error)) ([]Labels, error) {
	mine := filters.NewArgs(filters.Arg("label", labelEngine+"="+v.cfg.Engine))
	list, err := v.docker.ContainerList(ctx, container.ListOptions{All: true, Filters: mine})
	if err != nil {
		return nil, fmt.Errorf("sandbox: list containers of engine %s: %w", v.cfg.Engine, err)
	}
	var gone []Labels
	var errs []error
	for _, c := range list {
		l := readLabels(c.ID, c.Labels)
		over := !now.Before(l.Expires)
		if !over && l.Run != "" && expired != nil {
			if over, err = expired(l); err != nil {
				errs = append(errs, fmt.Errorf("sandbox: is run %s over: %w", l.Run, err))
				continue
			}
		}
		if !over {
			continue
		}
		if err := v.remove(ctx, c.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		gone = append(gone, l)
	}
	if err := v.retireVolumes(ctx, mine, now); err != nil {
		errs = append(errs, err)
	}
	return gone, errors.Join(errs...)
}

// readLabels reads a container's labels. Without a readable expiry it has none that lies ahead: nothing of ours is without one.
func readLabels(id string, labels map[string]string) Labels {
	l := Labels{Container: id, Run: labels[labelRun], Owner: labels[labelOwner]}
	if epoch, err := strconv.ParseInt(labels[labelEpoch], 10, 64); err == nil {
		l.Epoch = epoch
	}
	if sec, err := strconv.ParseInt(labels[labelExpires], 10, 64); err == nil {
		l.Expires = time.Unix(sec, 0)
	}
	return l
}

func (v *Venue) retireVolumes(ctx context.Context, mine filters.Args, now time.Time) error {
	list, err := v.docker.VolumeList(ctx, volume.ListOptions{Filters: mine})
	if err != nil {
		return fmt.Errorf("sandbox: list volumes of engine %s: %w", v.cfg.Engine, err)
	}
	var errs []error
	for _, vol := range list.Volumes {
		if vol.Labels[labelInit] == "" || vol.Name == v.binary.volume() {
			continue
		}
		created, err := time.Parse(time.RFC3339, vol.CreatedAt)
		if err != nil {
			errs = append(errs, fmt.Errorf("sandbox: volume %s: %w", vol.Name, err))
			continue
		}
		if now.Sub(created) < retiredInit {
			continue
		}
		// Not forced: a volume in use is refused, and stays.
		if err := v.docker.VolumeRemove(ctx, vol.Name, false); err != nil && !cerrdefs.IsConflict(err) && !cerrdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("sandbox: remove volume %s: %w", vol.Name, err))
		}
	}
	return errors.Join(errs...)
}
