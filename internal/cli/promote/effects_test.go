// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promote

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestWhatTakesEffectOnTheHubIsNotPromoted promotes what the owner of a cluster has written:
// pods with it run on a hub that has nodes, and roles grant something on any hub.
func TestWhatTakesEffectOnTheHubIsNotPromoted(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	space := func(labels map[string]string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: labels}}
	}
	templates := space(map[string]string{"fleet.capstan.io/templates": "true"})
	deployment, custom := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Shop"}
	role := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}
	for name, c := range map[string]struct {
		kind schema.GroupVersionKind
		hub  []client.Object
		want string
	}{
		"a hub of its own":               {deployment, []client.Object{space(nil)}, ""},
		"a hub that runs pods":           {deployment, []client.Object{node, space(nil)}, "Deployment shop/web would take effect on the hub as in cluster member1"},
		"a namespace that is not there":  {deployment, []client.Object{node}, "would take effect on the hub"},
		"a namespace of templates":       {deployment, []client.Object{node, templates}, ""},
		"a kind that the hub only has":   {custom, []client.Object{node, space(nil)}, ""},
		"a role":                         {role, []client.Object{space(nil)}, "RoleBinding shop/web would grant on the hub what somebody in cluster member1 has written"},
		"a role in a place of templates": {role, []client.Object{node, templates}, "would grant on the hub"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &promotionRun{
				promoteOptions: &promoteOptions{cluster: "member1", namespace: "shop"}, name: "web", kind: &meta.RESTMapping{GroupVersionKind: c.kind},
				reads: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(c.hub...).Build(),
			}
			err := p.checkInertOnHub(t.Context())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	p := &promotionRun{promoteOptions: &promoteOptions{cluster: "member1"}, name: "web", kind: &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}}}
	p.reads = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(node).Build()
	if err := p.checkInertOnHub(t.Context()); err == nil {
		t.Error("the labels that an object has in the cluster count on the hub, too")
	}
}
