// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image makes container images of static executables, without a
// registry, a base image or a container engine.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// user is the user and group that containers run as.
const user = "65532:65532"

// File is a file of the host and its place in the image.
type File struct {
	Source, Target string
}

// ParseFile reads a file in the form source:target.
func ParseFile(s string) (File, error) {
	source, target, found := strings.Cut(s, ":")
	if !found || source == "" || !path.IsAbs(target) {
		return File{}, fmt.Errorf("file %q is not of the form source:/target", s)
	}
	return File{Source: source, Target: path.Clean(target)}, nil
}

// Spec describes an image.
type Spec struct {
	// Binary is the static executable that containers run. It is put in the
	// root directory of the image.
	Binary string
	// References are the names and tags of the image, of which it has one or
	// more.
	References []string
	// Files are put in the image beside the executable.
	Files []File
	// Links are the paths of symbolic links to the executable, for one that
	// does different things under different names. A path is taken from the
	// root directory of the image, with or without a leading slash.
	Links []string
	// NoEntrypoint leaves it to the pod to name the program: images that are
	// run with all of the command in args have none.
	NoEntrypoint bool
}

// Write makes an image and writes it to a file, as an archive that containerd
// and docker load. The same input gives the same image.
func Write(spec Spec, output string) error {
	img, err := build(spec)
	if err != nil {
		return fmt.Errorf("build image of %s: %w", spec.Binary, err)
	}
	images := make(map[name.Tag]v1.Image, len(spec.References))
	for _, reference := range spec.References {
		tag, err := name.NewTag(reference)
		if err != nil {
			return fmt.Errorf("read image reference: %w", err)
		}
		images[tag] = img
	}
	if err := tarball.MultiWriteToFile(output, images); err != nil {
		return fmt.Errorf("write image %s: %w", strings.Join(spec.References, ", "), err)
	}
	return nil
}

func build(spec Spec) (v1.Image, error) {
	executable := File{Source: spec.Binary, Target: "/" + filepath.Base(spec.Binary)}
	content, err := archive(append([]File{executable}, spec.Files...), spec.Links, executable.Target)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithCompressionLevel(gzip.NoCompression)) // it goes no further than this machine
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS = "linux"
	config.Architecture = runtime.GOARCH
	config.Config = v1.Config{User: user}
	if !spec.NoEntrypoint {
		config.Config.Entrypoint = []string{executable.Target}
	}
	return mutate.ConfigFile(img, config)
}

// archive returns the files, and the links to one of them, as a tar archive,
// with a directory for temporary files, which an image otherwise empty would
// lack.
func archive(files []File, links []string, linked string) ([]byte, error) {
	var buffer bytes.Buffer
	a := archiver{Writer: tar.NewWriter(&buffer), taken: map[string]bool{}}
	if err := a.addDir("/tmp", 0o1777); err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := a.addFile(file); err != nil {
			return nil, fmt.Errorf("add %s: %w", file.Source, err)
		}
	}
	for _, link := range links {
		if err := a.addLink(path.Join("/", link), linked); err != nil {
			return nil, fmt.Errorf("add link %q: %w", link, err)
		}
	}
	if err := a.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// archiver writes an archive that has every path once, and the directories
// above it first: what makes up for missing ones differs between engines.
type archiver struct {
	*tar.Writer
	taken map[string]bool
}

func (a *archiver) addFile(file File) error {
	info, err := os.Stat(file.Source)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file.Source)
	if err != nil {
		return err
	}
	// The owner is root and the modes are plain whatever the umask of the
	// host was, so that the image does not depend on it.
	mode := int64(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	if err := a.add(file.Target, tar.Header{Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err = a.Write(content)
	return err
}

func (a *archiver) addLink(link, target string) error {
	return a.add(link, tar.Header{Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777})
}

func (a *archiver) addDir(dir string, mode int64) error {
	return a.add(dir, tar.Header{Typeflag: tar.TypeDir, Mode: mode})
}

// add writes a header for an absolute path.
func (a *archiver) add(target string, header tar.Header) error {
	if target == "/" || a.taken[target] {
		return fmt.Errorf("the image has %s already", target)
	}
	if dir := path.Dir(target); dir != "/" && !a.taken[dir] {
		if err := a.addDir(dir, 0o755); err != nil {
			return err
		}
	}
	a.taken[target] = true
	header.Name = strings.TrimPrefix(target, "/")
	if header.Typeflag == tar.TypeDir {
		header.Name += "/"
	}
	return a.WriteHeader(&header)
}
