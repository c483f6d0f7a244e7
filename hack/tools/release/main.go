// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release makes the parts of a release from the executables that the
// Makefile has compiled: images, archives, bills of materials, the manifest for
// krew, checksums, signatures. Each part is a subcommand; hack/make/release.mk
// has their order, and docs/RELEASE.md says what comes out. The same commit and
// version always give the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// command is a subcommand: what it needs, and what it does.
type command struct {
	name, summary string
	run           func(ctx context.Context, out io.Writer, flags *flag.FlagSet, args []string) error
}

func commands() []command {
	return []command{
		{"check", "reports whether a version can be released from this tree", runCheck},
		{"notes", "writes the release notes from CHANGELOG.md", runNotes},
		{"image", "writes an OCI layout with an image for each platform, and archives of it", runImage},
		{"archive", "writes an archive of files: .tar.gz, .tgz or .zip", runArchive},
		{"sbom", "writes the bill of materials of executables", runBillOfMaterials},
		{"krew", "writes the plugin manifest for krew", runKrew},
		{"sums", "writes SHA256SUMS, and signs it if there is a key", runSums},
		{"verify", "verifies checksums, and signatures with a public key", runVerify},
		{"keys", "makes a pair of keys to sign with", runKeys},
		{"push", "pushes the image of a release, and its signature, to a registry", runPush},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	var usage strings.Builder
	usage.WriteString("usage: release COMMAND [FLAGS]; commands are:\n")
	for _, c := range commands() {
		if len(args) > 0 && args[0] == c.name {
			flags := flag.NewFlagSet("release "+c.name, flag.ContinueOnError)
			flags.SetOutput(out)
			if err := c.run(ctx, out, flags, args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			return nil
		}
		fmt.Fprintf(&usage, "  %-8s %s\n", c.name, c.summary)
	}
	return errors.New(usage.String())
}

// parse reads flags, and fails if one that has no default is missing.
func parse(flags *flag.FlagSet, args []string, required ...string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, name := range required {
		if flags.Lookup(name).Value.String() == "" {
			return fmt.Errorf("-%s is missing", name)
		}
	}
	return nil
}

// sourceDate is the time that everything in a release has: that of the commit,
// which the Makefile passes.
func sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Time{}, errors.New("SOURCE_DATE_EPOCH is not set: set it to the commit's date, $(git log -1 --format=%ct)")
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is no number of seconds: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// list is a flag that can be given more than once.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// pair is a value of the form key=value.
type pair struct{ key, value string }

func (l *list) pairs() ([]pair, error) {
	pairs := make([]pair, 0, len(*l))
	for _, item := range *l {
		key, value, found := strings.Cut(item, "=")
		if !found || key == "" || value == "" {
			return nil, fmt.Errorf("%q is not of the form key=value", item)
		}
		pairs = append(pairs, pair{key: key, value: value})
	}
	return pairs, nil
}
