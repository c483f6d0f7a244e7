// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	sigsyaml "sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// counted is a hub with so many Deployments, which no policy claims, and one cluster. It
// counts what is read, and the user may not read the kinds that are hidden.
type counted struct {
	Reader

	gets, lists map[string]int
}

func newHub(t *testing.T, deployments int, hidden ...string) *counted {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme),
		policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{policyv1alpha1.GroupVersion, appsv1.SchemeGroupVersion, corev1.SchemeGroupVersion})
	for _, kind := range []string{"PropagationPolicy", "OverridePolicy"} {
		mapper.Add(policyv1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	objects := []client.Object{&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "paris"}}}
	for i := range deployments {
		objects = append(objects, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("web-%02d", i), Labels: map[string]string{"even": fmt.Sprint(i%2 == 0)},
		}})
	}
	h := &counted{gets: map[string]int{}, lists: map[string]int{}}
	inner := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).Build()
	asked := func(counts map[string]int, object runtime.Object) error {
		gvk, err := inner.GroupVersionKindFor(object)
		if err != nil {
			return err
		}
		kind := strings.TrimSuffix(gvk.Kind, "List")
		if _, slim := object.(*metav1.PartialObjectMetadataList); !slim {
			counts[kind]++
		}
		for _, one := range hidden {
			if one == kind {
				return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", errors.New("not you"))
			}
		}
		return nil
	}
	h.Reader = Reader{Namespace: "shop", At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Client: interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := asked(h.gets, object); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := asked(h.lists, list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	})}
	return h
}

func written(t *testing.T, texts ...string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, text := range texts {
		object := &unstructured.Unstructured{}
		if err := sigsyaml.Unmarshal([]byte(text), object); err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}

const evenPolicy = `{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: even},
  spec: {resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {even: "true"}}}]}}`

// Of many objects only the metadata is read, and those that are concerned in a
// list; of few each by itself.
func TestWhatIsRead(t *testing.T) {
	for _, test := range []struct{ deployments, concerned, gets, lists int }{{10, 5, 5, 0}, {60, 30, 0, 1}} {
		h := newHub(t, test.deployments)
		found, failed, err := h.Read(t.Context(), written(t, evenPolicy))
		if err != nil || len(failed) > 0 {
			t.Fatal(err, failed)
		}
		if len(found.objects) != test.concerned || *found.policies[0].Selects != test.concerned {
			t.Errorf("%d objects are concerned, want %d: %+v", len(found.objects), test.concerned, found.policies[0])
		}
		if h.gets["Deployment"] != test.gets || h.lists["Deployment"] != test.lists {
			t.Errorf("of %d: got %d one by one and %d lists, want %d and %d", test.deployments, h.gets["Deployment"], h.lists["Deployment"], test.gets, test.lists)
		}
	}
}

func TestWhatMayNotBeReadIsNamed(t *testing.T) {
	for hidden, want := range map[string]string{
		"ManagedCluster":           "ManagedClusters (which clusters would be chosen is not told here)",
		"ResourceBinding":          "bindings of namespace shop (what is in which cluster now is not known here)",
		"ClusterPropagationPolicy": "ClusterPropagationPolicies (they do not count here)",
		"Node":                     "Nodes (the hub is taken to be one that runs nothing itself)",
		"Deployment":               "deployments.apps of namespace shop (what of them the policies select does not count here)",
	} {
		found, _, err := newHub(t, 2, hidden).Read(t.Context(), written(t, evenPolicy))
		if err != nil {
			t.Errorf("without %s: %v", hidden, err)
			continue
		}
		if diff := cmp.Diff([]string{want}, found.unread); diff != "" {
			t.Errorf("without %s (-want +got):\n%s", hidden, diff)
		}
		if !strings.Contains(found.Text(), "You may not read "+want+".\n") {
			t.Errorf("without %s: the text is\n%s", hidden, found.Text())
		}
	}
}

func TestMistakesInFiles(t *testing.T) {
	for text, want := range map[string]string{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {generateName: a-}}":  "Deployment: metadata.name: Required value: what has no name yet cannot be planned",
		"{apiVersion: example.com/v1, kind: Database, metadata: {name: orders}}": `Database "orders": the hub serves no kind Database of apiVersion example.com/v1`,
	} {
		_, failed, err := newHub(t, 0).Read(t.Context(), written(t, text))
		if err != nil || len(failed) != 1 || failed[0].Error() != want {
			t.Errorf("got %v, %v, want %q", failed, err, want)
		}
	}
	found, _, err := newHub(t, 0).Read(t.Context(), written(t, strings.Replace(evenPolicy, "kind: Deployment", "kind: Databases", 1)))
	if err != nil || !strings.Contains(found.Text(), `spec.resourceSelectors[0]: the hub serves no kind "Databases" of apiVersion apps/v1`) {
		t.Errorf("got %v, %v", found, err)
	}
}

func TestAHubWithoutPolicies(t *testing.T) {
	h := newHub(t, 0)
	r := Reader{Client: fake.NewClientBuilder().WithScheme(h.Client.Scheme()).WithRESTMapper(meta.NewDefaultRESTMapper(nil)).Build()}
	if _, _, err := r.Read(t.Context(), written(t, evenPolicy)); err == nil || !strings.Contains(err.Error(), "does not serve PropagationPolicies") {
		t.Errorf("got %v", err)
	}
	r.Beside = true
	found, failed, err := r.Read(t.Context(), written(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"))
	if err != nil || len(failed)+len(found.Items()) > 0 {
		t.Errorf("got %v, %v, %v", found, failed, err)
	}
}
