// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package archive is the format of a backup of a dedicated hub: one file that
// only the holder of a key can read, and that is read whole or not at all.
//
// It is a tar file, encrypted by age (https://age-encryption.org/v1). Its first
// entry, manifest.json, says what the archive is, and its last one, sha256sums,
// lists all others with their hashes. An archive without that entry is not
// complete. So the tools age, tar and sha256sum read it without Capstan.
//
// The package knows nothing of what the entries contain. Nor does it tell who has
// written an archive: whoever knows a recipient can write one for it.
package archive

import "time"

const (
	// Format is that of all archives.
	Format = "capstan-hub-backup"
	// Version is that of the archives that this package writes. It reads no newer ones.
	Version = 1

	manifestEntry = "manifest.json"
	sumsEntry     = "sha256sums"

	entryMode = 0o600
)

// Manifest says what an archive contains, and from when.
type Manifest struct {
	// Format and Version are set by the Writer.
	Format  string `json:"format"`
	Version int    `json:"version"`
	// CreatedBy is the release of Capstan that has written the archive.
	CreatedBy string    `json:"createdBy"`
	Created   time.Time `json:"created"`

	// Hub and Namespace are those of the hub's ControlPlane.
	Hub               string `json:"hub"`
	Namespace         string `json:"namespace"`
	KubernetesVersion string `json:"kubernetesVersion"`
	// EtcdRevision is one that the snapshot of etcd contains. It may contain a few
	// later ones, too.
	EtcdRevision int64 `json:"etcdRevision"`
}
