// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/kube/access"
)

// requester is somebody who makes certificate requests.
type requester struct {
	user   string
	groups []string
}

func token(id string) requester {
	return requester{user: "system:bootstrap:" + id, groups: []string{clusterv1.GroupBootstrappers}}
}

func agentNamed(cluster, agent string) requester {
	return requester{user: clusterv1.AgentUser(cluster, agent), groups: []string{clusterv1.AgentGroup(cluster), clusterv1.GroupManagedClusters}}
}

// limiter is a requestLimiter whose informer shows what the test says.
type limiter struct {
	*requestLimiter
	t *testing.T
}

func newLimiter(t *testing.T, perUser int, accepts bool) limiter {
	t.Helper()
	shown := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexByKey())
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	return limiter{t: t, requestLimiter: &requestLimiter{
		tally:   newWaitTally("certificate requests wait for approval", now, shown, func() bool { return true }),
		perUser: perUser,
		access: access.ReviewerFunc(func(context.Context, authenticationv1.UserInfo, authorizationv1.ResourceAttributes) (bool, string, error) {
			return accepts, "", nil
		}),
	}}
}

func csrOf(name, cluster string) *certificatesv1.CertificateSigningRequest {
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if cluster != "" {
		csr.Labels = map[string]string{clusterv1.LabelClusterName: cluster}
	}
	return csr
}

// asks has somebody make a request, and returns why it is refused, if it is.
func (l limiter) asks(by requester, name, cluster string) string {
	l.t.Helper()
	raw, err := json.Marshal(csrOf(name, cluster))
	if err != nil {
		l.t.Fatal(err)
	}
	response := l.Handle(l.t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: types.UID(name), Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
		UserInfo: authenticationv1.UserInfo{Username: by.user, Groups: by.groups},
	}})
	if response.Allowed {
		return ""
	}
	return response.Result.Message
}

// byTheHub says that the hub has approved a request by itself.
const byTheHub certificatesv1.RequestConditionType = "ByTheHub"

// shows has the informer show a request, with a condition if it is decided about.
func (l limiter) shows(by requester, name, cluster string, decided ...certificatesv1.RequestConditionType) {
	l.t.Helper()
	csr := csrOf(name, cluster)
	csr.Spec.Username, csr.Spec.Groups = by.user, by.groups
	for _, kind := range decided {
		if kind == byTheHub {
			csr.Status.Conditions[0].Reason = clusterv1.CSRReasonAutoApproved
			continue
		}
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind})
	}
	kept, err := keepRequest(csr)
	if err == nil {
		err = l.tally.shown.Update(kept)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l limiter) wants(refused string, got string) {
	l.t.Helper()
	if (refused == "") != (got == "") || !strings.Contains(got, refused) {
		l.t.Errorf("refused with %q, want %q", got, refused)
	}
}

func TestRequestsOfAUserAreLimited(t *testing.T) {
	l := newLimiter(t, 3, false)
	anna, berta := token("anna"), token("berta")
	l.shows(anna, "a-1", "one")
	l.shows(anna, "a-2", "", certificatesv1.CertificateDenied)
	l.wants("", l.asks(anna, "a-3", ""))
	l.wants("", l.asks(anna, "a-4", "two"))
	l.wants(`3 certificate requests of user "system:bootstrap:anna" wait for approval, and there may not be more`, l.asks(anna, "a-5", "three"))
	l.wants("", l.asks(anna, "a-4", "two")) // its name is taken, which the API server says
	l.wants("", l.asks(berta, "b-1", "two"))

	l.shows(anna, "a-4", "two")
	l.wants("of user", l.asks(anna, "a-5", "three"))
	l.shows(anna, "a-4", "two", certificatesv1.CertificateApproved)
	l.wants("", l.asks(anna, "a-5", "three"))
	l.wants("of user", l.asks(anna, "a-6", "four"))
}

func TestWhoMayAcceptClustersIsNotLimited(t *testing.T) {
	l := newLimiter(t, 3, true)
	for i := range 10 {
		l.wants("", l.asks(token("anna"), fmt.Sprint("a-", i), fmt.Sprint("c-", i)))
	}
}

func TestRequestsOfAllWhoAskToJoinAreLimited(t *testing.T) {
	l := newLimiter(t, 2, false)
	for i := range usersTogether {
		l.shows(token(fmt.Sprint(i)), fmt.Sprint("x-", i), fmt.Sprint("x-", i))
		l.shows(token(fmt.Sprint(i)), fmt.Sprint("y-", i), "")
	}
	l.wants("20 certificate requests of all who ask to join", l.asks(token("new"), "new", "new"))
	l.wants("", l.asks(agentNamed("c", "one"), "renewal", "c")) // an agent does not ask to join
}

