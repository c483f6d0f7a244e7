// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// TestAMemberDoesNotChangeTheMarksOfItsWorks has the agent of a cluster take the marks off a work
// by which the hub finds it, and write what agents have to write.
func TestAMemberDoesNotChangeTheMarksOfItsWorks(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	const name = "marks"
	h.JoinWithLabels(t, name, nil)
	if err := workv1.AddToScheme(h.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: name, Name: "web", Labels: map[string]string{"mark": "web"}, Annotations: map[string]string{"of": "web", "since": "today"},
		Finalizers: []string{workv1.FinalizerManifestWorkCleanup},
	}}
	work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyForeground, TTLSecondsAfterFinished: ptr.To[int64](600)}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"web","annotations":null}}`),
	}}}
	h.CreateObjects(t, work)
	agent, key := h.AgentClient(t, name), client.ObjectKeyFromObject(work)
	patch := func(of types.PatchType, body string) func(context.Context) error {
		return func(ctx context.Context) error {
			return agent.Patch(ctx, work.DeepCopy(), client.RawPatch(of, []byte(body)))
		}
	}
	update := func(change func(*workv1.ManifestWork)) func(context.Context) error {
		return func(ctx context.Context) error {
			is := &workv1.ManifestWork{}
			if err := agent.Get(ctx, key, is); err != nil {
				return err
			}
			change(is)
			return agent.Update(ctx, is)
		}
	}
	const marks, finalizers, timeToLive = "neither the labels nor the annotations nor the owners", "may add no finalizer", "may leave spec.deleteOption.ttlSecondsAfterFinished out"
	for _, c := range []struct {
		what  string
		write func(context.Context) error
		// refusal is a part of the message, "" if it may.
		refusal string
	}{
		{"a label taken away", patch(types.MergePatchType, `{"metadata":{"labels":{"mark":null}}}`), marks},
		{"another label", patch(types.MergePatchType, `{"metadata":{"labels":{"more":"x"}}}`), marks},
		{"another value", patch(types.JSONPatchType, `[{"op":"replace","path":"/metadata/labels/mark","value":"x"}]`), marks},
		{"no labels at all", update(func(w *workv1.ManifestWork) { w.Labels = nil }), marks},
		{"an annotation taken away", patch(types.MergePatchType, `{"metadata":{"annotations":{"of":null}}}`), marks},
		{"another annotation", update(func(w *workv1.ManifestWork) { w.Annotations["of"] = "other" }), marks},
		{"an owner", update(func(w *workv1.ManifestWork) {
			w.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "gone", UID: "gone"}}
		}), marks},
		{"a finalizer that stays", update(func(w *workv1.ManifestWork) { w.Finalizers = append(w.Finalizers, "example.com/stay") }), finalizers},
		{"another time to live", patch(types.MergePatchType, `{"spec":{"deleteOption":{"ttlSecondsAfterFinished":0}}}`), timeToLive},
		{"no time to live, and no finalizer", patch(types.MergePatchType, `{"metadata":{"finalizers":null},"spec":{"deleteOption":{"ttlSecondsAfterFinished":0}}}`), timeToLive},
		{"one more manifest", patch(types.JSONPatchType, `[{"op":"add","path":"/spec/workload/manifests/-","value":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"more"}}}]`), "may add no manifests"},
		{"the finalizer, by the types of the agent", update(func(w *workv1.ManifestWork) { w.Finalizers = nil }), ""},
		{"the finalizer, as OCM's agent does", patch(types.MergePatchType, `{"metadata":{"finalizers":["`+workv1.FinalizerManifestWorkCleanup+`"]}}`), ""},
		{"a spec in another spelling", patch(types.MergePatchType,
			`{"spec":{"deleteOption":null,"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"web"}}]}}}`), ""},
		{"a time to live of its own", patch(types.MergePatchType, `{"spec":{"deleteOption":{"ttlSecondsAfterFinished":600}}}`), timeToLive},
		{"the status", func(ctx context.Context) error {
			return agent.Status().Patch(ctx, work.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[]}}`)))
		}, ""},
	} {
		err := c.write(t.Context())
		switch {
		case c.refusal == "" && err != nil:
			t.Errorf("%s: the agent may not: %v", c.what, err)
		case c.refusal != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s: the API server says %v, want a refusal with %q", c.what, err, c.refusal)
		}
	}
	if err := h.Client.Patch(t.Context(), work.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"mark":"hub"}}}`))); err != nil {
		t.Errorf("the hub may not change what agents may not: %v", err)
	}
}
