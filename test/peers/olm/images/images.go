// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images makes images of the files of a directory, such as bundles and
// catalogs, under a name with their digest: what OLM knows by a tag it pulls, whether
// it is there or not.
package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nameAnnotation is where containerd finds the name of an image that it imports.
const nameAnnotation = "io.containerd.image.name"

// user owns the files and runs whatever runs: OLM's pods have this user.
const user = 1001

// Source is a directory that becomes an image of a repository.
type Source struct{ Repository, Directory string }

// Write makes an image of each directory and writes all to one archive. It returns
// their names, with their digests.
func Write(archive string, sources ...Source) ([]string, error) {
	work, err := os.MkdirTemp("", "images-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(work) }() // it is in the folder for temporary files
	index, err := layout.Write(work, empty.Index)
	if err != nil {
		return nil, fmt.Errorf("beginning the archive %s: %w", archive, err)
	}
	var names []string
	for _, source := range sources {
		name, err := add(index, source)
		if err != nil {
			return nil, fmt.Errorf("making the image %s of %s: %w", source.Repository, source.Directory, err)
		}
		names = append(names, name)
	}
	content, err := packed(os.DirFS(work))
	if err != nil {
		return nil, fmt.Errorf("writing the archive %s: %w", archive, err)
	}
	return names, os.WriteFile(archive, content, 0o644)
}

func add(index layout.Path, source Source) (string, error) {
	image, err := build(source.Directory)
	if err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	name := source.Repository + "@" + digest.String()
	return name, index.AppendImage(image, layout.WithAnnotations(map[string]string{nameAnnotation: name}))
}

func build(directory string) (v1.Image, error) {
	content, err := packed(os.DirFS(directory))
	if err != nil {
		return nil, err
	}
	oci := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(oci, static.NewLayer(content, types.OCIUncompressedLayer))
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{User: strconv.Itoa(user)}
	return mutate.ConfigFile(image, config)
}

// packed returns the files as a tar archive, which depends on nothing but their
// names, content and modes: a cache of a catalog is valid with its modes only.
func packed(files fs.FS) ([]byte, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		header := tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Uid: user, Gid: user}
		if entry.IsDir() {
			header.Typeflag, header.Name = tar.TypeDir, name+"/"
			return archive.WriteHeader(&header)
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err != nil {
		return nil, err
	}
	return buffer.Bytes(), archive.Close()
}
