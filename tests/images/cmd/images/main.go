// Command images builds the sandbox images and prints name, image id and archive of each.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/rein-aharness/harness/tests/images"
	"github.com/rein-aharness/harness/tests/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	checkout, err := stack.Checkout()
	if err != nil {
		return err
	}
	cache, err := stack.CacheFolder()
	if err != nil {
		return err
	}
	say := func(format string, arguments ...any) { fmt.Fprintf(os.Stderr, format+"\n", arguments...) }
	built, err := images.Build(ctx, checkout, cache, say)
	if err != nil {
		return err
	}
	for _, image := range built {
		fmt.Println(image.Name, image.ID, image.Archive)
	}
	return nil
}
