package guest

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// MaxPut bounds one file of the run folder.
const MaxPut = 1 << 20

// put writes one file into the run folder, as the session's user. An existing name is refused, a link is never followed.
func (d *initd) put(req wire.Put, in *wire.Reader) error {
	if req.Name == "" || req.Name == "." || req.Name == ".." || strings.ContainsAny(req.Name, "/\x00") || req.Mode&^0o777 != 0 {
		return fmt.Errorf("refused file name or mode %q %o", req.Name, req.Mode)
	}
	var data []byte
	for {
		kind, payload, err := in.Next()
		if err != nil {
			return err
		}
		if kind == wire.End {
			break
		}
		if kind != wire.Data || len(data)+len(payload) > MaxPut {
			return fmt.Errorf("%w: file data out of turn or beyond %d bytes", wire.ErrMalformed, MaxPut)
		}
		data = append(data, payload...)
	}
	return d.session.do(func() (err error) {
		full := path.Join(RunDir, req.Name)
		fd, err := unix.Open(full, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, req.Mode)
		if err != nil {
			return fmt.Errorf("create %s: %w", full, err)
		}
		f := os.NewFile(uintptr(fd), full) //nolint:gosec // a descriptor
		defer func() { err = errors.Join(err, f.Close()) }()
		if _, err := f.Write(data); err != nil {
			return fmt.Errorf("write %s: %w", full, err)
		}
		return f.Chmod(os.FileMode(req.Mode)) // the umask took bits away
	})
}
