// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage gives the claims of a cluster directories of its node.
package storage

import (
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Provisioner is what storage classes call the provisioner by.
const Provisioner = "lab/directory"

// The annotations by which Kubernetes and its provisioners agree on who makes
// the volume of a claim, and who removes it.
const (
	claimProvisioner  = "volume.kubernetes.io/storage-provisioner"
	volumeProvisioner = "pv.kubernetes.io/provisioned-by"
)

// place is where volumes are: the directory that holds theirs, and its node.
type place struct {
	node, dir string
}

// path is the directory of a volume.
func (p place) path(volume string) string { return filepath.Join(p.dir, volume) }

// lacksVolume reports whether a claim waits for a volume of this provisioner.
// Kubernetes asks for it when the claim's class and its pod allow.
func lacksVolume(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[claimProvisioner] == Provisioner &&
		claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}

// isAbandoned reports whether a volume of this provisioner is to be removed.
func isAbandoned(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[volumeProvisioner] == Provisioner &&
		volume.Status.Phase == corev1.VolumeReleased && volume.DeletionTimestamp == nil &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// volumeName is the name of a claim's volume. It derives from the claim, so that
// no claim gets two.
func volumeName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// volumeFor returns the volume of a claim. It is of the kind "local", which
// belongs to a node and gets the group of its pod, as the volume of a disk does.
func (p place) volumeFor(claim *corev1.PersistentVolumeClaim, reclaim corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	name := volumeName(claim)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{volumeProvisioner: Provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              className(claim),
			PersistentVolumeReclaimPolicy: reclaim,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: p.path(name)}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{p.node},
					}},
				}},
			}},
		},
	}
}

// className is the storage class of a claim.
func className(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}
