// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"fmt"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestOthersRequestsDoNotStopARenewal has a hub with requests in the name of the cluster,
// which anybody can make who may ask to join.
func TestOthersRequestsDoNotStopARenewal(t *testing.T) {
	own, err := newApplication(identity{Cluster: "c", Agent: "one"}, "https://hub")
	expect.NoError(t, err)
	cases := map[string]struct {
		username string
		requests int
		answered bool
		want     string
	}{
		"of a bootstrap token":      {username: "system:bootstrap:abcdef", requests: 100},
		"of another agent":          {username: clusterv1.AgentUser("c", "two"), requests: 100},
		"its own":                   {username: clusterv1.AgentUser("c", "one"), requests: clusterv1.CSRsPerAgentMax, want: `of agent "system:open-cluster-management:c:one"`},
		"its own that are answered": {username: clusterv1.AgentUser("c", "one"), requests: 100, answered: true},
		"a few of its own":          {username: clusterv1.AgentUser("c", "one"), requests: clusterv1.CSRsPerAgentMax - 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			expect.NoError(t, certificatesv1.AddToScheme(scheme))
			var objects []client.Object
			for i := range tc.requests {
				request, err := own.buildCSR(0)
				expect.NoError(t, err)
				request.Name, request.Spec.Username = fmt.Sprint("c-", i), tc.username
				if tc.answered {
					request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
				}
				objects = append(objects, request)
			}
			hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
			err := checkPendingCSRs(t.Context(), hub, own, func(_ string, err error) error { return err })
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("the agent does not renew its certificate: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || stepReasonOf(err) != operatorv1.JoinReasonTooManyPendingCSRs):
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}
