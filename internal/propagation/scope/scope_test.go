// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestServes(t *testing.T) {
	deployments := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	labelled := map[string]string{"fleet.capstan.io/templates": "true"}
	cases := map[string]struct {
		hub    Hub
		kind   schema.GroupKind
		labels map[string]string
		serves bool
		owns   bool
	}{
		"a hub of its own":                     {Hub{}, deployments, nil, true, false},
		"a shared hub":                         {Hub{Runs: true}, deployments, nil, false, true},
		"the label":                            {Hub{Runs: true}, deployments, labelled, true, true},
		"the label with another value":         {Hub{Runs: true}, deployments, map[string]string{"fleet.capstan.io/templates": "false"}, false, true},
		"a core kind":                          {Hub{Runs: true}, schema.GroupKind{Kind: "ConfigMap"}, nil, false, true},
		"a group with dots":                    {Hub{Runs: true}, schema.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}, nil, false, true},
		"a kind of the user":                   {Hub{Runs: true}, schema.GroupKind{Group: "example.com", Kind: "Deployment"}, nil, true, false},
		"a kind of a project of Kubernetes":    {Hub{Runs: true}, schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "Gateway"}, nil, true, false},
		"a kind that is declared by an add-on": {Hub{Runs: true}, schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshot"}, nil, true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.hub.ServesKind(c.kind, c.labels); got != c.serves {
				t.Errorf("Serves = %v, want %v", got, c.serves)
			}
			if got := c.hub.OwnsKind(c.kind); got != c.owns {
				t.Errorf("Owns = %v, want %v", got, c.owns)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	for namespace, want := range map[string]string{
		"":     "this hub is an ordinary cluster, whose own controllers act on kind Deployment: label it fleet.capstan.io/templates=true to have it sent to clusters as well",
		"shop": `this hub is an ordinary cluster, whose own controllers act on kind Deployment: label namespace "shop" fleet.capstan.io/templates=true to have it sent to clusters as well`,
	} {
		if got := RefusalReason("Deployment", namespace); got != want {
			t.Errorf("Refusal(%q) = %q, want %q", namespace, got, want)
		}
	}
}
