package evidence

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rein-aharness/harness/internal/canonical"
)

// An export is one run's record as lines of canonical JSON: a header, the facts in order, what else belongs to the record, and an
// end that counts the lines before it. It may name the public key that signed; a verifier shows that as a hint and never
// believes it.

// exportVersion is the version of the form of an export.
const exportVersion = 1

// ErrExport is what an export that cannot be read is refused with.
var ErrExport = errors.New("not a readable export of a run's evidence")

// maxExportLine bounds one line, which for a pack is its base64.
const maxExportLine = 192 << 20

// lineType names what a line holds.
type lineType string

const (
	lineHeader   lineType = "header"
	lineFact     lineType = "fact"
	lineEnvelope lineType = "envelope"
	lineContract lineType = "contract"
	lineProfile  lineType = "profile"
	lineCommit   lineType = "commit"
	linePack     lineType = "pack"
	lineKey      lineType = "key"
	lineEnd      lineType = "end"
)

type exportLine struct {
	Type     lineType       `json:"type"`
	Version  int            `json:"version,omitzero"`  // header
	Run      string         `json:"run,omitempty"`     // header
	Document jsontext.Value `json:"document,omitzero"` // fact, envelope, contract, profile: canonical JSON
	Base64   string         `json:"base64,omitempty"`  // commit, pack, key
	KeyID    string         `json:"key_id,omitempty"`  // key
	Lines    int            `json:"lines,omitzero"`    // end: how many lines came before
}

// WriteExport writes a record. When trust has the key that the envelope names, its public key is added as a hint.
func WriteExport(w io.Writer, rec Record, trust Trust) error {
	if rec.Unreadable != nil {
		return fmt.Errorf("exporting: %w", rec.Unreadable)
	}
	lines := []exportLine{{Type: lineHeader, Version: exportVersion, Run: rec.Run}}
	for _, f := range rec.Facts {
		data, err := f.Encode()
		if err != nil {
			return fmt.Errorf("exporting fact %d: %w", f.Seq, err)
		}
		lines = append(lines, exportLine{Type: lineFact, Document: data})
	}
	for _, d := range []struct {
		kind lineType
		data []byte
	}{{lineEnvelope, rec.Envelope}, {lineContract, rec.Contract}, {lineProfile, rec.Profile}} {
		if len(d.data) > 0 {
			lines = append(lines, exportLine{Type: d.kind, Document: d.data})
		}
	}
	for _, d := range []struct {
		kind lineType
		data []byte
	}{{lineCommit, rec.Commit}, {linePack, rec.Pack}} {
		if len(d.data) > 0 {
			lines = append(lines, exportLine{Type: d.kind, Base64: base64.StdEncoding.EncodeToString(d.data)})
		}
	}
	if len(rec.Envelope) > 0 {
		env, err := parseEnvelope(rec.Envelope)
		if err != nil {
			return fmt.Errorf("exporting the envelope: %w", err)
		}
		if key, ok := trust.Key(env.keyID); ok {
			der, err := encodePublicKey(key.Public)
			if err != nil {
				return fmt.Errorf("exporting the key: %w", err)
			}
			lines = append(lines, exportLine{Type: lineKey, KeyID: key.KeyID, Base64: base64.StdEncoding.EncodeToString(der)})
		}
	}
	lines = append(lines, exportLine{Type: lineEnd, Lines: len(lines)})
	for _, l := range lines {
		data, err := canonical.Marshal(l)
		if err != nil {
			return fmt.Errorf("exporting the %s: %w", l.Type, err)
		}
		if len(data) >= maxExportLine {
			return fmt.Errorf("exporting the %s: %w", l.Type, canonical.ErrTooLarge)
		}
		if _, err := w.Write(append(data, '\n')); err != nil {
			return fmt.Errorf("writing the export: %w", err)
		}
	}
	return nil
}

// Export is what ReadExport read.
type Export struct {
	Record Record
	// KeyID and PublicKey are the export's own word about who signed it. They help to find the key and prove nothing.
	KeyID     string
	PublicKey []byte
}

// ReadExport reads what WriteExport wrote. A file that was cut off, has lines out of place or lines that are not canonical is
// refused with ErrExport. It verifies nothing: that is VerifyOffline's.
func ReadExport(r io.Reader) (Export, error) {
	var out Export
	in := bufio.NewReaderSize(r, 64<<10)
	for n := 0; ; n++ {
		line, err := readLine(in)
		if err != nil {
			return Export{}, fmt.Errorf("%w: line %d: %w", ErrExport, n+1, err)
		}
		l, err := parseExportLine(line)
		if err != nil {
			return Export{}, fmt.Errorf("%w: line %d: %w", ErrExport, n+1, err)
		}
		if l.Type != lineEnd {
			if err := out.take(n, l); err != nil {
				return Export{}, fmt.Errorf("%w: line %d: %w", ErrExport, n+1, err)
			}
			continue
		}
		if n == 0 || l.Lines != n {
			return Export{}, fmt.Errorf("%w: the end counts %d lines, here are %d", ErrExport, l.Lines, n)
		}
		if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
			return Export{}, fmt.Errorf("%w: something follows the end", ErrExport)
		}
		return out, nil
	}
}

// readLine reads one line without its line feed. It holds no more than maxExportLine bytes.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxExportLine {
			return nil, canonical.ErrTooLarge
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func parseExportLine(data []byte) (exportLine, error) {
	bounds := factBounds
	bounds.MaxBytes, bounds.MaxString, bounds.MaxDepth = maxExportLine, maxExportLine, canonical.DefaultMaxDepth+1
	var l exportLine
	if err := canonical.DecodeJSON(data, &l, bounds); err != nil {
		return exportLine{}, err
	}
	again, err := canonical.Marshal(l)
	if err != nil {
		return exportLine{}, err
	}
	if !bytes.Equal(again, data) {
		return exportLine{}, errors.New("not in canonical form")
	}
	return l, nil
}

// take adds line n to the record. A part may be there once.
func (e *Export) take(n int, l exportLine) error {
	if (n == 0) != (l.Type == lineHeader) {
		return errors.New("the header and only it comes first")
	}
	once := func(part *[]byte, data []byte) error {
		if len(*part) > 0 || len(data) == 0 {
			return fmt.Errorf("the %s is empty or there twice", l.Type)
		}
		*part = data
		return nil
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(l.Base64)
	if err != nil {
		return errors.New("bad base64")
	}
	switch l.Type {
	case lineHeader:
		if l.Version != exportVersion {
			return fmt.Errorf("version %d is not known", l.Version)
		}
		e.Record.Run = l.Run
		return nil
	case lineFact:
		f, err := DecodeFact(l.Document)
		if err != nil {
			return err
		}
		e.Record.Facts = append(e.Record.Facts, f)
		return nil
	case lineEnvelope:
		return once(&e.Record.Envelope, l.Document)
	case lineContract:
		return once(&e.Record.Contract, l.Document)
	case lineProfile:
		return once(&e.Record.Profile, l.Document)
	case lineCommit:
		return once(&e.Record.Commit, blob)
	case linePack:
		return once(&e.Record.Pack, blob)
	case lineKey:
		e.KeyID = l.KeyID
		return once(&e.PublicKey, blob)
	default:
		return errors.New("a line of a type that is not known")
	}
}
