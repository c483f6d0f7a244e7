// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datadir puts restored data into the volume of a member of etcd, as the
// steps of a pod: it receives a snapshot, etcdutl makes data of it, and it puts
// them where the member looks for them. Each step can be repeated, and until the
// last one the data that were there stay as they are.
//
// It knows nothing of what a snapshot contains.
package datadir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// What a volume has in its directory.
const (
	// Data is where the member looks for its data.
	Data = "data"
	// Restored is where etcdutl writes them, and Snapshot what it makes them of.
	Restored = "restored"
	Snapshot = "snapshot"
	// Before has the data that were there before the restore.
	Before = "data-before-restore"

	fileMode = 0o600
)

// ReceiveSnapshot reads a snapshot of the size and SHA-256, and removes what an earlier
// restore may have left. It reads no more than that: the other side may stay.
func ReceiveSnapshot(from io.Reader, dir string, size int64, sum string) error {
	for _, leftover := range []string{Restored, Snapshot} {
		if err := os.RemoveAll(filepath.Join(dir, leftover)); err != nil {
			return fmt.Errorf("removing what an earlier restore has left: %w", err)
		}
	}
	file, err := os.OpenFile(filepath.Join(dir, Snapshot), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode) //nolint:gosec // in the volume
	if err != nil {
		return fmt.Errorf("creating the file of the snapshot: %w", err)
	}
	hash := sha256.New()
	read, err := io.Copy(io.MultiWriter(file, hash), io.LimitReader(from, size))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("receiving the snapshot, of which %d of %d bytes have come (is the volume large enough?): %w", read, size, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); read != size || got != sum {
		return fmt.Errorf("the snapshot that has come has %d bytes and the SHA-256 %s; sent were %d and %s", read, got, size, sum)
	}
	return nil
}

// PutRestoredData puts the restored data where the member looks for them. What is there is
// kept as Before; of a restore that is repeated, what was there at its beginning.
func PutRestoredData(dir string, again bool) error {
	data := filepath.Join(dir, Data)
	restored := filepath.Join(dir, Restored)
	before := filepath.Join(dir, Before)
	if _, err := os.Stat(restored); err != nil {
		return fmt.Errorf("looking for the restored data: %w", err)
	}
	kept := again && pathExists(before)
	if !kept {
		if err := os.RemoveAll(before); err != nil {
			return fmt.Errorf("removing what was kept of an earlier restore: %w", err)
		}
	}
	switch {
	case kept:
		if err := os.RemoveAll(data); err != nil {
			return fmt.Errorf("removing half-restored data: %w", err)
		}
	case pathExists(data):
		if err := os.Rename(data, before); err != nil {
			return fmt.Errorf("keeping the data that are there: %w", err)
		}
	}
	if err := os.Rename(restored, data); err != nil {
		return fmt.Errorf("putting the restored data where etcd looks for them: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, Snapshot)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the snapshot: %w", err)
	}
	return syncFolder(dir)
}

func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// syncFolder makes sure that the disk has the new names.
func syncFolder(dir string) error {
	opened, err := os.Open(dir) //nolint:gosec // the volume
	if err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	if err := errors.Join(opened.Sync(), opened.Close()); err != nil {
		return fmt.Errorf("writing %s to the disk: %w", dir, err)
	}
	return nil
}
