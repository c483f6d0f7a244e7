// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// TestARequestDoesNotGetAClusterRevoked is a request that a stranger has made under
// the name of a cluster that is accepted, and an administrator who denies it.
func TestARequestDoesNotGetAClusterRevoked(t *testing.T) {
	for name, c := range map[string]struct {
		reason                  string
		accepted, revoke        bool
		wantAccepted, wantError bool
	}{
		"a cluster that waits":    {reason: "its requests are all that there is to deny"},
		"an accepted cluster":     {reason: "it may work, or be silent for a while", accepted: true, wantAccepted: true, wantError: true},
		"revoked with the option": {reason: "the administrator says so", accepted: true, revoke: true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, request := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}, asks(t, "c1-junk", "c1")
			cluster.Spec.HubAcceptsClient = c.accepted
			// What an agent may fill up to the limit of an object.
			cluster.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "agent", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: clusterv1.GroupVersion.String(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}")}}
			hubClient := fakeHub(t, cluster, request).Build()
			session := hub.NewSession(genericiooptions.NewTestIOStreamsDiscard(), clock.RealClock{})
			d := &denyCommand{session: session, read: hubClient, write: hubClient, revoke: c.revoke}
			err := d.denyCluster(t.Context(), "c1")
			if (err != nil) != c.wantError || err != nil && !strings.Contains(exit.FormatError(err), "kubectl certificate deny c1-junk") {
				t.Errorf("the administrator is told: %v", err)
			}
			if err := hubClient.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
				t.Fatal(err)
			}
			if err := hubClient.Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil {
				t.Fatal(err)
			}
			if !c.wantAccepted && c.accepted && slices.ContainsFunc(cluster.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == "agent" }) {
				t.Errorf("there may be no room for the change beside %+v", cluster.ManagedFields)
			}
			denied := len(request.Status.Conditions) == 1 && request.Status.Conditions[0].Type == certificatesv1.CertificateDenied &&
				request.Status.Conditions[0].Status == corev1.ConditionTrue
			if cluster.Spec.HubAcceptsClient != c.wantAccepted || denied == c.wantError {
				t.Errorf("accepted is %t, and the request is denied: %t; %s", cluster.Spec.HubAcceptsClient, denied, c.reason)
			}
		})
	}
}
