// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// TestAClientThatIsMadeKeepsNoOtherWaiting uses another hub's client while one is made,
// which would not end.
func TestAClientThatIsMadeKeepsNoOtherWaiting(t *testing.T) {
	now := time.Now()
	signer, err := certs.NewAuthority("client-ca", now)
	expect.NoError(t, err)
	walk := func(name string) *controlPlanePass {
		plane := &fleetv1alpha1.ControlPlane{}
		plane.Name = name
		p := newControlPlanePass(&install.ReconcilePass[*fleetv1alpha1.ControlPlane]{Object: plane})
		p.bundles[manifests.ServingAuthority], p.signers[manifests.ClientAuthority] = signer.CertPEM, signer
		return p
	}
	var all *hubClients
	made := 0
	all = newHubClients(func(*rest.Config) (client.Client, error) {
		if made++; made == 1 {
			if _, err := all.clientForPass(walk("other")); err != nil {
				t.Error(err)
			}
			all.forgetClient(types.NamespacedName{Name: "none"})
		}
		return nil, nil
	}, clocktesting.NewFakePassiveClock(now))
	for range 2 { // the second time it is known
		if _, err := all.clientForPass(walk("one")); err != nil {
			t.Fatal(err)
		}
	}
	if made != 2 {
		t.Errorf("%d clients were made, want one for each hub", made)
	}
}
