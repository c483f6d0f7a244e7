// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// TestWorksWithoutABinding has works that a controller has left which led before:
// those of an object that is gone, too, are deleted, at the start and as they come.
// What is made of an object that the hub has stays.
func TestWorksWithoutABinding(t *testing.T) {
	w := newWorldOfMembers(t, 1)
	there, other := deployment("there", 1), policy("other", policyv1alpha1.Placement{})
	other.Spec.ResourceSelectors[0].Name = "other" // Deployments are watched for it
	w.create(there, other)
	stays, found, late := w.lost("there", there.UID), w.lost("found", "1"), w.lost("late", "2")
	w.create(stays, found)
	w.has("member1", "Deployment/there", "Deployment/found")
	before := w.remember()
	w.start()
	w.gone(found)
	w.create(late)
	w.gone(late)
	w.has("member1", "Deployment/there")
	w.stay(map[string]sentWork{"member1/Deployment/there": before["member1/Deployment/there"]})
	w.remove(there)
	w.gone(stays)
	w.has("member1")
}

// lost returns a work of a Deployment, whose binding does not exist.
func (w world) lost(name string, uid types.UID) *workv1.ManifestWork {
	w.Helper()
	object := deployment(name, 1)
	object.APIVersion, object.Kind = "apps/v1", "Deployment"
	object.Annotations = map[string]string{workv1alpha2.AnnotationTemplateUID: string(uid)}
	raw, err := json.Marshal(object)
	if err != nil {
		w.Fatal(err)
	}
	id := "id-of-" + name
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "member1", Name: name, Labels: map[string]string{workv1alpha2.LabelResourceBindingID: id, karmadaworkv1alpha1.LabelPermanentID: id},
			Annotations: map[string]string{
				workv1alpha2.AnnotationResourceBindingNamespace: metav1.NamespaceDefault, workv1alpha2.AnnotationResourceBindingName: name + "-deployment",
			},
		},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}}},
	}
}
