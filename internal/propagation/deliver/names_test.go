// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"strings"
	"testing"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// TestWorksHaveTheNamesThatClientsCompute has the names that Karmada's clients look
// for. That of the Deployment is in its documentation; the others were computed
// apart from WorkName.
func TestWorksHaveTheNamesThatClientsCompute(t *testing.T) {
	for name, test := range map[string]struct{ kind, namespace, name, want string }{
		"of a namespace":   {"Deployment", "default", "nginx", "nginx-687f7fb96f"},
		"of the hub":       {"ClusterRole", "", "viewer", "viewer-d7c44f56"},
		"of a role":        {"ClusterRole", "", "system:Viewer", "system.viewer-68f59547f"},
		"of a longer name": {"ConfigMap", "shop", strings.Repeat("n", 253), strings.Repeat("n", 177) + "-79875fc45f"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := WorkName(test.kind, test.namespace, test.name); got != test.want {
				t.Errorf("the works are called %q, want %q", got, test.want)
			}
		})
	}
}

// TestWorksHaveTheNameOfTheirObject has two kinds called Deployment: the binding of
// the second has the group in its name. The hashes were computed apart from WorkName.
func TestWorksHaveTheNameOfTheirObject(t *testing.T) {
	for name, test := range map[string]struct {
		binding string
		of      workv1alpha2.ObjectReference
		want    string
	}{
		"of a namespace": {
			"nginx-deployment", workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "nginx"}, "nginx-687f7fb96f",
		},
		"of the hub": {"viewer-clusterrole", workv1alpha2.ObjectReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "viewer"}, "viewer-d7c44f56"},
		"the second of the name": {
			"nginx-deployment.example.com",
			workv1alpha2.ObjectReference{APIVersion: "example.com/v1", Kind: "Deployment", Namespace: "default", Name: "nginx"},
			"nginx-55bd9d9c6b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &workv1alpha2.ResourceBinding{Spec: workv1alpha2.ResourceBindingSpec{Resource: test.of}}
			b.Name = test.binding
			if got := NameOfWorks(b); got != test.want {
				t.Errorf("the works are called %q, want %q", got, test.want)
			}
		})
	}
}
