// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"filippo.io/age"
)

// Writer writes an archive. What it has written is worthless until Close.
type Writer struct {
	encrypted io.WriteCloser
	tar       *tar.Writer
	created   time.Time
	sums      strings.Builder
	names     map[string]bool
}

// NewWriter begins an archive that the recipients can read.
func NewWriter(to io.Writer, manifest Manifest, recipients ...age.Recipient) (*Writer, error) {
	encrypted, err := age.Encrypt(to, recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypting the archive: %w", err)
	}
	manifest.Format = Format
	manifest.Version = Version
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest of the archive: %w", err)
	}
	w := &Writer{encrypted: encrypted, tar: tar.NewWriter(encrypted), created: manifest.Created, names: map[string]bool{sumsEntry: true}}
	text = append(text, '\n')
	return w, w.AddEntry(manifestEntry, int64(len(text)), bytes.NewReader(text))
}

// AddEntry adds an entry, whose content has to be of the size.
func (w *Writer) AddEntry(name string, size int64, content io.Reader) error {
	if !isEntryName(name) || w.names[name] {
		return fmt.Errorf("an archive cannot have the entry %q, or not twice", name)
	}
	w.names[name] = true
	sum := sha256.New()
	if err := w.writeEntry(name, size, io.TeeReader(content, sum)); err != nil {
		return err
	}
	w.sums.WriteString(sumLine(sum.Sum(nil), name))
	return nil
}

func (w *Writer) writeEntry(name string, size int64, content io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: entryMode, ModTime: w.created}
	if err := w.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("writing %q into the archive: %w", name, err)
	}
	written, err := io.Copy(w.tar, content)
	switch {
	case errors.Is(err, tar.ErrWriteTooLong), err == nil && written < size:
		return fmt.Errorf("writing %q into the archive: it is not of %d bytes, as it should be", name, size)
	case err != nil:
		return fmt.Errorf("writing %q into the archive: %w", name, err)
	}
	return nil
}

// Close completes the archive. It does not close what the archive is written to.
func (w *Writer) Close() error {
	sums := w.sums.String()
	if err := w.writeEntry(sumsEntry, int64(len(sums)), strings.NewReader(sums)); err != nil {
		return err
	}
	if err := w.tar.Close(); err != nil {
		return fmt.Errorf("completing the archive: %w", err)
	}
	if err := w.encrypted.Close(); err != nil {
		return fmt.Errorf("completing the encryption of the archive: %w", err)
	}
	return nil
}

// sumLine is a line of the last entry, as sha256sum writes it.
func sumLine(sum []byte, name string) string { return fmt.Sprintf("%x  %s\n", sum, name) }
