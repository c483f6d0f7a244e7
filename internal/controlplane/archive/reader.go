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
	"path"
	"path/filepath"
	"strings"

	"filippo.io/age"
)

const (
	// smallMax limits the entries of the format itself, which are read into memory.
	smallMax = 1 << 20
	// tarBlock is the unit of tar: its end is two empty blocks.
	tarBlock = 512
)

// Archive is one that was verified whole.
type Archive struct {
	Manifest Manifest
	// Entries are in the order in which they were written.
	Entries []Entry

	plain io.ReaderAt
}

// Entry is a file in an archive.
type Entry struct {
	Name string
	Size int64

	offset int64
}

// EntryContent returns what is in an entry; nil if there is none of the name.
func (a *Archive) EntryContent(name string) *io.SectionReader {
	for _, entry := range a.Entries {
		if entry.Name == name {
			return io.NewSectionReader(a.plain, entry.offset, entry.Size)
		}
	}
	return nil
}

// OpenArchive reads an archive with one of the identities. It returns one only if all of
// it is there and as it was written.
func OpenArchive(from io.ReaderAt, size int64, identities ...age.Identity) (*Archive, error) {
	plain, length, err := age.DecryptReaderAt(from, size, identities...)
	var noMatch *age.NoIdentityMatchError
	switch {
	case errors.As(err, &noMatch):
		return nil, errors.New("the key does not open it: it was encrypted for another one, or with another passphrase")
	case err != nil && !isEncrypted(from):
		return nil, errors.New("it is not an archive of \"capstan backup\": it is not encrypted by age")
	case err != nil:
		return nil, wrapDamaged(err)
	}
	v := &verification{plain: io.NewSectionReader(plain, 0, length)}
	v.tar = tar.NewReader(v.plain)
	a := &Archive{plain: plain}
	if a.Manifest, err = v.readManifest(); err != nil {
		return nil, err
	}
	if a.Entries, err = v.readEntries(); err != nil {
		return nil, err
	}
	return a, nil
}

// isEncrypted reports whether a file begins as those of age do.
func isEncrypted(file io.ReaderAt) bool {
	const magic = "age-encryption.org/v1\n"
	begin := make([]byte, len(magic))
	n, _ := file.ReadAt(begin, 0) // what cannot be read does not begin so
	return string(begin[:n]) == magic
}

func wrapDamaged(err error) error {
	return fmt.Errorf("it is damaged, cut off or altered: %w", err)
}

// verification reads a whole archive once.
type verification struct {
	plain *io.SectionReader
	tar   *tar.Reader
	// sums is what the last entry has to be.
	sums strings.Builder
}

// readManifest reads the first entry. What the archive says to be is looked at before
// anything else: of another format, nothing else can be expected.
func (v *verification) readManifest() (Manifest, error) {
	const other = "it is not an archive of \"capstan backup\": it is encrypted by age, but begins with no manifest of one"
	header, err := v.tar.Next()
	if err != nil || header.Name != manifestEntry || header.Size > smallMax {
		return Manifest{}, errors.New(other)
	}
	text, err := io.ReadAll(v.tar)
	if err != nil {
		return Manifest{}, wrapDamaged(err)
	}
	manifest := Manifest{}
	if err := json.Unmarshal(text, &manifest); err != nil || manifest.Format != Format {
		return Manifest{}, errors.New(other)
	}
	if manifest.Version != Version {
		return Manifest{}, fmt.Errorf("it is of version %d of the format, and this capstan reads version %d: use the release that has written it (%s) or a newer one",
			manifest.Version, Version, manifest.CreatedBy)
	}
	v.sums.WriteString(sumLine(sha256Sum(text), manifestEntry))
	return manifest, nil
}

// readEntries reads all others, and that nothing follows them.
func (v *verification) readEntries() ([]Entry, error) {
	var list []Entry
	seen := map[string]bool{manifestEntry: true}
	for {
		header, err := v.tar.Next()
		if errors.Is(err, io.EOF) {
			err = errors.New("it ends before its last entry")
		}
		if err != nil {
			return nil, wrapDamaged(err)
		}
		if header.Name == sumsEntry {
			return list, v.verifyEnd(header.Size)
		}
		if header.Typeflag != tar.TypeReg || !isEntryName(header.Name) || seen[header.Name] {
			return nil, wrapDamaged(fmt.Errorf("it has an entry %q that no archive has, or twice", header.Name))
		}
		seen[header.Name] = true
		// The reader of tar reads whole blocks, and so stands where the content begins.
		offset, err := v.plain.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, wrapDamaged(err)
		}
		content := sha256.New()
		if _, err := io.Copy(content, v.tar); err != nil {
			return nil, wrapDamaged(err)
		}
		// In a sparse file of tar, the content is not what stands in the archive.
		if at, err := v.plain.Seek(0, io.SeekCurrent); err != nil || at != offset+header.Size {
			return nil, wrapDamaged(fmt.Errorf("entry %q is not stored as it is", header.Name))
		}
		v.sums.WriteString(sumLine(content.Sum(nil), header.Name))
		list = append(list, Entry{Name: header.Name, Size: header.Size, offset: offset})
	}
}

// verifyEnd reads the last entry, which has to be what was computed, and the end.
func (v *verification) verifyEnd(size int64) error {
	want := v.sums.String()
	if size != int64(len(want)) {
		return wrapDamaged(errors.New("its list of entries is not that of its entries"))
	}
	got, err := io.ReadAll(v.tar)
	if err != nil {
		return wrapDamaged(err)
	}
	if string(got) != want {
		return wrapDamaged(errors.New("its list of entries is not that of its entries"))
	}
	if _, err := v.tar.Next(); !errors.Is(err, io.EOF) {
		return wrapDamaged(errors.New("something follows its last entry"))
	}
	rest, err := io.ReadAll(io.LimitReader(v.plain, tarBlock))
	if err != nil {
		return wrapDamaged(err)
	}
	if len(bytes.Trim(rest, "\x00")) > 0 {
		return wrapDamaged(errors.New("something follows its end"))
	}
	return nil
}

func sha256Sum(data []byte) []byte {
	s := sha256.Sum256(data)
	return s[:]
}

// isEntryName reports whether a name can be that of an entry: whoever unpacks an
// archive must not write outside of the folder.
func isEntryName(name string) bool {
	return name != "" && name != "." && path.Clean(name) == name && filepath.IsLocal(name) && !strings.ContainsAny(name, "\n\\")
}
