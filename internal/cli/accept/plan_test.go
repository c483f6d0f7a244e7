// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/requests"
)

// TestAPushClusterBecomesPullOnlyIfTheUserSaysSo: a request alone, which any
// bootstrap token can make, must not take a cluster from the push agent.
func TestAPushClusterBecomesPullOnlyIfTheUserSaysSo(t *testing.T) {
	f := facts{cluster: &clusterv1.ManagedCluster{}, connection: &fleetv1alpha1.ClusterConnection{}}
	f.cluster.Name, f.cluster.Spec.HubAcceptsClient = "east", true
	f.connection.Spec.SyncMode = fleetv1alpha1.SyncModePush
	request := &certificatesv1.CertificateSigningRequest{}
	request.Name = "east-1"
	f.requests.Ready = []requests.Ready{{Request: request, Agent: "a"}}

	_, err := decide(f)
	if text := exit.Text(err); !strings.Contains(text, "--request NAME") || !strings.Contains(text, "Pull") {
		t.Errorf("without a choice: %s", text)
	}
	f.chosen = "east-1"
	p, err := decide(f)
	if err != nil || !p.pull || len(p.approve) != 1 || p.accept {
		t.Errorf("the request is chosen, and the plan is %+v (%v)", p, err)
	}
	f.connection.Spec.SyncMode = fleetv1alpha1.SyncModePull
	if p, err = decide(f); err != nil || p.pull {
		t.Errorf("a Pull cluster has nothing to change, and the plan is %+v (%v)", p, err)
	}
}
