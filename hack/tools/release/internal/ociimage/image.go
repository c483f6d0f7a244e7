// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ociimage makes the image of a release for several platforms, without a
// container engine, a base image or a registry, and keeps it as an OCI layout
// that also has its signature.
package ociimage

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capstan-io/capstan/hack/tools/release/internal/archive"
)

const (
	// user is the user and group that containers run as.
	user = "65532:65532"
	// RootsPath is where Go and OpenSSL look for certificates of authorities.
	RootsPath = "etc/ssl/certs/ca-certificates.crt"
)

// Spec is what the images of all platforms have in common.
type Spec struct {
	// Programs are the names of the executables. Each has a layer of its own, so
	// that who has one of them need not fetch it again for another's change.
	Programs []string
	// Links are further names for the first of the programs.
	Links []string
	// Roots are the certificates of the authorities to trust, as PEM.
	Roots []byte
	// License is a file.
	License string
	Labels  map[string]string
	Date    time.Time
}

// Platform is where an image runs, and the directory with its executables.
type Platform struct {
	v1.Platform
	Dir string
}

// Image is the image for one platform. It has no entrypoint: what OCM's charts
// render names the program in the arguments.
func (s Spec) Image(platform Platform) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	layers := []layer{s.base()}
	for i, program := range s.Programs {
		l := layer{what: program, files: []archive.File{{Name: program, Source: filepath.Join(platform.Dir, program), Mode: 0o755}}}
		if i == 0 {
			for _, link := range s.Links {
				l.files = append(l.files, archive.File{Name: link, Link: "/" + program})
			}
		}
		layers = append(layers, l)
	}
	for _, l := range layers {
		addendum, err := l.pack(s.Date)
		if err != nil {
			return nil, fmt.Errorf("making the layer of %s: %w", l.what, err)
		}
		if img, err = mutate.Append(img, addendum); err != nil {
			return nil, fmt.Errorf("adding the layer of %s: %w", l.what, err)
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = v1.Time{Time: s.Date}
	config.Config = v1.Config{User: user, Labels: s.Labels}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(img, s.Labels).(v1.Image), nil
}

// layer is the content of one, and what its history says of it.
type layer struct {
	what  string
	files []archive.File
}

// base has what each program may need: certificates, a place for temporary files.
func (s Spec) base() layer {
	return layer{what: "certificates", files: append(directories(path.Dir(RootsPath)),
		archive.File{Name: RootsPath, Content: s.Roots, Mode: 0o644},
		archive.File{Name: "licenses/", Mode: 0o755},
		archive.File{Name: "licenses/LICENSE", Source: s.License, Mode: 0o644},
		archive.File{Name: "tmp/", Mode: 0o777 | fs.ModeSticky},
	)}
}

// directories are those above a file: what makes up for missing ones differs
// between engines.
func directories(dir string) []archive.File {
	if dir == "." {
		return nil
	}
	return append(directories(path.Dir(dir)), archive.File{Name: dir + "/", Mode: 0o755})
}

func (l layer) pack(date time.Time) (mutate.Addendum, error) {
	var content bytes.Buffer
	if err := archive.Tar(&content, l.files, date); err != nil {
		return mutate.Addendum{}, err
	}
	packed, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	return mutate.Addendum{
		Layer:   packed,
		History: v1.History{Created: v1.Time{Time: date}, CreatedBy: "make release", Comment: l.what},
	}, err
}

// Index makes one image for all platforms of theirs.
func Index(images map[string]v1.Image, platforms []Platform, annotations map[string]string) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range platforms {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        images[platform.String()],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant}},
		})
	}
	return mutate.Annotations(index, annotations).(v1.ImageIndex)
}
