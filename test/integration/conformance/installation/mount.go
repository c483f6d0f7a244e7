// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mount is a volume of a pod: an empty directory, or the files of a secret.
type mount struct {
	// path is where it is in the container, dir where it is on this machine.
	path, dir string
	// secret is whose files it has; empty for none.
	secret   client.ObjectKey
	optional bool
	found    bool
	data     map[string][]byte
}

// lacks reports whether the pod has to wait for the secret.
func (m mount) lacks() bool { return m.secret.Name != "" && !m.optional && !m.found }

// mountsOf returns the mounts of the container of a Deployment, those with
// longer paths first. /tmp is the same inside and outside.
func mountsOf(d *appsv1.Deployment, dir string) []mount {
	var mounts []mount
	for _, m := range d.Spec.Template.Spec.Containers[0].VolumeMounts {
		i := slices.IndexFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if m.MountPath == "/tmp" || i < 0 {
			continue
		}
		made := mount{path: m.MountPath, dir: filepath.Join(dir, m.Name)}
		if source := d.Spec.Template.Spec.Volumes[i].Secret; source != nil {
			made.secret = client.ObjectKey{Namespace: d.Namespace, Name: source.SecretName}
			made.optional = source.Optional != nil && *source.Optional
		}
		mounts = append(mounts, made)
	}
	slices.SortFunc(mounts, func(a, b mount) int { return cmp.Compare(len(b.path), len(a.path)) })
	return mounts
}

// latest is the link that all files of a volume go through.
const latest = "..data"

// layOut makes the files of a volume, all at once, as a kubelet does: they are
// links through one that is replaced.
func layOut(dir string, data map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	version, err := os.MkdirTemp(dir, "..version-")
	if err != nil {
		return err
	}
	for key, value := range data {
		if err := os.WriteFile(filepath.Join(version, key), value, 0o600); err != nil {
			return err
		}
	}
	next := filepath.Join(dir, "..next")
	if err := errors.Join(os.Symlink(filepath.Base(version), next), os.Rename(next, filepath.Join(dir, latest))); err != nil {
		return fmt.Errorf("replacing the files in %s: %w", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, there := data[entry.Name()]; !there && entry.Type() == fs.ModeSymlink && entry.Name() != latest {
			err = errors.Join(err, os.Remove(filepath.Join(dir, entry.Name())))
		}
	}
	for key := range data {
		if link := os.Symlink(filepath.Join(latest, key), filepath.Join(dir, key)); !errors.Is(link, fs.ErrExist) {
			err = errors.Join(err, link)
		}
	}
	return err
}
