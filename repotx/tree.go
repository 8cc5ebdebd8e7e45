package repotx

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/rein-aharness/harness/evidence"
)

// folder is one folder of the resulting tree. Only folders that a change touches are read; the rest stay hashes.
type folder struct {
	entries map[string]*node
	// added are the names that the baseline's folder did not have.
	added map[string]bool
}

// node is one name in a folder: a hash, or a folder that was read because something changes in it.
type node struct {
	mode  uint32
	hash  string
	child *folder
}

const modeFolder = uint32(filemode.Dir)

// merge applies the change to the baseline's tree. It refuses what cannot be a tree, or would not be one on every file
// system: a file and a folder of one name, names that differ only in case or in composition. (A34)
func (b *Baseline) merge(cs ChangeSet) (*folder, error) {
	root, err := b.readFolder(b.Tree)
	if err != nil {
		return nil, err
	}
	for _, c := range cs.Changes {
		if c.Kind == Deleted {
			if err := b.place(root, c, nil); err != nil {
				return nil, err
			}
		}
	}
	root.prune()
	for _, c := range cs.Changes {
		if c.Kind != Deleted {
			if err := b.place(root, c, &node{mode: c.NewMode, hash: c.NewHash}); err != nil {
				return nil, err
			}
		}
	}
	return root, root.checkNames("")
}

func (b *Baseline) readFolder(hash string) (*folder, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tree, err := object.GetTree(b.objects, plumbing.NewHash(hash))
	if err != nil {
		return nil, fmt.Errorf("reading tree %s: %w", hash, err)
	}
	f := &folder{entries: make(map[string]*node, len(tree.Entries)), added: map[string]bool{}}
	for _, e := range tree.Entries {
		f.entries[e.Name] = &node{mode: uint32(e.Mode), hash: e.Hash.String()}
	}
	return f, nil
}

func collision(path string, format string, args ...any) error {
	return evidence.Fail(evidence.StageAccept, evidence.CodePathCollision, path, fmt.Errorf(format, args...))
}

// place puts a file at the change's path, or takes it away when file is nil.
func (b *Baseline) place(root *folder, c Change, file *node) error {
	at := root
	rest := c.Path
	for {
		name, below, deeper := strings.Cut(rest, "/")
		if name == "" || deeper && below == "" {
			return evidence.Fail(evidence.StageAccept, evidence.CodePathInvalid, c.Path, errors.New("empty component"))
		}
		n := at.entries[name]
		if !deeper {
			return at.put(name, n, c, file)
		}
		switch {
		case n == nil && file == nil:
			return collision(c.Path, "deleted, but not there")
		case n == nil:
			n = &node{mode: modeFolder, child: &folder{entries: map[string]*node{}, added: map[string]bool{}}}
			at.entries[name] = n
			at.added[name] = true
		case n.mode != modeFolder:
			return collision(c.Path, "%q is a file and a folder", name)
		case n.child == nil:
			child, err := b.readFolder(n.hash)
			if err != nil {
				return err
			}
			n.child = child
		}
		at, rest = n.child, below
	}
}

func (f *folder) put(name string, old *node, c Change, file *node) error {
	switch {
	case file == nil && (old == nil || old.mode == modeFolder):
		return collision(c.Path, "deleted, but not there")
	case file == nil:
		delete(f.entries, name)
		return nil
	case old != nil && old.mode == modeFolder:
		return collision(c.Path, "%q is a file and a folder", name)
	case (old == nil) != (c.Kind == Added):
		return collision(c.Path, "named twice")
	}
	if old == nil {
		f.added[name] = true
	}
	f.entries[name] = file
	return nil
}

// prune drops folders that hold nothing any more: git has no empty ones.
func (f *folder) prune() {
	for name, n := range f.entries {
		if n.child == nil {
			continue
		}
		n.child.prune()
		if len(n.child.entries) == 0 {
			delete(f.entries, name)
		}
	}
}

// checkNames refuses added names that some file system takes for another name of the same folder. What the baseline has
// side by side already is not this change's doing.
func (f *folder) checkNames(prefix string) error {
	if len(f.added) > 0 {
		folded := make(map[string][]string, len(f.entries))
		for name := range f.entries {
			key := foldName(name)
			folded[key] = append(folded[key], name)
		}
		for _, name := range sortedKeys(f.added) {
			if same := folded[foldName(name)]; len(same) > 1 {
				slices.Sort(same)
				return collision(prefix+name, "names that some file systems take for one: %q", same)
			}
		}
	}
	for _, name := range sortedKeys(f.entries) {
		if n := f.entries[name]; n.child != nil {
			if err := n.child.checkNames(prefix + name + "/"); err != nil {
				return err
			}
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// encode writes the folders that were read, deepest first, and returns the hash of this one.
func (f *folder) encode(write func(kind plumbing.ObjectType, data []byte) (string, error)) (string, error) {
	type line struct {
		name, key string
		n         *node
	}
	lines := make([]line, 0, len(f.entries))
	for name, n := range f.entries {
		if n.child != nil {
			hash, err := n.child.encode(write)
			if err != nil {
				return "", err
			}
			n.hash = hash
		}
		key := name
		if n.mode == modeFolder {
			key += "/" // git sorts a folder as if its name ended with a slash
		}
		lines = append(lines, line{name, key, n})
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.key, b.key) })
	var buf bytes.Buffer
	for _, l := range lines {
		raw, err := hex.DecodeString(l.n.hash)
		if err != nil || len(raw) != 20 || l.name == "" || strings.ContainsAny(l.name, "/\x00") {
			return "", fmt.Errorf("tree entry %q cannot be written", l.name)
		}
		fmt.Fprintf(&buf, "%o %s\x00", l.n.mode, l.name)
		buf.Write(raw)
	}
	return write(plumbing.TreeObject, buf.Bytes())
}
