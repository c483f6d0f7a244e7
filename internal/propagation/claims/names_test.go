// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestReservedNamespace(t *testing.T) {
	for namespace, want := range map[string]bool{
		"default": false, "shop": false, "capstan": false, "kubernetes": false, "karmada": false, "my-open-cluster-management": false,
		"kube-system": true, "kube-node-lease": true, "karmada-system": true, "karmada-cluster": true, "karmada-es-member1": true,
		"open-cluster-management": true, "open-cluster-management-agent": true, "open-cluster-management-other-klusterlet": true,
		"capstan-cluster": true,
	} {
		if got := ReservedNamespace(namespace); got != want {
			t.Errorf("ReservedNamespace(%q) = %t, want %t", namespace, got, want)
		}
	}
}

func TestReserved(t *testing.T) {
	for want, of := range map[string][2]string{
		"": {"Deployment", "shop"},
		"nothing of namespace kube-system is sent to clusters: it is reserved": {"Deployment", "kube-system"},
		"Node is never sent to clusters: it is a machine of the hub":           {"Node", ""},
	} {
		if got := Reserved(schema.GroupKind{Kind: of[0]}, of[1]); got != want {
			t.Errorf("%v: got %q, want %q", of, got, want)
		}
	}
}
