// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package reserved

import "testing"

func TestNamespace(t *testing.T) {
	for name, want := range map[string]NamespaceOwner{
		"shop": Nobody, "default": Nobody, "kubernetes": Nobody, "openshift": Nobody, "open-cluster-managementx": Nobody, "": Nobody,
		"kube-system": Kubernetes, "openshift-etcd": OpenShift,
		"open-cluster-management": Fleet, "open-cluster-management-agent": Fleet, "karmada-system": Fleet, "karmada-cluster": Fleet,
		"karmada-es-member1": Fleet, "capstan-cluster": Fleet,
	} {
		if got := OwnerOfNamespace(name); got != want {
			t.Errorf("Namespace(%q) = %q, want %q", name, got, want)
		}
	}
}
