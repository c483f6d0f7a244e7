// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/controlplane/archive"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// Names of the entries of an archive. The objects are as "kubectl create" takes
// them, and the snapshot is as "etcdutl snapshot restore" does.
const (
	planeEntry    = "controlplane.json"
	secretEntry   = "secrets/%s.json" //nolint:gosec // the name of an entry
	snapshotEntry = "etcd.snapshot"
)

// ArchiveContents are what an archive has besides the snapshot.
type ArchiveContents struct {
	Plane   *fleetv1alpha1.ControlPlane
	Secrets map[string]*corev1.Secret
}

// PlaneNames are those of what the operator makes for it.
func (c ArchiveContents) PlaneNames() manifests.Plane {
	return manifests.Plane{Name: c.Plane.Name, Namespace: c.Plane.Namespace, Spec: c.Plane.Spec}
}

// gatherContents reads them from the host.
func gatherContents(ctx context.Context, host client.Reader, cp *fleetv1alpha1.ControlPlane) (ArchiveContents, error) {
	c := ArchiveContents{Plane: cp, Secrets: map[string]*corev1.Secret{}}
	switch {
	case !cp.DeletionTimestamp.IsZero():
		return c, fmt.Errorf("the dedicated hub %q is being removed", cp.Name)
	case cp.Spec.Etcd.Managed == nil:
		return c, exit.Next(fmt.Errorf("the dedicated hub %q stores its objects in an etcd that the hub does not run", cp.Name),
			"Back up that etcd with its own tools, such as \"etcdctl snapshot save\", and with it these Secrets in namespace %q, without which it cannot be read: %v.",
			cp.Namespace, c.PlaneNames().KeptSecrets())
	}
	for _, name := range c.PlaneNames().KeptSecrets() {
		key := client.ObjectKey{Namespace: cp.Namespace, Name: name}
		secret := &corev1.Secret{}
		switch err := host.Get(ctx, key, secret); {
		case apierrors.IsNotFound(err):
			return c, exit.Next(fmt.Errorf("there is no Secret %q, without which the hub cannot be restored", key),
				"If the hub is still being installed, wait until its ControlPlane is Available: \"kubectl -n %s describe controlplane %s\".", cp.Namespace, cp.Name)
		case err != nil:
			return c, fmt.Errorf("read the Secret %q: %w", key, err)
		}
		c.Secrets[name] = secret
	}
	return c, nil
}

type archiveEntry struct {
	name string
	text []byte
}

// archiveEntries returns the contents as they are in the archive: what the user or the
// operator has written, and nothing that only the host knows.
func (c ArchiveContents) archiveEntries() ([]archiveEntry, error) {
	cp := &fleetv1alpha1.ControlPlane{ObjectMeta: writtenMetadata(c.Plane), Spec: c.Plane.Spec}
	cp.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("ControlPlane"))
	first, err := encodeEntry(planeEntry, cp)
	if err != nil {
		return nil, err
	}
	all := []archiveEntry{first}
	for _, name := range c.PlaneNames().KeptSecrets() {
		secret := c.Secrets[name]
		kept := &corev1.Secret{ObjectMeta: writtenMetadata(secret), Type: secret.Type, Data: secret.Data}
		kept.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		e, err := encodeEntry(fmt.Sprintf(secretEntry, name), kept)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

func writtenMetadata(object client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName(), Labels: object.GetLabels()}
}

func encodeEntry(name string, object any) (archiveEntry, error) {
	text, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return archiveEntry{}, fmt.Errorf("encoding %s for the archive: %w", name, err)
	}
	return archiveEntry{name: name, text: append(text, '\n')}, nil
}

// readContents reads the contents of an archive. It has to have all that a hub needs.
func readContents(a *archive.Archive) (ArchiveContents, error) {
	c := ArchiveContents{Plane: &fleetv1alpha1.ControlPlane{}, Secrets: map[string]*corev1.Secret{}}
	if err := decodeEntry(a, planeEntry, c.Plane); err != nil {
		return c, err
	}
	for _, name := range c.PlaneNames().KeptSecrets() {
		secret := &corev1.Secret{}
		if err := decodeEntry(a, fmt.Sprintf(secretEntry, name), secret); err != nil {
			return c, err
		}
		c.Secrets[name] = secret
	}
	if a.EntryContent(snapshotEntry) == nil {
		return c, fmt.Errorf("it has no %s", snapshotEntry)
	}
	return c, nil
}

func decodeEntry(a *archive.Archive, name string, into any) error {
	content := a.EntryContent(name)
	if content == nil {
		return fmt.Errorf("it has no %s", name)
	}
	if err := json.NewDecoder(content).Decode(into); err != nil {
		return fmt.Errorf("its %s cannot be read: %w", name, err)
	}
	return nil
}
