// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

// TestAClusterIsToldThatComesAfterItsRequest has a request that is seen before its
// cluster: what was told about the request does not keep the cluster from being told.
func TestAClusterIsToldThatComesAfterItsRequest(t *testing.T) {
	recorder := events.NewFakeRecorder(4)
	c := NewCSRApprovalController(CSRApprovalDeps{Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), Events: recorder})
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r", Labels: map[string]string{clusterv1.LabelClusterName: "edge"}}}
	refused := policy.RequestDecision{Verdict: policy.Refuse, Reason: policy.ReasonTokenBound, Message: "no"}
	known := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	for _, mc := range []*clusterv1.ManagedCluster{{}, known, known} {
		c.warnRefused(csr, mc, refused)
	}
	close(recorder.Events)
	var told []string
	for event := range recorder.Events {
		told = append(told, event)
	}
	if len(told) != 2 || !strings.Contains(told[1], `"r"`) {
		t.Errorf("got %q, want one event about the request and one about its cluster", told)
	}
}
