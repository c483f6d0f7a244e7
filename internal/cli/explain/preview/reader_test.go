// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cli/explain/trial"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/forecast"
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
		policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme), configv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{policyv1alpha1.GroupVersion, appsv1.SchemeGroupVersion, corev1.SchemeGroupVersion})
	for _, kind := range []string{"PropagationPolicy", "OverridePolicy"} {
		mapper.Add(policyv1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), meta.RESTScopeNamespace)
	objects := []client.Object{&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "paris"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}}
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
		found, failed, err := h.ReadPreview(t.Context(), written(t, evenPolicy))
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
		"ManagedCluster":           "ManagedClusters (which clusters would be chosen is not shown here)",
		"ResourceBinding":          "bindings of namespace shop (what is in which cluster now is not known here)",
		"ClusterPropagationPolicy": "ClusterPropagationPolicies (they do not count here)",
		"PropagationRollout":       "PropagationRollouts of namespace shop (whether clusters would get the change group by group is not shown here)",
		"Node":                     "Nodes (the hub is assumed to run no workloads itself)",
		"Deployment":               "deployments.apps of namespace shop (which of them the policies select does not count here)",
	} {
		found, _, err := newHub(t, 2, hidden).ReadPreview(t.Context(), written(t, evenPolicy))
		if err != nil {
			t.Errorf("without %s: %v", hidden, err)
			continue
		}
		if diff := cmp.Diff([]string{want}, found.unread); diff != "" {
			t.Errorf("without %s (-want +got):\n%s", hidden, diff)
		}
		if !strings.Contains(found.FormatText(), "You may not read "+want+".\n") {
			t.Errorf("without %s: the text is\n%s", hidden, found.FormatText())
		}
	}
}

func TestMistakesInFiles(t *testing.T) {
	for text, want := range map[string]string{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {generateName: a-}}":  "Deployment: metadata.name: Required value: an object without a name cannot be planned",
		"{apiVersion: example.com/v1, kind: Database, metadata: {name: orders}}": `Database "orders": the hub serves no kind Database of apiVersion example.com/v1`,
	} {
		_, failed, err := newHub(t, 0).ReadPreview(t.Context(), written(t, text))
		if err != nil || len(failed) != 1 || failed[0].Error() != want {
			t.Errorf("got %v, %v, want %q", failed, err, want)
		}
	}
	found, _, err := newHub(t, 0).ReadPreview(t.Context(), written(t, strings.Replace(evenPolicy, "kind: Deployment", "kind: Databases", 1)))
	if err != nil || !strings.Contains(found.FormatText(), `spec.resourceSelectors[0]: the hub serves no kind "Databases" of apiVersion apps/v1`) {
		t.Errorf("got %v, %v", found, err)
	}
}

// TestTheDeletionOfAPolicy has one of two policies go that claim Deployments.
func TestTheDeletionOfAPolicy(t *testing.T) {
	h := newHub(t, 3)
	h.Delete = true
	claim := func(number string, by *policyv1alpha1.PropagationPolicy, clusters ...string) {
		t.Helper()
		d, b := &appsv1.Deployment{}, &workv1alpha2.ResourceBinding{}
		if err := h.Client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web-" + number}, d); err != nil {
			t.Fatal(err)
		}
		marks := claims.MarksForPolicy(by)
		maps.Copy(d.Labels, marks.Labels)
		d.Annotations = marks.Annotations
		b.Namespace, b.Name, b.Labels, b.Annotations = "shop", d.Name+"-deployment", marks.Labels, marks.Annotations
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: d.Name}
		for _, cluster := range clusters {
			b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: cluster})
		}
		if err := errors.Join(h.Client.Update(t.Context(), d), h.Client.Create(t.Context(), b)); err != nil {
			t.Fatal(err)
		}
	}
	policy := func(name string, selector policyv1alpha1.ResourceSelector) *policyv1alpha1.PropagationPolicy {
		p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{policyv1alpha1.LabelPropagationPolicyID: name}}}
		selector.APIVersion, selector.Kind = "apps/v1", "Deployment"
		p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{selector}
		if err := h.Client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	even := policy("even", policyv1alpha1.ResourceSelector{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"even": "true"}}})
	policy("second", policyv1alpha1.ResourceSelector{Name: "web-02"})
	claim("00", even, "paris")
	claim("02", even, "rome")
	found, failed, err := h.ReadPreview(t.Context(), written(t, evenPolicy))
	if err != nil || len(failed) > 0 {
		t.Fatal(err, failed)
	}
	want := `PropagationPolicy shop/even (deleted)

Deployment shop/web-00, as of now: nothing would change in any cluster; PropagationPolicy shop/even would release it
   CLUSTER
   paris
No policy would claim it anymore. What is in the clusters stays there, and follows the object except for its replicas.

Deployment shop/web-02, as of now: 1 cluster gained, 1 cluster lost; PropagationPolicy shop/second would claim it, instead of PropagationPolicy shop/even
    CLUSTER   REPLICAS
+   paris     0 -> 1
-   rome
`
	if diff := cmp.Diff(want, found.FormatText()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web-00}}": `Deployment "web-00": only the deletion of policies is planned`,
		strings.Replace(evenPolicy, "name: even", "name: odd", 1):           `propagationpolicies.policy.karmada.io "odd" not found`,
	} {
		if _, failed, err := h.ReadPreview(t.Context(), written(t, text)); err != nil || len(failed) != 1 || failed[0].Error() != want {
			t.Errorf("got %v, %v, want %q", failed, err, want)
		}
	}
}

