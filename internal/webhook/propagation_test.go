// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// propagationController is the account that the configurations for bindings exempt.
const propagationController = "system:serviceaccount:open-cluster-management-hub:propagation-controller-sa"

func TestCustomizationsAreChecked(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	customization := func(name, script string) *configv1alpha1.ResourceInterpreterCustomization {
		c := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Spec.Target = configv1alpha1.CustomizationTarget{APIVersion: "example.com/v1", Kind: "Workload"}
		c.Spec.Customizations.HealthInterpretation = &configv1alpha1.LuaRule{LuaScript: script}
		return c
	}
	const script = "function InterpretHealth(o) return true end"
	first := customization("first", script)
	if err := admin.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), customization("second", script)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `"first" has a script for it already`) {
		t.Errorf("another one of the same kind and operation: %v", err)
	}
	first.Spec.Customizations.HealthInterpretation.LuaScript = "function InterpretHealth(o) return true"
	if err := admin.Update(t.Context(), first); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "is an 'end' missing?") {
		t.Errorf("a script that does not compile: %v", err)
	}
}

// TestKeysOfCustomizationsAreChecked sends a wrong key beside a right one: by POST, and in each way that an
// object is changed.
func TestKeysOfCustomizationsAreChecked(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	customization := func(script string, keys ...string) *unstructured.Unstructured {
		rules := map[string]any{"healthInterpretation": map[string]any{"luaScript": script}}
		for _, key := range keys {
			rules[key] = map[string]any{"luaScript": "function Retain(d, o) return d end"}
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization", "metadata": map[string]any{"name": "keys"},
			"spec": map[string]any{"target": map[string]any{"apiVersion": "example.com/v1", "kind": "Keyed"}, "customizations": rules},
		}}
	}
	const yes, no = "function InterpretHealth(o) return true end", "function InterpretHealth(o) return false end"
	apply := func(c *unstructured.Unstructured) error {
		return admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(c), client.FieldOwner("user"), client.ForceOwnership)
	}
	refused := func(how string, err error) {
		if err == nil || !strings.Contains(err.Error(), "retentions") {
			t.Errorf("a wrong key by %s: %v", how, err)
		}
	}
	refused("POST", admin.Create(t.Context(), customization(yes, "retentions")))
	refused("server-side apply of a new one", apply(customization(yes, "retentions")))
	if err := apply(customization(yes)); err != nil {
		t.Fatal(err)
	}
	if err := apply(customization(no, "retention")); err != nil {
		t.Errorf("a change by server-side apply: %v", err)
	}
	refused("server-side apply", apply(customization(yes, "retentions")))
	refused("a merge patch", admin.Patch(t.Context(), customization(yes), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"customizations":{"retentions":{}}}}`))))
	there := customization(no)
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(there), there); err != nil {
		t.Fatal(err)
	}
	if keys, _, _ := unstructured.NestedMap(there.Object, "spec", "customizations"); len(keys) != 2 {
		t.Errorf("it has %v", keys)
	}
	if err := unstructured.SetNestedField(there.Object, "x", "spec", "customizations", "retentions"); err != nil {
		t.Fatal(err)
	}
	refused("PUT", admin.Update(t.Context(), there))
}

func TestInterpreterWebhooksAreChecked(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	at := "https://interpreter.example.com"
	c := &configv1alpha1.ResourceInterpreterWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "workloads"},
		Webhooks: []configv1alpha1.ResourceInterpreterWebhook{{
			Name: "workloads.example.com", ClientConfig: configv1alpha1.WebhookClientConfig{URL: &at}, InterpreterContextVersions: []string{"v1alpha1"},
		}},
	}
	if err := admin.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	c.Webhooks[0].ClientConfig.CABundle = []byte("a bundle")
	if err := admin.Update(t.Context(), c); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "webhooks[0].clientConfig.caBundle: Invalid value: it contains no certificate") {
		t.Errorf("a bundle without certificates: %v", err)
	}
}

// warned keeps the warnings of an API server.
type warned []string

func (w *warned) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

func deployments() []policyv1alpha1.ResourceSelector {
	return []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment"}}
}

func TestPoliciesAreCompletedAndChecked(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	warnings := &warned{}
	admin := h.warnedAdmin(t, warnings)
	count := h.count
	const label = policyv1alpha1.LabelPropagationPolicyID
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	policy.Spec.ResourceSelectors, policy.Spec.Association = deployments(), true
	policy.Spec.Placement.SpreadConstraints = []policyv1alpha1.SpreadConstraint{{SpreadByField: policyv1alpha1.SpreadByRegion}}
	if err := admin.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	id := policy.Labels[label]
	if len(id) != 36 || !slices.Equal(policy.Finalizers, []string{policyv1alpha1.FinalizerPropagationPolicy}) ||
		policy.Spec.ResourceSelectors[0].Namespace != "default" || len(policy.Spec.Placement.SpreadConstraints) != 2 {
		t.Errorf("the policy was not completed: %+v", policy)
	}
	if !slices.Contains(*warnings, "spec.association has no effect: use propagateDeps") {
		t.Errorf("got the warnings %q", *warnings)
	}
	count.take()
	policy.Annotations = map[string]string{"a": "b"}
	if err := admin.Update(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	if calls := count.take(); len(calls) > 0 {
		t.Errorf("calls for an annotation: %v", calls)
	}
	policy.Labels = nil
	if err := admin.Update(t.Context(), policy); err != nil || policy.Labels[label] != id {
		t.Errorf("an ID that was left out is %q, want %q: %v", policy.Labels[label], id, err)
	}
	policy.Labels[label] = "mine"
	refused(t, admin.Update(t.Context(), policy.DeepCopy()), apierrors.IsInvalid, "the ID never changes")
	policy.Labels[label] = id
	policy.Spec.ResourceSelectors[0].Namespace = "kube-system"
	refused(t, admin.Update(t.Context(), policy.DeepCopy()), apierrors.IsInvalid, "spec.resourceSelectors[0].namespace")
	if err := admin.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	policy = &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	if err := admin.Patch(t.Context(), policy, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Errorf("taking the finalizer off: %v", err)
	}
}

// TestAnAuthorSendsOnlyWhatHeMayRead has a user who may list Deployments and nothing else.
func TestAnAuthorSendsOnlyWhatHeMayRead(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	author := h.userClient(t, "author")
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-an-author"}}
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Secret", Name: "key"}}
	refused(t, author.Create(t.Context(), policy.DeepCopy()), apierrors.IsForbidden, `user "author" may not get secrets "key" in namespace "default"`)
	policy.Spec.ResourceSelectors = deployments()
	if err := author.Create(t.Context(), policy); err != nil {
		t.Fatalf("who may list Deployments may send them: %v", err)
	}
	policy.Spec.PropagateDeps = true
	refused(t, author.Update(t.Context(), policy), apierrors.IsForbidden, `may not list configmaps in namespace "default"`)
}

func TestPoliciesOfOtherKindsAreCompletedAndChecked(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	all := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	all.Spec.ResourceSelectors = deployments()
	if err := admin.Create(t.Context(), all); err != nil || all.Labels[policyv1alpha1.LabelClusterPropagationPolicyID] == "" || all.Spec.ResourceSelectors[0].Namespace != "" {
		t.Errorf("got %+v: %v", all, err)
	}
	override := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	override.Spec.ResourceSelectors = deployments()
	if err := admin.Create(t.Context(), override); err != nil || override.Spec.ResourceSelectors[0].Namespace != "default" {
		t.Errorf("got %+v: %v", override, err)
	}
	global := &policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	global.Spec.Overriders.Plaintext = []policyv1alpha1.PlaintextOverrider{{Path: "spec.replicas", Operator: policyv1alpha1.OverriderOpRemove}}
	refused(t, admin.Create(t.Context(), global), apierrors.IsInvalid, "spec.overriders.plaintext[0].path")
}

// sampleDefinitions are kinds that samples define and then send.
func sampleDefinitions() []string {
	return []string{"../../config/samples/propagation-crd/definition.yaml", "../../config/samples/propagation-customization/definition.yaml"}
}

// TestSamplesAreAcceptedWithoutAWarning has the samples accepted as they are, without a warning.
func TestSamplesAreAcceptedWithoutAWarning(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	warnings := &warned{}
	admin := h.warnedAdmin(t, warnings)
	files, err := filepath.Glob("../../config/samples/propagation-*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d samples: %v", len(files), err)
	}
	*warnings = nil
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := sigsyaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if object.GetKind() == "Kustomization" || slices.Contains(sampleDefinitions(), file) {
				continue
			}
			if err := admin.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if len(*warnings) > 0 {
		t.Errorf("got the warnings %q", *warnings)
	}
}

func TestBindingsOfObjectsAreLabelledAndChecked(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	controller := h.userClient(t, propagationController, "system:masters")
	count := h.count
	binding := func(name string) *workv1alpha2.ResourceBinding {
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}
		return b
	}
	count.take()
	made := binding("made")
	if err := controller.Create(t.Context(), made); err != nil || len(made.Labels) > 0 {
		t.Errorf("the controller's binding has the labels %v: %v", made.Labels, err)
	}
	if calls := count.take(); len(calls) > 0 {
		t.Errorf("calls for a binding of the controller: %v", calls)
	}
	own := binding("own")
	if err := admin.Create(t.Context(), own); err != nil || own.Labels[workv1alpha2.LabelResourceBindingID] == "" {
		t.Fatalf("the binding has the labels %v: %v", own.Labels, err)
	}
	count.take()
	own.Spec.Replicas = 3
	if err := admin.Update(t.Context(), own); err != nil || len(count.take()) > 0 {
		t.Errorf("a decision is no matter for webhooks: %v", err)
	}
	own.Annotations = map[string]string{workv1alpha2.AnnotationDependencies: "a"}
	refused(t, admin.Update(t.Context(), own.DeepCopy()), apierrors.IsInvalid, "want a JSON list")
	cluster := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: "role"}}
	cluster.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "role"}
	cluster.Spec.Components = []workv1alpha2.Component{{Name: "a"}, {Name: "a"}}
	refused(t, admin.Create(t.Context(), cluster.DeepCopy()), apierrors.IsInvalid, "spec.components[1].name")
	cluster.Spec.Components = nil
	if err := admin.Create(t.Context(), cluster); err != nil || cluster.Labels[workv1alpha2.LabelClusterResourceBindingID] == "" {
		t.Errorf("the binding has the labels %v: %v", cluster.Labels, err)
	}
}

func TestObjectsThatAreProtectedStay(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	for i, object := range manifests.DeletionProtection(manifests.Hub{Name: "hub"}) {
		content, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		typed := []client.Object{&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}}[i]
		if err := json.Unmarshal(content, typed); err != nil {
			t.Fatal(err)
		}
		if err := admin.Create(t.Context(), typed); err != nil {
			t.Fatal(err)
		}
	}
	protected := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "protected", Labels: map[string]string{policyv1alpha1.LabelDeletionProtected: policyv1alpha1.DeletionProtectionAlways},
	}}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other", Labels: map[string]string{policyv1alpha1.LabelDeletionProtected: "Never"}}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stays", Labels: protected.Labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stays", Labels: protected.Labels}}
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stays", Labels: protected.Labels}}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"a"}}`)}}}
	for _, object := range []client.Object{protected, other, pod, lease, work} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	// The API server takes a moment to know the policy.
	var err error
	_ = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err = admin.Delete(ctx, protected.DeepCopy(), client.DryRunAll)
		return err != nil, nil
	})
	refused(t, err, apierrors.IsForbidden, "take the label off first (kubectl label KIND NAME resourcetemplate.karmada.io/deletion-protected-)")
	refused(t, err, apierrors.IsForbidden, "This resource is protected") // which Karmada's clients match
	refused(t, admin.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace("default")), apierrors.IsForbidden, "protected from deletion")
	for _, object := range []client.Object{other, pod, lease, work} { // the label keeps no controller from its own
		if err := admin.Delete(t.Context(), object); client.IgnoreNotFound(err) != nil {
			t.Errorf("%T, which is not protected: %v", object, err)
		}
	}
	protected.Labels = nil
	if err := admin.Update(t.Context(), protected); err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(t.Context(), protected); err != nil && !strings.Contains(err.Error(), "not found") {
		t.Errorf("an object that is not protected any more: %v", err)
	}
}
