// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// TestWhatClustersSayMovesNoCursor lets a cluster say of itself what moves the cursor of a terminal.
func TestWhatClustersSayMovesNoCursor(t *testing.T) {
	w := takeHub(t)
	const up = "fine\x1b[1A\u009b1A\u202e"
	liar := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "liar"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	if err := w.Client.Create(t.Context(), liar); err != nil {
		t.Fatal(err)
	}
	liar.Status.Version.Kubernetes = up
	liar.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "id.k8s.io", Value: up}}
	liar.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionFalse, Reason: "Why", Message: up, LastTransitionTime: metav1.Now(),
	}}
	if err := w.Client.Status().Update(t.Context(), liar); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"get clusters", "get clusters -o yaml", "get clusters -o json", "describe cluster liar", "doctor liar"} {
		var out, errOut bytes.Buffer
		callInto(t, &out, &errOut, strings.Fields(command)...)
		text := out.String() + errOut.String()
		if !strings.Contains(text, "liar") {
			t.Errorf("%s does not tell of the cluster:\n%s", command, text)
		}
		if strings.ContainsAny(text, "\x1b\u009b\u202e") {
			t.Errorf("%s prints what moves the cursor: %q", command, text)
		}
	}
}
