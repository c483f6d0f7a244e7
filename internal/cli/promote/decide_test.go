// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promote

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
)

// one is an object of namespace shop, changed by the function.
func one(apiVersion, kind, name string, change func(map[string]any)) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": "shop", "name": name},
	}}
	if change != nil {
		change(o.Object)
	}
	return o
}

func TestKindAndName(t *testing.T) {
	for text, want := range map[string][2]string{
		"deployment web": {"deployment", "web"}, "deployment/web": {"deployment", "web"}, "deployments.apps/web": {"deployments.apps", "web"},
		"deployment": {}, "deployment/": {}, "/web": {}, "deployment/web a": {}, "a/b/c": {}, "": {},
	} {
		kind, name, err := kindAndName(strings.Fields(text))
		if kind != want[0] || name != want[1] || (err == nil) != (want[0] != "") {
			t.Errorf("%q: got %q, %q, %v", text, kind, name, err)
		}
	}
}

func TestAnswers(t *testing.T) {
	p := &promotionRun{promoteOptions: &promoteOptions{cluster: "member1"}}
	secret := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	for name, c := range map[string]struct {
		live *unstructured.Unstructured
		name string
		want string
	}{
		"what was asked for":  {one("v1", "Secret", "keys", nil), "keys", ""},
		"one of a list":       {one("v1", "Secret", "keys", nil), "", ""},
		"another name":        {one("v1", "Secret", "other", nil), "keys", `answers with Secret "other" in namespace "shop"`},
		"another kind":        {one("v1", "ConfigMap", "keys", nil), "keys", `answers with ConfigMap "keys"`},
		"another version":     {one("v2", "Secret", "keys", nil), "keys", "answers with"},
		"another namespace":   {one("v1", "Secret", "keys", inKubeSystem), "keys", `in namespace "kube-system"`},
		"one of another list": {one("v1", "Secret", "keys", inKubeSystem), "", `in namespace "kube-system"`},
	} {
		err := p.checkAnswer(c.live, secret, "shop", c.name)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func inKubeSystem(o map[string]any) {
	o["metadata"].(map[string]any)["namespace"] = "kube-system" //nolint:forcetypeassert // of our own
}

// TestStays is about what an object refers to that each cluster has of its own.
func TestStays(t *testing.T) {
	of := func(kind string) func(map[string]any) { return func(o map[string]any) { o["type"] = kind } }
	owned := func(controller bool) func(map[string]any) {
		return func(o map[string]any) {
			o["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{ //nolint:forcetypeassert // of our own
				"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "1", "controller": controller,
			}}
		}
	}
	for name, c := range map[string]struct {
		object *unstructured.Unstructured
		want   bool
	}{
		"the default account":        {one("v1", "ServiceAccount", "default", nil), true},
		"another account":            {one("v1", "ServiceAccount", "web", nil), false},
		"the authorities":            {one("v1", "ConfigMap", "kube-root-ca.crt", nil), true},
		"another map":                {one("v1", "ConfigMap", "config", nil), false},
		"a token":                    {one("v1", "Secret", "token", of("kubernetes.io/service-account-token")), true},
		"a token by which to join":   {one("v1", "Secret", "token", of("bootstrap.kubernetes.io/token")), true},
		"another secret":             {one("v1", "Secret", "keys", of("Opaque")), false},
		"what a controller makes":    {one("v1", "PersistentVolumeClaim", "data", owned(true)), true},
		"what another object owns":   {one("v1", "PersistentVolumeClaim", "data", owned(false)), false},
		"what has a type and no key": {one("example.com/v1", "Thing", "a", of("bootstrap.kubernetes.io/token")), false},
	} {
		if got := staysInCluster(c.object); got != c.want {
			t.Errorf("%s: stays is %t", name, got)
		}
	}
}

// TestSame compares the object in a cluster with the one of its name on the hub.
func TestSame(t *testing.T) {
	chain := interpret.Chain{native.NewKubernetesKinds()}
	with := func(replicas int64, more func(map[string]any)) *unstructured.Unstructured {
		return one("apps/v1", "Deployment", "web", func(o map[string]any) {
			o["spec"] = map[string]any{"replicas": replicas}
			if more != nil {
				more(o)
			}
		})
	}
	running := with(1, func(o map[string]any) {
		o["status"] = map[string]any{"replicas": int64(1)}
		metadata := o["metadata"].(map[string]any) //nolint:forcetypeassert // of our own
		metadata["uid"], metadata["resourceVersion"] = "1", "2"
		metadata["annotations"] = map[string]any{"deployment.kubernetes.io/revision": "3"}
	})
	if !equalContent(chain, running, with(1, nil)) {
		t.Error("what the API server and controllers wrote makes it another one")
	}
	if equalContent(chain, running, with(2, nil)) {
		t.Error("with other replicas it is the same")
	}
}

// TestADependencyGoesWhereTheUserSays: the labels of what an object refers to are what the cluster
// says, and a policy that selects by them would send its Secrets to other clusters.
func TestADependencyGoesWhereTheUserSays(t *testing.T) {
	byLabel := policyv1alpha1.PropagationSpec{ResourceSelectors: []policyv1alpha1.ResourceSelector{{
		APIVersion: "v1", Kind: "Secret", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"share": "all"}},
	}}}
	about := metav1.ObjectMeta{Namespace: "shop", Name: "p"}
	labelled := one("v1", "Secret", "keys", func(o map[string]any) { o["metadata"].(map[string]any)["labels"] = map[string]any{"share": "all"} }) //nolint:forcetypeassert // of our own
	for name, c := range map[string]struct {
		object *unstructured.Unstructured
		policy policyv1alpha1.Policy
		want   string
	}{
		"nobody selects it": {one("v1", "Secret", "keys", nil), &policyv1alpha1.PropagationPolicy{ObjectMeta: about, Spec: byLabel}, ""},
		"one of its namespace": {
			labelled, &policyv1alpha1.PropagationPolicy{ObjectMeta: about, Spec: byLabel}, "PropagationPolicy shop/p would claim Secret (shop/keys), which Deployment shop/web refers to",
		},
		"one of the fleet": {
			labelled, &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: byLabel}, "ClusterPropagationPolicy p would claim Secret (shop/keys)",
		},
	} {
		p := &promotionRun{
			promoteOptions: &promoteOptions{cluster: "member1", namespace: "shop"}, others: []policyv1alpha1.Policy{c.policy}, name: "web",
			kind: &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}}, reads: fake.NewClientBuilder().Build(), plan: promotionPlan{template: one("apps/v1", "Deployment", "web", nil)},
		}
		err := p.checkDependencyOnHub(t.Context(), c.object)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestAClusterSelectsWhatItIsAskedFor: a cluster answers a list with objects that the selector does
// not match.
func TestAClusterSelectsWhatItIsAskedFor(t *testing.T) {
	app := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": name}}}
	}
	lying := fake.NewClientBuilder().WithObjects(app("web"), app("db")).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			return c.List(ctx, list)
		},
	}).Build()
	p := &promotionRun{promoteOptions: &promoteOptions{cluster: "member1", namespace: "shop"}, there: &member.Member{Client: lying}}
	found, err := p.readDependency(t.Context(), interpret.Dependency{
		APIVersion: "v1", Kind: "Secret", Namespace: "shop", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	})
	if err != nil || len(found) != 1 || found[0].GetName() != "web" {
		t.Errorf("got %v and error %v, want the one that the selector matches", found, err)
	}
}