func TestWhatGoesAlong(t *testing.T) {
	const settled = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: new, labels: {even: "true"}}, spec: {template: {spec: {serviceAccountName: robot,
  containers: [{name: web, envFrom: [{configMapRef: {name: settings}}]}], volumes: [{name: v, secret: {secretName: keys}}]}}}}`
	const robot = `{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}, imagePullSecrets: [{name: registry}]}`
	sends := strings.Replace(evenPolicy, "spec: {", "spec: {propagateDeps: true, ", 1)
	for name, test := range map[string]struct {
		files []string
		want  string
	}{
		"nothing":       {[]string{evenPolicy, settled}, ""},
		"what it needs": {[]string{sends, settled}, "Along with it would go, too: ConfigMap settings, Secret keys, ServiceAccount robot.\n"},
	} {
		found, failed, err := newHub(t, 0).ReadPreview(t.Context(), written(t, test.files...))
		if err != nil || len(failed) > 0 || len(found.objects) != 1 {
			t.Errorf("%s: %v, %v, %+v", name, err, failed, found)
			continue
		}
		if got := found.objects[0].alongText(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	was := &workv1alpha2.ResourceBinding{}
	was.Namespace = "shop"
	was.Annotations = map[string]string{workv1alpha2.AnnotationDependencies: `[{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"old"},{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"keys"}]`}
	r := newHub(t, 0).Reader
	f := &previewFacts{declaredObjects: &declaredObjects{}, world: &forecast.HubState{Chain: interpret.Chain{native.NewKubernetesKinds()}}}
	f.templates = []*trial.Trial{{Then: written(t, strings.Replace(robot, "name: robot", "name: robot, namespace: shop", 1))[0]}}
	s := &previewSubject{objectKey: objectKey{namespace: "shop"}}
	s.Then, s.Binding = written(t, strings.Replace(settled, "name: new", "name: new, namespace: shop", 1))[0], was
	policy := &policyv1alpha1.PropagationPolicy{}
	policy.Spec.PropagateDeps = true
	all, err := r.alongObjects(t.Context(), f, s, forecast.ObjectForecast{Then: policy})
	if err != nil {
		t.Fatal(err)
	}
	want := "Along with it goes Secret keys.\nAlong with it would go, too: ConfigMap settings, Secret registry, ServiceAccount robot.\nAlong with it would not go any more: Secret old.\n"
	if got := (objectPreview{Along: all}).alongText(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if all, _ = r.alongObjects(t.Context(), f, s, forecast.ObjectForecast{}); (objectPreview{Along: all}).alongText() != "Along with it goes Secret keys, Secret old.\n" {
		t.Errorf("a policy lets go of it, and %+v goes along", all)
	}
}

func TestAHubWithoutPolicies(t *testing.T) {
	h := newHub(t, 0)
	r := Reader{Client: fake.NewClientBuilder().WithScheme(h.Client.Scheme()).WithRESTMapper(meta.NewDefaultRESTMapper(nil)).Build()}
	if _, _, err := r.ReadPreview(t.Context(), written(t, evenPolicy)); err == nil || !strings.Contains(err.Error(), "does not serve PropagationPolicies") {
		t.Errorf("got %v", err)
	}
	r.Beside = true
	found, failed, err := r.ReadPreview(t.Context(), written(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"))
	if err != nil || len(failed)+len(found.Items()) > 0 {
		t.Errorf("got %v, %v, %v", found, failed, err)
	}
}
