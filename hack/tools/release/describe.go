// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/capstan-io/capstan/hack/tools/release/internal/krew"
	"github.com/capstan-io/capstan/hack/tools/release/internal/ociimage"
	"github.com/capstan-io/capstan/hack/tools/release/internal/sbom"
)

func runBillOfMaterials(_ context.Context, _ io.Writer, flags *flag.FlagSet, args []string) error {
	var subject sbom.Subject
	image := flags.String("image", "", "image with its digest, if the executables are in one")
	platform := flags.String("platform", "", "platform of the executables, such as linux/arm64")
	output := flags.String("o", "", "file to write")
	flags.StringVar(&subject.Version, "version", "", "version of the release")
	flags.StringVar(&subject.Commit, "commit", "", "commit of the release")
	if err := parse(flags, args, "platform", "version", "commit", "o"); err != nil {
		return err
	}
	var err error
	if subject.Date, err = sourceDate(); err != nil {
		return err
	}
	subject.Executables = flags.Args()
	if len(subject.Executables) == 0 {
		return fmt.Errorf("name the executables")
	}
	system, architecture, _ := strings.Cut(*platform, "/")
	subject.Name, subject.Type = "capstan", cdx.ComponentTypeApplication
	subject.PackageURL = fmt.Sprintf("pkg:golang/github.com/capstan-io/capstan@v%s?goarch=%s&goos=%s", subject.Version, architecture, system)
	if *image != "" {
		repository, digest, found := strings.Cut(*image, "@sha256:")
		if !found {
			return fmt.Errorf("-image=%s has no digest", *image)
		}
		if subject.Data, err = ociimage.RootsModule(); err != nil {
			return err
		}
		subject.Type = cdx.ComponentTypeContainer
		subject.PackageURL = fmt.Sprintf("pkg:oci/capstan@sha256%%3A%s?arch=%s&repository_url=%s&tag=%s", digest, architecture, repository, subject.Version)
	}
	var content bytes.Buffer
	if err := subject.Encode(&content); err != nil {
		return err
	}
	return os.WriteFile(*output, content.Bytes(), 0o644)
}

func runKrew(_ context.Context, _ io.Writer, flags *flag.FlagSet, args []string) error {
	var archives list
	version := flags.String("version", "", "version of the release")
	base := flags.String("base", "", "address below which the archives are downloaded")
	output := flags.String("o", "", "file to write")
	flags.Var(&archives, "archive", "platform=archive; can be given more than once")
	if err := parse(flags, args, "version", "base", "o", "archive"); err != nil {
		return err
	}
	pairs, err := archives.pairs()
	if err != nil {
		return err
	}
	var platforms []string
	paths := map[string]string{}
	for _, p := range pairs {
		if paths[p.key] != "" {
			return fmt.Errorf("%s is there twice", p.key)
		}
		platforms = append(platforms, p.key)
		paths[p.key] = p.value
	}
	slices.Sort(platforms)
	var content bytes.Buffer
	if err := krew.Write(&content, *version, *base, platforms, paths); err != nil {
		return err
	}
	return os.WriteFile(*output, content.Bytes(), 0o644)
}
