// Command testlog stands behind `go test -json`: it prints what plain `go test` prints, keeps the JSON in a file, and ends
// with 1 when a test failed.
//
//	go test -json ./... | go run ./tests/requirements/cmd/testlog -out .stack/test.json
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rein-aharness/harness/tests/requirements"
)

func main() {
	out := flag.String("out", "", "file that keeps the JSON")
	flag.Parse()
	ok, err := run(*out)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(out string) (ok bool, err error) {
	if out == "" {
		return false, errors.New("testlog: -out is missing")
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return false, err
	}
	kept, err := os.Create(out)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	return requirements.Transcript(os.Stdin, kept, os.Stdout)
}
