// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestABoundClaimGoesToAnotherCluster has a claim on the hub as it was in a member, where
// it is bound, and sends it to a second one.
func TestABoundClaimGoesToAnotherCluster(t *testing.T) {
	t.Parallel()
	w := harness.NewWorldOfMembers(t, servers, 2)
	bound := func() *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "data", Annotations: map[string]string{
				"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes", "volume.kubernetes.io/storage-provisioner": "example.com/disk",
			}},
			Spec: corev1.PersistentVolumeClaimSpec{
				VolumeName: "pvc-of-member1", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
	}
	if err := w.Members["member1"].Create(t.Context(), bound(), client.FieldOwner("kube-controller-manager")); err != nil {
		t.Fatal(err)
	}
	template := bound()
	p := harness.Policy("claims", policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}})
	p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: "data"}}
	p.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
	w.CreateAll(template, p)
	w.StartControllers()
	claim := func(member, label string) *corev1.PersistentVolumeClaim {
		is := &corev1.PersistentVolumeClaim{}
		w.Eventually(fmt.Sprintf("%s has the claim with label %q", member, label), func() error {
			if err := w.Members[member].Get(t.Context(), client.ObjectKeyFromObject(template), is); err != nil {
				return err
			}
			if is.Labels["change"] != label || len(is.Labels) == 0 {
				return fmt.Errorf("its labels are %v", is.Labels)
			}
			return nil
		})
		return is
	}
	stays := func(when, label string) {
		t.Helper()
		if is := claim("member1", label); is.Spec.VolumeName != "pvc-of-member1" || is.Annotations["pv.kubernetes.io/bind-completed"] != "yes" {
			t.Errorf("%s: the claim of member1 is %q with %v", when, is.Spec.VolumeName, is.Annotations)
		}
	}
	stays("it is taken over", "")
	w.ChangeObject(p, func() { p.Spec.Placement.ClusterAffinity.ClusterNames = []string{"member1", "member2"} })
	is := claim("member2", "")
	if is.Spec.VolumeName != "" || is.Annotations["pv.kubernetes.io/bind-completed"] != "" || is.Annotations["volume.kubernetes.io/storage-provisioner"] != "" {
		t.Errorf("the claim of member2 is bound to %q, with %v", is.Spec.VolumeName, is.Annotations)
	}
	// Its own cluster binds it, and a change of the template leaves that alone.
	is.Spec.VolumeName = "pvc-of-member2"
	if err := w.Members["member2"].Update(t.Context(), is, client.FieldOwner("kube-controller-manager")); err != nil {
		t.Fatal(err)
	}
	w.ChangeObject(template, func() { template.Labels = map[string]string{"change": "second"} })
	if is := claim("member2", "second"); is.Spec.VolumeName != "pvc-of-member2" {
		t.Errorf("the claim of member2 is bound to %q", is.Spec.VolumeName)
	}
	stays("the template has changed", "second")
}
