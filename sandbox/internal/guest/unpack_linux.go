package guest

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// runUnpack writes the tar archive on standard input into the workspace. It never follows a link, never replaces what exists, and
// refuses every entry that is not a folder, a regular file or a symlink below the workspace.
func runUnpack(args []string) error {
	if len(args) != 0 {
		return errors.New("unpack: takes no argument")
	}
	return unpack(Workspace, os.Stdin)
}

func unpack(dir string, archive io.Reader) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	u := &unpacker{root: root, folders: map[string]bool{".": true}}
	tr := tar.NewReader(archive)
	for {
		head, err := tr.Next()
		if errors.Is(err, io.EOF) {
			// What follows the archive's end is padding; the writer must not be left blocked on it.
			_, err := io.Copy(io.Discard, archive)
			return err
		}
		if err != nil {
			return refused(fmt.Errorf("unpack: read the archive: %w", err))
		}
		if err := u.entry(head, tr); err != nil {
			if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) {
				return &coded{code: wire.HelperNoSpace, err: err}
			}
			return err
		}
	}
}

func refused(err error) error { return &coded{code: wire.HelperRefused, err: err} }

type unpacker struct {
	root    *os.Root
	folders map[string]bool // real folders, made or seen by this process
}

func (u *unpacker) entry(head *tar.Header, content io.Reader) error {
	name := strings.TrimSuffix(strings.TrimPrefix(head.Name, "./"), "/")
	if head.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if head.Typeflag == tar.TypeDir && (name == "" || name == ".") {
		return nil
	}
	if name == "" || name != path.Clean(name) || !filepath.IsLocal(name) || strings.ContainsRune(name, 0) {
		return refused(fmt.Errorf("unpack: refused name %q", head.Name))
	}
	if head.Typeflag == tar.TypeDir {
		return u.folder(name)
	}
	if err := u.folder(path.Dir(name)); err != nil {
		return err
	}
	switch head.Typeflag {
	case tar.TypeReg:
		return u.file(name, head, content)
	case tar.TypeSymlink:
		if err := u.root.Symlink(head.Linkname, name); err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		return nil
	}
	return refused(fmt.Errorf("unpack: %q has the refused type %q", head.Name, head.Typeflag))
}

// folder makes name and what leads to it. A link on the way is refused: the archive may have planted it one entry earlier.
func (u *unpacker) folder(name string) error {
	if u.folders[name] {
		return nil
	}
	if err := u.folder(path.Dir(name)); err != nil {
		return err
	}
	err := u.root.Mkdir(name, 0o755)
	if errors.Is(err, os.ErrExist) {
		info, serr := u.root.Lstat(name)
		if serr != nil {
			return fmt.Errorf("unpack: %w", serr)
		}
		if !info.IsDir() {
			return refused(fmt.Errorf("unpack: %q is in the way and no folder", name))
		}
	} else if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	u.folders[name] = true
	return nil
}

func (u *unpacker) file(name string, head *tar.Header, content io.Reader) (err error) {
	mode := os.FileMode(0o644)
	if head.Mode&0o100 != 0 {
		mode = 0o755
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return refused(fmt.Errorf("unpack: %q comes twice", name))
	}
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, content); err != nil {
		return fmt.Errorf("unpack: %q: %w", name, err)
	}
	return nil
}
