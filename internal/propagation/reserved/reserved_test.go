// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package reserved

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestKind(t *testing.T) {
	cases := map[string]struct {
		kind schema.GroupKind
		want string
	}{
		"a workload":                      {schema.GroupKind{Group: "apps", Kind: "Deployment"}, ""},
		"a kind of the user":              {schema.GroupKind{Group: "example.com", Kind: "Event"}, ""},
		"a Secret":                        {schema.GroupKind{Kind: "Secret"}, ""},
		"a kind of the Multicluster API":  {schema.GroupKind{Group: "multicluster.x-k8s.io", Kind: "ServiceImport"}, ""},
		"an event":                        {schema.GroupKind{Kind: "Event"}, record},
		"an event of the newer group":     {schema.GroupKind{Group: "events.k8s.io", Kind: "Event"}, record},
		"a node":                          {schema.GroupKind{Kind: "Node"}, machine},
		"a certificate request":           {schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}, identity},
		"what limits the controller":      {schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}, gate},
		"a work":                          {schema.GroupKind{Group: "work.open-cluster-management.io", Kind: "ManifestWork"}, fleet},
		"a policy":                        {schema.GroupKind{Group: "policy.karmada.io", Kind: "PropagationPolicy"}, fleet},
		"whatever a later release brings": {schema.GroupKind{Group: "fleet.capstan.io", Kind: "Later"}, fleet},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := KindReservedReason(c.kind); got != c.want {
				t.Errorf("Kind(%v) = %q, want %q", c.kind, got, c.want)
			}
		})
	}
}

func TestObjectsOfTheHubItself(t *testing.T) {
	for name, c := range map[string]struct {
		kind     schema.GroupKind
		label    string
		reserved bool
	}{
		"its namespace":           {schema.GroupKind{Kind: "Namespace"}, "karmada", true},
		"an account":              {schema.GroupKind{Kind: "ServiceAccount"}, "karmada", true},
		"a role":                  {schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, "karmada", true},
		"a namespace of a tenant": {schema.GroupKind{Kind: "Namespace"}, "", false},
		"a definition":            {schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, "karmada", false},
	} {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "karmada"}}
		if c.label != "" {
			object.Labels = map[string]string{"open-cluster-management.io/created-by-clustermanager": c.label}
		}
		if why := ObjectReservedReason(c.kind, object); (why != "") != c.reserved {
			t.Errorf("%s: %q, want it reserved: %t", name, why, c.reserved)
		}
	}
}
