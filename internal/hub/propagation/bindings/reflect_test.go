// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/kube/events"
)

// TestTheStatusOfALargeObjectHasAPace has a cluster report another status of a Deployment of a megabyte again and again,
// which etcd stores whole each time: an override makes it small in the cluster, so that the agent waits for nothing.
func TestTheStatusOfALargeObjectHasAPace(t *testing.T) {
	const reports = 100
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{"replicas": int64(reports)},
		"metadata": map[string]any{"namespace": "shop", "name": "web", "uid": "u", "annotations": map[string]any{"large": strings.Repeat("x", 1<<20)}},
	}}
	b := &workv1alpha2.ResourceBinding{}
	b.Namespace = "shop"
	b.Name = "web-deployment"
	b.Generation = 1
	b.Status.Conditions = []metav1.Condition{{Type: workv1alpha2.BindingConditionFullyApplied, ObservedGeneration: 1}}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	hub := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	written := ""
	hub.PrependReactor("patch", deployments.Resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		written = string(action.(clienttesting.PatchAction).GetPatch())
		return true, object, nil
	})
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(deployments.GroupVersion().WithKind("Deployment"), meta.RESTScopeNamespace)
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	c := &BindingController{BindingControllerDeps: BindingControllerDeps{
		Store: store.BindingStore{Meter: store.NewWriteMeter(clk)}, Chain: interpret.Chain{native.NewKubernetesKinds()}, Events: events.NewRecorder(nil),
		Objects: templates.HubObjects{Client: hub, Mapper: mapper, Contents: templates.NewContentCache(clk)},
	}}
	key := templates.KeyOf(workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"})
	report := func(ready int) (wrote bool, wait time.Duration) {
		t.Helper()
		written = ""
		pass := &bindingPass{by: c, binding: b, key: key, object: object, items: []workv1alpha2.AggregatedStatusItem{{
			ClusterName: "a", Applied: true, Status: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"replicas":%d,"readyReplicas":%d}`, reports, ready)},
		}}}
		for _, phase := range []bindingPhase{(*bindingPass).paceReport, (*bindingPass).reflectToObject} {
			if err := phase(pass, t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if pass.reflected.failed != nil {
			t.Fatal(pass.reflected.failed)
		}
		return strings.Contains(written, fmt.Sprintf(`"readyReplicas":%d`, ready)), pass.reflected.again
	}
	writes := 0
	var wait time.Duration
	for n := range reports {
		wrote, again := report(n + 1)
		if wrote {
			writes++
		}
		wait = again
	}
	if writes < 3 || writes > 6 {
		t.Errorf("of %d changes of the status of a megabyte %d are written at once, want about four", reports, writes)
	}
	c.Store.Meter.CountWrite(t.Context(), bindingOfMiB(29))
	c.Store.Meter.CountWrite(store.WithReports(t.Context()), bindingOfMiB(40))
	if wait := c.Store.Meter.WaitBeforeChange(t.Context(), b.Namespace); wait > 0 {
		t.Errorf("a change waits %v for the status", wait)
	}
	b.Generation++
	if wrote, _ := report(1); !wrote {
		t.Error("the first report about a change waits")
	}
	b.Generation--
	clk.SetTime(clk.Now().Add(wait + time.Minute))
	if wrote, again := report(2); !wrote || again > 0 {
		t.Errorf("the last report is not written after %v", wait)
	}
}

// bindingOfMiB is another binding of the namespace, of so many MiB.
func bindingOfMiB(size int) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{}
	b.Namespace = "shop"
	b.Name = "other"
	b.Spec.SchedulerName = strings.Repeat("x", size<<20)
	return b
}
