// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bundle writes the OLM bundle of an operator from what its kustomize
// base renders, so that OLM installs what `make deploy` installs.
//
//	kustomize build config/operator/klusterlet | bundle -version 0.1.0 \
//	  -date 2026-11-26T00:00:00Z -image quay.io/capstan-io/capstan:0.1.0 klusterlet
//
// It writes bundle/<operator>; the same input always makes the same files.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Stdin, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "bundle: %v\n", err)
		os.Exit(1)
	}
}

func run(manifests io.Reader, args []string) error {
	flags := flag.NewFlagSet("bundle", flag.ContinueOnError)
	root := flags.String("root", ".", "directory of the repository")
	out := flags.String("out", "bundle", "directory to write the bundle's directory into")
	number := flags.String("version", "", "semantic version of the bundle, without a leading v")
	replaces := flags.String("replaces", "", "version before it in the channel; empty for the first")
	image := flags.String("image", "", "image of the operator")
	digest := flags.String("digest", "", "digest of the image, sha256:…, which the bundle then names in place of the tag")
	date := flags.String("date", "", "when the version was released, such as 2006-01-02T15:04:05Z")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || *number == "" || *image == "" || *date == "" {
		return fmt.Errorf("usage: kustomize build config/operator/NAME | bundle -version VERSION -date DATE -image IMAGE NAME")
	}
	release, err := newRelease(*number, *replaces, *image, *digest, *date)
	if err != nil {
		return err
	}
	operator := flags.Arg(0)
	text, err := readText(*root, operator)
	if err != nil {
		return err
	}
	installed, err := readManifests(manifests)
	if err != nil {
		return fmt.Errorf("reading the manifests of %s from standard input: %w", operator, err)
	}
	version, err := serviceVersion(text, installed, release)
	if err != nil {
		return fmt.Errorf("making the ClusterServiceVersion of %s: %w", operator, err)
	}
	return write(filepath.Join(*out, operator), text, installed, version)
}
