// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestWhatTheAgentMayNotIsGrantedByCommands reads the commands that the condition has. A member
// that names a resource so that a shell would do something else gets none.
func TestWhatTheAgentMayNotIsGrantedByCommands(t *testing.T) {
	for name, c := range map[string]struct {
		group, resource, want string
	}{
		"a group": {group: "storage.k8s.io", resource: "csidrivers", want: "verbs [get list watch create patch delete]: " +
			"kubectl create clusterrole work-csidrivers.storage.k8s.io --verb=get,list,watch,create,patch,delete --resource=csidrivers.storage.k8s.io && " +
			"kubectl label clusterrole work-csidrivers.storage.k8s.io open-cluster-management.io/aggregate-to-work=true. The API server says"},
		"no group":              {resource: "endpoints", want: "kubectl create clusterrole work-endpoints --verb=get,list,watch,create,patch,delete --resource=endpoints && "},
		"a command":             {group: "example.com", resource: "a;reboot"},
		"a substitution":        {group: "$(reboot)", resource: "widgets"},
		"a flag":                {resource: "--as=admin"},
		"a line":                {group: "example.com", resource: "widgets\nreboot"},
		"longer than any names": {group: "example.com", resource: strings.Repeat("w", 300)},
	} {
		t.Run(name, func(t *testing.T) {
			err := apierrors.NewForbidden(schema.GroupResource{Group: "g", Resource: "r"}, "o", errors.New(`User "a" cannot patch resource "r"`))
			message := ExplainError(err, "patch", ObjectRef{Group: c.group, Resource: c.resource, Name: "o"}).Message
			if got := strings.Contains(message, "kubectl"); got != (c.want != "") || !strings.Contains(message, c.want) {
				t.Errorf("%q does not have %q", message, c.want)
			}
			if !strings.Contains(message, "Create a ClusterRole on the managed cluster with the label open-cluster-management.io/aggregate-to-work=true") {
				t.Errorf("%q does not say what to create", message)
			}
		})
	}
}
