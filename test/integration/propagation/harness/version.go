// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// TakeOff takes the marks of its policy off a Deployment whenever it has them, and counts
// how often.
func (w World) TakeOff(ctx context.Context, name string, times *atomic.Int64) {
	off, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels":      map[string]any{policyv1alpha1.LabelPropagationPolicyID: nil},
		"annotations": map[string]any{policyv1alpha1.AnnotationPropagationPolicyName: nil, policyv1alpha1.AnnotationPropagationPolicyNamespace: nil},
	}})
	if err != nil {
		w.Error(err)
		return
	}
	for ctx.Err() == nil {
		web := Deployment(name, 1)
		if err := w.Get(ctx, client.ObjectKeyFromObject(web), web); err != nil || web.Annotations[policyv1alpha1.AnnotationPropagationPolicyName] == "" {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if w.Patch(ctx, web, client.RawPatch(types.MergePatchType, off)) == nil {
			times.Add(1)
		}
	}
}

// SelfConflict returns the condition of a binding of namespace default, nil if it has none.
func (w World) SelfConflict(name string) *metav1.Condition {
	w.Helper()
	binding := &workv1alpha2.ResourceBinding{}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, binding); err != nil {
		w.Fatal(err)
	}
	return meta.FindStatusCondition(binding.Status.Conditions, fleetv1alpha1.ConditionSelfConflict)
}

// Autoscaler returns an autoscaler of a namespace.
func Autoscaler(namespace string) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h"},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
	}
}

// scalingOf returns the binding of the autoscaler of a namespace.
func (w World) scalingOf(namespace string) (*workv1alpha2.ResourceBinding, error) {
	b := &workv1alpha2.ResourceBinding{}
	return b, w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: "h-horizontalpodautoscaler"}, b)
}

// SentAs waits until the autoscaler of a namespace is sent to one cluster, in a version.
func (w World) SentAs(namespace, apiVersion, cluster string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("cluster %s has the autoscaler of %s as %s", cluster, namespace, apiVersion), func() error {
		b, err := w.scalingOf(namespace)
		if err != nil {
			return err
		}
		if b.Spec.Resource.APIVersion != apiVersion || len(b.Spec.Clusters) != 1 || b.Spec.Clusters[0].Name != cluster {
			return fmt.Errorf("the binding is for %s, and for the clusters %v", b.Spec.Resource.APIVersion, b.Spec.Clusters)
		}
		for _, work := range w.WorksOf(cluster) {
			if object := w.ObjectOf(&work); object.GetNamespace() == namespace && object.GetName() == "h" && object.GetAPIVersion() == apiVersion {
				return nil
			}
		}
		return fmt.Errorf("cluster %s has no work of it", cluster)
	})
}

// QuietFor checks that nothing is written to the autoscalers of namespaces, nor to the
// specs of their bindings, for a while.
func (w World) QuietFor(d time.Duration, namespaces ...string) {
	w.Helper()
	versions := func() (all []string) {
		for _, namespace := range namespaces {
			object := Autoscaler(namespace)
			b, err := w.scalingOf(namespace)
			if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				w.Fatal(err)
			}
			if err != nil {
				w.Fatal(err)
			}
			all = append(all, object.ResourceVersion, fmt.Sprint(b.Generation, b.UID))
		}
		return all
	}
	// What was decided last may still be written.
	w.Eventually("nothing is written", func() error {
		before := versions()
		select {
		case <-time.After(d):
		case <-w.Context().Done():
		}
		if after := versions(); fmt.Sprint(before) != fmt.Sprint(after) {
			return fmt.Errorf("versions and generations were %v, and are %v", before, after)
		}
		return nil
	})
}

// ServeWebhooks makes a configuration with webhooks at the server, each for operations of
// one kind, that goes with the test.
func (w World) ServeWebhooks(name string, server *httptest.Server, rules ...configv1alpha1.RuleWithOperations) *configv1alpha1.ResourceInterpreterWebhookConfiguration {
	w.Helper()
	c := &configv1alpha1.ResourceInterpreterWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i, rule := range rules {
		c.Webhooks = append(c.Webhooks, configv1alpha1.ResourceInterpreterWebhook{
			Name: fmt.Sprintf("webhook-%d.example.com", i), InterpreterContextVersions: []string{"v1alpha1"},
			ClientConfig: configv1alpha1.WebhookClientConfig{URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
			Rules:        []configv1alpha1.RuleWithOperations{rule},
		})
	}
	w.CreateAll(c)
	w.Cleanup(func() {
		if err := w.Delete(context.WithoutCancel(w.Context()), c); client.IgnoreNotFound(err) != nil {
			w.Error(err)
		}
	})
	return c
}
