// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/capstan-io/capstan/hack/tools/release/internal/checksums"
	"github.com/capstan-io/capstan/hack/tools/release/internal/ociimage"
	"github.com/capstan-io/capstan/hack/tools/release/internal/signing"
)

// publicKeyName is the file with the public key of a release. It is no proof of
// anything where it lies: users compare it with the one that the project shows.
const publicKeyName = "cosign.pub"

// digestName is the file with the name and digest of the image of a release.
const digestName = "image-digest.txt"

func runSums(_ context.Context, out io.Writer, flags *flag.FlagSet, args []string) error {
	dir := flags.String("dir", "", "directory of the release")
	keyPath := flags.String("key", "", "private key of cosign to sign with; its password is in COSIGN_PASSWORD")
	if err := parse(flags, args, "dir"); err != nil {
		return err
	}
	key, err := loadKey(*keyPath)
	if err != nil {
		return err
	}
	sums, err := checksums.Make(*dir, publicKeyName)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(*dir, checksums.Name), sums, 0o644); err != nil {
		return err
	}
	if key == nil {
		fmt.Fprintf(out, "NOT SIGNED: %s; set SIGNING_KEY to a private key of cosign to sign it\n", checksums.Name)
		return nil
	}
	signature, err := key.Sign(sums)
	if err != nil {
		return err
	}
	public, err := key.Public()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "signed %s\n", checksums.Name)
	return errors.Join(
		os.WriteFile(filepath.Join(*dir, checksums.SignatureName), []byte(signature+"\n"), 0o644),
		os.WriteFile(filepath.Join(*dir, publicKeyName), public, 0o644))
}

func runVerify(_ context.Context, out io.Writer, flags *flag.FlagSet, args []string) error {
	dir := flags.String("dir", "", "directory of the release")
	layout := flags.String("layout", "", "directory with the OCI layout, if it is there")
	key := flags.String("key", "", "public key; without one, checksums and digests are verified only")
	if err := parse(flags, args, "dir"); err != nil {
		return err
	}
	if err := checksums.Verify(*dir, publicKeyName); err != nil {
		return err
	}
	fmt.Fprintln(out, "all files are as", checksums.Name, "says")
	var verifier *signing.Verifier
	if *key != "" {
		public, err := os.ReadFile(*key)
		if err != nil {
			return err
		}
		loaded, err := signing.NewVerifier(public)
		if err != nil {
			return err
		}
		verifier = &loaded
		if err := verifySums(*dir, loaded); err != nil {
			return err
		}
		fmt.Fprintln(out, checksums.Name, "is signed with this key")
	}
	if *layout == "" {
		return nil
	}
	return verifyImage(out, *dir, *layout, verifier)
}

func verifySums(dir string, verifier signing.Verifier) error {
	sums, err := os.ReadFile(filepath.Join(dir, checksums.Name))
	if err != nil {
		return err
	}
	signature, err := os.ReadFile(filepath.Join(dir, checksums.SignatureName))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is not signed", checksums.Name)
	}
	if err != nil {
		return err
	}
	if err := verifier.Verify(sums, strings.TrimSpace(string(signature))); err != nil {
		return fmt.Errorf("%s is not signed with this key: %w", checksums.Name, err)
	}
	return nil
}

// verifyImage verifies the layout, which has no checksum itself, with what the
// release, whose checksums have been verified, says about it.
func verifyImage(out io.Writer, dir, layoutDir string, verifier *signing.Verifier) error {
	layout, image, err := openReleased(dir, layoutDir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the blobs of %s are as their digests say\n", image)
	if verifier == nil {
		return nil
	}
	signature, err := layout.Signature()
	if err != nil {
		return err
	}
	if signature == nil {
		return fmt.Errorf("%s is not signed", image)
	}
	if err := verifier.VerifyImage(image, signature.Payload, signature.Signature); err != nil {
		return fmt.Errorf("%s is not signed with this key: %w", image, err)
	}
	fmt.Fprintf(out, "%s is signed with this key\n", image)
	return nil
}

// openReleased opens the layout with the image of a release.
func openReleased(dir, layoutDir string) (*ociimage.Layout, name.Digest, error) {
	layout, err := ociimage.Open(layoutDir)
	if err != nil {
		return nil, name.Digest{}, err
	}
	index, tag, err := layout.Image()
	if err != nil {
		return nil, name.Digest{}, err
	}
	digest, err := index.Digest()
	if err != nil {
		return nil, name.Digest{}, err
	}
	image := tag.Digest(digest.String())
	return layout, image, checkReleased(dir, layoutDir, image)
}

// checkReleased fails if the image of a layout is not that of the release: another
// one can be signed with the same key.
func checkReleased(dir, layoutDir string, image name.Digest) error {
	content, err := os.ReadFile(filepath.Join(dir, digestName))
	if err != nil {
		return fmt.Errorf("reading which image was released: %w", err)
	}
	if released := strings.TrimSpace(string(content)); released != image.Name() {
		return fmt.Errorf("%s has the image %s, but %s says that %s was released: unpack the image of this release again",
			layoutDir, image.Name(), filepath.Join(dir, digestName), released)
	}
	return nil
}

func runKeys(_ context.Context, out io.Writer, flags *flag.FlagSet, args []string) error {
	dir := flags.String("dir", ".", "directory to write cosign.key and cosign.pub to")
	if err := parse(flags, args); err != nil {
		return err
	}
	password, set := os.LookupEnv("COSIGN_PASSWORD")
	if !set {
		return errors.New("COSIGN_PASSWORD is not set: the private key is encrypted with it")
	}
	private, public, err := signing.Generate([]byte(password))
	if err != nil {
		return err
	}
	path := filepath.Join(*dir, "cosign.key")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(private)
	if err := errors.Join(err, file.Close(), os.WriteFile(filepath.Join(*dir, publicKeyName), public, 0o644)); err != nil {
		return err
	}
	fmt.Fprintf(out, "wrote %s, which nobody else may have, and %s, which everybody should\n", path, publicKeyName)
	return nil
}