// TestNobodyElseFillsTheNameOfACluster is for agents of Open Cluster Management, which
// renew nothing while ten requests in the name of their cluster wait.
func TestNobodyElseFillsTheNameOfACluster(t *testing.T) {
	l := newLimiter(t, 1000, false)
	by := []requester{token("anna"), token("berta"), agentNamed("other", "one"), {user: "joiner"}}
	waiting := 0
	for i := range 100 {
		if l.asks(by[i%len(by)], fmt.Sprint("c-", i), "c") == "" {
			waiting++
		}
	}
	if waiting != requestsForClusterMax || waiting >= clusterv1.CSRsPerAgentMax {
		t.Errorf("%d requests of others wait in the name of a cluster, want %d", waiting, requestsForClusterMax)
	}
	l.wants(`in the name of cluster "c", which its agents have not made`, l.asks(token("anna"), "more", "c"))
	l.wants("", l.asks(agentNamed("c", "one"), "renewal", "c"))
}

// TestABoundTokenFillsNoOtherName has a token that is bound to names ask in the name of another cluster,
// as often as requests may wait for that.
func TestABoundTokenFillsNoOtherName(t *testing.T) {
	l := newLimiter(t, 1000, false)
	edge := token("edge00")
	edge.groups = append(edge.groups, clusterv1.GroupBootstrappers+":prefix:edge-:x")
	for i := range requestsForClusterMax {
		l.wants(`bound to other cluster names than "prod-1": edge-*`, l.asks(edge, fmt.Sprint("e-", i), "prod-1"))
	}
	l.wants("", l.asks(token("prod00"), "prod-1", "prod-1"))
	l.wants("", l.asks(edge, "edge-1", "edge-1"))
	l.wants("", l.asks(edge, "unlabelled", ""))
	edge.groups = append(edge.groups, clusterv1.GroupBootstrappers+":name:prod-1")
	l.wants("", l.asks(edge, "prod-1b", "prod-1"))
}

// TestRequestsOfTheAgentsOfAClusterAreLimited has agents of one cluster, of which there may be any number,
// make requests that the hub approves as renewals, and others.
func TestRequestsOfTheAgentsOfAClusterAreLimited(t *testing.T) {
	l := newLimiter(t, 0, false) // whatever the limit of others is
	for i := range requestsOfAgentsMax {
		by, name := agentNamed("c", fmt.Sprint("agent-", i%7)), fmt.Sprint("c-", i)
		l.wants("", l.asks(by, name, "c"))
		l.shows(by, name, "c", []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved}[:i%2]...)
	}
	l.wants("there are 40 certificate requests of the agents", l.asks(agentNamed("c", "agent-0"), "more", "c"))
	l.wants("there are 40 certificate requests of the agents", l.asks(agentNamed("c", "new"), "more", ""))
	l.wants("", l.asks(agentNamed("d", "agent-0"), "other", "d"))
}

// TestWhatTheHubApprovesForATokenCounts has a token whose clusters the hub accepts by itself ask again and
// again, for which no administrator has looked at anything.
func TestWhatTheHubApprovesForATokenCounts(t *testing.T) {
	l := newLimiter(t, 3, false)
	named := requester{user: "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"}
	for i := range 3 {
		for who, by := range map[string]requester{"t": token("edge00"), "n": named} {
			name := fmt.Sprint(who, "-", i)
			l.wants("", l.asks(by, name, name))
			l.shows(by, name, name, certificatesv1.CertificateApproved, byTheHub)
		}
	}
	l.wants("Those that the hub has approved automatically count, too", l.asks(token("edge00"), "more", "more"))
	l.wants("", l.asks(named, "many-join-with-it", "n-3"))
	if err := l.tally.shown.Delete(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "t-0"}}); err != nil {
		t.Fatal(err)
	}
	l.wants("", l.asks(token("edge00"), "later", "later"))
}

// TestAFloodOfRequestsIsBounded makes more requests at once than the informer shows
// meanwhile.
func TestAFloodOfRequestsIsBounded(t *testing.T) {
	const limit, creations = 100, 2000
	l := newLimiter(t, limit, false)
	var admitted atomic.Int64
	var all sync.WaitGroup
	for i := range creations {
		all.Go(func() {
			if l.asks(token("anna"), fmt.Sprint("c-", i), fmt.Sprint("c-", i)) == "" {
				admitted.Add(1)
			}
		})
	}
	all.Wait()
	if got := admitted.Load(); got != limit {
		t.Errorf("of %d requests at once, %d were let through, want %d", creations, got, limit)
	}
}
