// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import "testing"

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
