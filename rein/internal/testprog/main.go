// Command testprog is what the tests of package rein run as a session.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch args[0] {
	case "report": // everything the session was given, on both streams
		task, err := os.ReadFile(os.Getenv("HARNESS_TASK_FILE"))
		if err != nil {
			return err
		}
		file, err := os.ReadFile("/run/harness/demo")
		if err != nil {
			return err
		}
		fmt.Printf("args %q\nrun %s\ntask %s\nfile %s\n\x1b[2Jescaped\n", os.Args, os.Getenv("HARNESS_RUN"), task, file)
		fmt.Fprintf(os.Stderr, "env %s\n", strings.Join(os.Environ(), " "))
		return nil
	case "exit":
		code, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		os.Exit(code)
	case "sleep":
		time.Sleep(time.Hour)
	case "flood":
		for line := strings.Repeat("x", 1<<16); ; {
			if _, err := os.Stdout.WriteString(line); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("unknown command %q", args[0])
}
