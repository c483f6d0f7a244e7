// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/capstan-io/capstan/hack/tools/release/internal/archive"
)

// Annotations by which cosign finds an image and its signatures in a layout that
// it has not made itself, and the type of what it signs.
const (
	kindAnnotation      = "kind"
	indexKind           = "dev.cosignproject.cosign/imageIndex"
	signaturesKind      = "dev.cosignproject.cosign/sigs"
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	signedType          = "application/vnd.dev.cosign.simplesigning.v1+json"
)

// Names under which tools take an image out of a layout: the first is the
// standard's, a tag; the second containerd's, all of the name.
const (
	referenceAnnotation  = "org.opencontainers.image.ref.name"
	containerdAnnotation = "io.containerd.image.name"
)

// Layout is an OCI layout with one image for several platforms.
type Layout struct{ path layout.Path }

// Create makes a layout in place of what the directory had.
func Create(dir string, tag name.Tag, index v1.ImageIndex) (*Layout, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return nil, err
	}
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		kindAnnotation:       indexKind,
		referenceAnnotation:  tag.TagStr(),
		containerdAnnotation: tag.Name(),
	}))
	return &Layout{path: path}, err
}

// Open opens a layout that Create has made.
func Open(dir string) (*Layout, error) {
	path, err := layout.FromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the OCI layout %s: %w", dir, err)
	}
	return &Layout{path: path}, nil
}

// find returns the entry of a kind, or nil.
func (l *Layout) find(kind string) (*v1.Descriptor, error) {
	root, err := l.path.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, descriptor := range manifest.Manifests {
		if descriptor.Annotations[kindAnnotation] == kind {
			return &descriptor, nil
		}
	}
	return nil, nil
}

// Image returns the image, whose blobs are as their digests say, and its name.
func (l *Layout) Image() (v1.ImageIndex, name.Tag, error) {
	descriptor, err := l.find(indexKind)
	if err != nil {
		return nil, name.Tag{}, err
	}
	if descriptor == nil {
		return nil, name.Tag{}, fmt.Errorf("the layout %s has no image", l.path)
	}
	tag, err := name.NewTag(descriptor.Annotations[containerdAnnotation])
	if err != nil {
		return nil, name.Tag{}, err
	}
	index, err := l.path.ImageIndex()
	if err != nil {
		return nil, name.Tag{}, err
	}
	if index, err = index.ImageIndex(descriptor.Digest); err != nil {
		return nil, name.Tag{}, err
	}
	if err := validate.Index(index); err != nil {
		return nil, name.Tag{}, fmt.Errorf("the image in %s is damaged: %w", l.path, err)
	}
	return index, tag, nil
}

// Signature is a signature and what it signs.
type Signature struct {
	Payload   []byte
	Signature string // base64
}

// Sign adds a signature. Its manifest is the one that cosign pushes beside the
// image, so it goes to a registry as it is.
func (l *Layout) Sign(signature Signature, date time.Time) error {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(img, mutate.Addendum{
		Layer:       static.NewLayer(signature.Payload, signedType),
		Annotations: map[string]string{signatureAnnotation: signature.Signature},
	})
	if err != nil {
		return err
	}
	if img, err = mutate.CreatedAt(img, v1.Time{Time: date}); err != nil {
		return err
	}
	return l.path.AppendImage(img, layout.WithAnnotations(map[string]string{kindAnnotation: signaturesKind}))
}

// SignatureImage returns the manifest of the signature, or nil if nobody signed.
func (l *Layout) SignatureImage() (v1.Image, error) {
	descriptor, err := l.find(signaturesKind)
	if err != nil || descriptor == nil {
		return nil, err
	}
	return l.path.Image(descriptor.Digest)
}

// Signature returns the signature, or nil if nobody signed.
func (l *Layout) Signature() (*Signature, error) {
	img, err := l.SignatureImage()
	if err != nil || img == nil {
		return nil, err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != signedType {
		return nil, errors.New("the signature of the image is not of cosign's form")
	}
	payload, err := l.path.Bytes(manifest.Layers[0].Digest)
	if err != nil {
		return nil, err
	}
	return &Signature{Payload: payload, Signature: manifest.Layers[0].Annotations[signatureAnnotation]}, nil
}

// Archive writes the layout as one file, which containerd imports.
func (l *Layout) Archive(output string, date time.Time) error {
	files, err := archive.Tree(string(l.path), "")
	if err != nil {
		return err
	}
	return archive.Write(output, files, date)
}
