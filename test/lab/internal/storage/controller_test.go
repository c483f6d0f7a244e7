// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
)

// patience is how long something may take to come true.
const patience = time.Minute

// run runs the controller with objects, for as long as the test does.
func run(t *testing.T, dir string, objects ...runtime.Object) kubernetes.Interface {
	t.Helper()
	client := fake.NewClientset(objects...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = Run(ctx, client, "node", dir)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return client
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !isSo(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func newClass(reclaim corev1.PersistentVolumeReclaimPolicy) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:    metav1.ObjectMeta{Name: "standard"},
		Provisioner:   Provisioner,
		ReclaimPolicy: &reclaim,
	}
}

func newClaim(name, provisioner string) *corev1.PersistentVolumeClaim {
	class := "standard"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: "uid-of-claim",
			Annotations: map[string]string{claimProvisioner: provisioner},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

func TestAClaimGetsADirectoryOfTheNode(t *testing.T) {
	dir := t.TempDir()
	client := run(t, dir, newClass(corev1.PersistentVolumeReclaimRetain), newClaim("data", Provisioner))
	var volume *corev1.PersistentVolume
	eventually(t, "the claim has a volume", func() bool {
		var err error
		volume, err = client.CoreV1().PersistentVolumes().Get(context.Background(), "pvc-uid-of-claim", metav1.GetOptions{})
		return err == nil
	})
	if want := filepath.Join(dir, volume.Name); volume.Spec.Local == nil || volume.Spec.Local.Path != want || !exists(want) {
		t.Errorf("the volume is %+v (directory exists: %t), want the directory %s", volume.Spec.PersistentVolumeSource, exists(want), want)
	}
	if ref := volume.Spec.ClaimRef; ref == nil || ref.Name != "data" || ref.UID != "uid-of-claim" {
		t.Errorf("the volume is for %+v", ref)
	}
	if size := volume.Spec.Capacity[corev1.ResourceStorage]; size.String() != "1Gi" {
		t.Errorf("the volume has %s, want 1Gi", size.String())
	}
	if got := volume.Spec.PersistentVolumeReclaimPolicy; got != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("the volume has the reclaim policy %s, its class Retain", got)
	}
}

func TestClaimsThatNeedNoVolumeAreLeftAlone(t *testing.T) {
	foreign := newClaim("foreign", "somebody/else")
	bound := newClaim("bound", Provisioner)
	bound.Spec.VolumeName = "other"
	deleted := newClaim("deleted", Provisioner)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for _, claim := range []*corev1.PersistentVolumeClaim{foreign, bound, deleted} {
		if lacksVolume(claim) {
			t.Errorf("the claim %s gets a volume", claim.Name)
		}
	}
}

func TestAVolumeThatNobodyClaimsIsRemovedWithItsDirectory(t *testing.T) {
	dir := t.TempDir()
	here := place{node: "node", dir: dir}
	removed := here.volumeFor(newClaim("data", Provisioner), corev1.PersistentVolumeReclaimDelete)
	removed.Status.Phase = corev1.VolumeReleased
	kept := removed.DeepCopy()
	kept.Name = "kept"
	kept.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	used := removed.DeepCopy()
	used.Name = "used"
	used.Status.Phase = corev1.VolumeBound
	foreign := removed.DeepCopy()
	foreign.Name = "foreign"
	foreign.Annotations = nil
	for _, volume := range []*corev1.PersistentVolume{removed, kept, used, foreign} {
		if err := os.MkdirAll(filepath.Join(here.path(volume.Name), "data"), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	client := run(t, dir, removed, kept, used, foreign)
	eventually(t, "the volume is gone", func() bool {
		left, err := client.CoreV1().PersistentVolumes().List(context.Background(), metav1.ListOptions{})
		return err == nil && len(left.Items) == 3
	})
	if exists(here.path(removed.Name)) {
		t.Error("the directory of the volume is left")
	}
	for _, volume := range []*corev1.PersistentVolume{kept, used, foreign} {
		if !exists(here.path(volume.Name)) {
			t.Errorf("the directory of the volume %s is gone", volume.Name)
		}
	}
}
