// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command checks runs targets of make that check the repository, as many at a time
// as the machine can bear, to the end of all of them; and says what failed, and what
// took how long.
//
//	checks [-stamps FOLDER] [-timings FILE] [-logs FOLDER] verify|test|test-e2e|TARGET...
//
// With -stamps, parts that passed on the same inputs are not run again: that is for
// CI, which checks out a commit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/capstan-io/capstan/internal/testing/timing"
)

// errFailed says that a part failed; the report says which.
var errFailed = errors.New("not all checks have passed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := checks(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "checks: %v\n", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct{ stamps, timings, logs string }

// timingsFile is a file of the user's cache, or none if there is no such folder.
func timingsFile() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "capstan", "test-timings")
}

func checks(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("checks", flag.ContinueOnError)
	flags.StringVar(&o.stamps, "stamps", "", "folder for the results that are kept for the next run; none are by default")
	flags.StringVar(&o.timings, "timings", timingsFile(), "file for what API servers cost the tests; it is outside of the module")
	flags.StringVar(&o.logs, "logs", "bin/checks", "folder for what each part prints")
	if err := flags.Parse(args); err != nil {
		return err //nolint:wrapcheck // it says which flag
	}
	parts, err := chosen(plan(), flags.Args())
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return errors.New("name what to check: verify, test, test-e2e or targets of make")
	}
	if err := os.MkdirAll(o.logs, 0o750); err != nil {
		return fmt.Errorf("keeping what the parts print: %w", err)
	}
	r := runner{out: out, logs: o.logs, command: makeTarget}
	if o.stamps != "" {
		if r.stamps, err = openStamps(ctx, o.stamps); err != nil {
			return err
		}
	}
	if o.timings != "" {
		if err := errors.Join(os.MkdirAll(filepath.Dir(o.timings), 0o750), os.RemoveAll(o.timings), os.Setenv(timing.Variable, o.timings)); err != nil {
			return fmt.Errorf("measuring API servers: %w", err)
		}
	}
	begun := time.Now()
	results := r.run(ctx, parts)
	timings, err := timing.ReadTimings(o.timings)
	report(out, results, time.Since(begun), timings)
	if slices.ContainsFunc(results, func(r result) bool { return r.verdict == failed || r.verdict == left }) {
		err = errors.Join(err, errFailed)
	}
	return err
}
