// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"strings"
	"testing"
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
