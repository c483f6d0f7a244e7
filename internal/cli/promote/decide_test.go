// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promote

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
