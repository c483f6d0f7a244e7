// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capstan-io/capstan/hack/tools/release/internal/checksums"
	"github.com/capstan-io/capstan/hack/tools/release/internal/ociimage"
	"github.com/capstan-io/capstan/hack/tools/release/internal/signing"
)

// imageOptions are the flags of "image".
type imageOptions struct {
	reference, layout, archive, docker, digest, version, commit, license string
	key                                                                  string
	platforms, programs, links                                           list
}

func runImage(_ context.Context, out io.Writer, flags *flag.FlagSet, args []string) error {
	var o imageOptions
	flags.StringVar(&o.reference, "ref", "", "name and tag of the image")
	flags.StringVar(&o.layout, "layout", "", "directory to write the OCI layout to")
	flags.StringVar(&o.archive, "archive", "", "file to write the OCI layout to as an archive")
	flags.StringVar(&o.docker, "docker", "", "beginning of the names of archives for docker, one for each platform; none if empty")
	flags.StringVar(&o.digest, "digest", "", "file to write the name and digest of the image to")
	flags.StringVar(&o.version, "version", "", "version of the release")
	flags.StringVar(&o.commit, "commit", "", "commit of the release")
	flags.StringVar(&o.license, "license", "LICENSE", "file with the license")
	flags.StringVar(&o.key, "key", "", "private key of cosign to sign with; its password is in COSIGN_PASSWORD")
	flags.Var(&o.platforms, "platform", "platform=directory with its executables, such as linux/arm64=bin/linux-arm64; can be given more than once")
	flags.Var(&o.programs, "program", "executable in these directories; can be given more than once")
	flags.Var(&o.links, "link", "link to the first program; can be given more than once")
	if err := parse(flags, args, "ref", "layout", "archive", "digest", "version", "commit", "platform", "program"); err != nil {
		return err
	}
	date, err := sourceDate()
	if err != nil {
		return err
	}
	return o.write(out, date)
}

func (o *imageOptions) write(out io.Writer, date time.Time) error {
	tag, err := name.NewTag(o.reference)
	if err != nil {
		return err
	}
	spec, err := o.spec(date)
	if err != nil {
		return err
	}
	pairs, err := o.platforms.pairs()
	if err != nil {
		return err
	}
	platforms := make([]ociimage.Platform, 0, len(pairs))
	images := make(map[string]v1.Image, len(pairs))
	for _, p := range pairs {
		parsed, err := v1.ParsePlatform(p.key)
		if err != nil {
			return err
		}
		platform := ociimage.Platform{Platform: *parsed, Dir: p.value}
		image, err := spec.Image(platform)
		if err != nil {
			return fmt.Errorf("making the image for %s: %w", p.key, err)
		}
		platforms = append(platforms, platform)
		images[platform.String()] = image
		if o.docker == "" {
			continue
		}
		archive := o.docker + strings.ReplaceAll(p.key, "/", "-") + ".docker.tar"
		if err := tarball.WriteToFile(archive, tag, image); err != nil {
			return fmt.Errorf("writing %s: %w", archive, err)
		}
	}
	index := ociimage.Index(images, platforms, spec.Labels)
	layout, err := ociimage.Create(o.layout, tag, index)
	if err != nil {
		return fmt.Errorf("writing the OCI layout %s: %w", o.layout, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := o.sign(out, layout, tag.Digest(digest.String()), date); err != nil {
		return err
	}
	if err := os.WriteFile(o.digest, []byte(tag.Digest(digest.String()).Name()+"\n"), 0o644); err != nil {
		return err
	}
	return layout.Archive(o.archive, date)
}

func (o *imageOptions) spec(date time.Time) (ociimage.Spec, error) {
	roots, err := ociimage.Roots()
	return ociimage.Spec{
		Programs: o.programs, Links: o.links, Roots: roots, License: o.license, Date: date,
		Labels: map[string]string{
			"org.opencontainers.image.title":         "Capstan",
			"org.opencontainers.image.description":   "Manages a fleet of Kubernetes clusters from one hub: operators, controllers, agents and the aggregated API server",
			"org.opencontainers.image.vendor":        "The Capstan Authors",
			"org.opencontainers.image.licenses":      "Apache-2.0",
			"org.opencontainers.image.version":       o.version,
			"org.opencontainers.image.revision":      o.commit,
			"org.opencontainers.image.created":       date.Format(time.RFC3339),
			"org.opencontainers.image.source":        "https://github.com/capstan-io/capstan",
			"org.opencontainers.image.url":           "https://github.com/capstan-io/capstan",
			"org.opencontainers.image.documentation": "https://github.com/capstan-io/capstan/blob/main/README.md",
		},
	}, err
}

func (o *imageOptions) sign(out io.Writer, layout *ociimage.Layout, image name.Digest, date time.Time) error {
	key, err := loadKey(o.key)
	if err != nil {
		return err
	}
	if key == nil {
		fmt.Fprintf(out, "NOT SIGNED: %s; set SIGNING_KEY to a private key of cosign to sign it\n", image)
		return nil
	}
	payload, err := signing.ImagePayload(image)
	if err != nil {
		return err
	}
	signature, err := key.Sign(payload)
	if err != nil {
		return fmt.Errorf("signing %s: %w", image, err)
	}
	fmt.Fprintf(out, "signed %s\n", image)
	return layout.Sign(ociimage.Signature{Payload: payload, Signature: signature}, date)
}

// loadKey returns nil if there is no key.
func loadKey(path string) (*signing.Key, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := signing.Load(content, []byte(os.Getenv("COSIGN_PASSWORD")))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

func runPush(ctx context.Context, out io.Writer, flags *flag.FlagSet, args []string) error {
	layoutDir := flags.String("layout", "", "directory with the OCI layout")
	dir := flags.String("dir", "", "directory of the release; that with the layout if empty")
	to := flags.String("to", "", "name and tag to push to; that of the image if empty")
	if err := parse(flags, args, "layout"); err != nil {
		return err
	}
	if *dir == "" {
		*dir = filepath.Dir(filepath.Clean(*layoutDir))
	}
	if err := checksums.Verify(*dir, publicKeyName); err != nil {
		return err
	}
	layout, _, err := openReleased(*dir, *layoutDir)
	if err != nil {
		return err
	}
	index, tag, err := layout.Image()
	if err != nil {
		return err
	}
	if *to != "" {
		if tag, err = name.NewTag(*to); err != nil {
			return err
		}
	}
	return push(ctx, out, layout, index, tag)
}

// push pushes an image and, if it is signed, its signature.
func push(ctx context.Context, out io.Writer, layout *ociimage.Layout, index v1.ImageIndex, tag name.Tag) error {
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.WriteIndex(tag, index, options...); err != nil {
		return fmt.Errorf("pushing %s: %w", tag, err)
	}
	fmt.Fprintf(out, "pushed %s\n", tag.Digest(digest.String()))
	signature, err := layout.SignatureImage()
	if err != nil {
		return err
	}
	if signature == nil {
		fmt.Fprintln(out, "there is no signature to push: the image was not signed when it was made")
		return nil
	}
	beside := tag.Context().Tag(digest.Algorithm + "-" + digest.Hex + ".sig")
	if err := remote.Write(beside, signature, options...); err != nil {
		return fmt.Errorf("pushing the signature %s: %w", beside, err)
	}
	fmt.Fprintf(out, "pushed its signature, %s\n", beside)
	return nil
}
