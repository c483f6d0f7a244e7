// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package archive writes archives whose bytes depend on names, modes and
// contents of files only: entries are sorted, owned by root, and all of one time.
package archive

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// File is a file of an archive: a regular one, a directory, or a link.
type File struct {
	// Name is its path in the archive, with slashes; that of a directory ends
	// with one.
	Name string
	// Source is the file with its content.
	Source string
	// Content is used if there is no Source.
	Content []byte
	Mode    fs.FileMode
	// Link is what a symbolic link points to.
	Link string
}

// Write writes an archive, in the format that its name ends with.
func Write(output string, files []File, date time.Time) (err error) {
	write := TarGzip
	switch {
	case strings.HasSuffix(output, ".zip"):
		write = Zip
	case strings.HasSuffix(output, ".tar"):
		write = Tar
	case !strings.HasSuffix(output, ".tar.gz") && !strings.HasSuffix(output, ".tgz"):
		return fmt.Errorf("%s: there are .tar, .tar.gz, .tgz and .zip only", output)
	}
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := write(file, files, date); err != nil {
		return fmt.Errorf("writing %s: %w", output, err)
	}
	return nil
}

// Tree returns the regular files below a directory, with a prefix before their
// names.
func Tree(dir, prefix string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files = append(files, File{Name: prefix + filepath.ToSlash(name), Source: path})
		return nil
	})
	return files, err
}

// prepare sorts files, gives them plain modes whatever the umask of the host
// was, and refuses a name that is there twice or leads out of the archive.
func prepare(files []File) ([]File, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for i, file := range files {
		name := strings.TrimSuffix(file.Name, "/")
		if !fs.ValidPath(name) || name == "." || path.Clean(name) != name {
			return nil, fmt.Errorf("%q is no name for a file in an archive", file.Name)
		}
		if i > 0 && files[i-1].Name == file.Name {
			return nil, fmt.Errorf("%s is there twice", file.Name)
		}
		if file.Source == "" {
			continue
		}
		info, err := os.Stat(file.Source)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is no regular file", file.Source)
		}
		if file.Mode == 0 {
			files[i].Mode = 0o644
			if info.Mode()&0o100 != 0 {
				files[i].Mode = 0o755
			}
		}
	}
	return files, nil
}

func (f File) content() ([]byte, error) {
	if f.Source == "" {
		return f.Content, nil
	}
	return os.ReadFile(f.Source)
}

// Tar writes a tar archive.
func Tar(out io.Writer, files []File, date time.Time) error {
	files, err := prepare(files)
	if err != nil {
		return err
	}
	writer := tar.NewWriter(out)
	for _, file := range files {
		content, err := file.content()
		if err != nil {
			return err
		}
		header := tar.Header{
			Typeflag: tar.TypeReg, Name: file.Name, Mode: int64(file.Mode.Perm()), Size: int64(len(content)),
			ModTime: date, Format: tar.FormatPAX,
		}
		if file.Mode&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		switch {
		case file.Link != "":
			header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, file.Link, 0o777
		case strings.HasSuffix(file.Name, "/"):
			header.Typeflag = tar.TypeDir
		}
		if err := writer.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := writer.Write(content); err != nil {
			return err
		}
	}
	return writer.Close()
}

// TarGzip writes a compressed tar archive.
func TarGzip(out io.Writer, files []File, date time.Time) error {
	compressed := gzip.NewWriter(out)
	if err := Tar(compressed, files, date); err != nil {
		return err
	}
	return compressed.Close()
}

// Zip writes a zip archive. It cannot have links.
func Zip(out io.Writer, files []File, date time.Time) error {
	files, err := prepare(files)
	if err != nil {
		return err
	}
	writer := zip.NewWriter(out)
	for _, file := range files {
		if file.Link != "" {
			return fmt.Errorf("%s is a link, which not everybody can unpack", file.Name)
		}
		content, err := file.content()
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: file.Name, Method: zip.Deflate, Modified: date.UTC()}
		header.SetMode(file.Mode)
		entry, err := writer.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(content); err != nil {
			return err
		}
	}
	return writer.Close()
}
