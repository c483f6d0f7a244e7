// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// The paths of a lease and of a review in the API server.
const (
	leasesPath  = "/apis/coordination.k8s.io/v1/namespaces/cluster1/leases"
	reviewsPath = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
)

// hubRequest is one of somebody else to the API server of the hub.
type hubRequest struct {
	user, group, method, path string
}

// hubAnswer is what the API server of the hub answers, without the body.
type hubAnswer struct {
	status int
	header http.Header
}

// sendAs sends a request with a body that may never come.
func (l *lab) sendAs(ctx context.Context, t testing.TB, transport http.RoundTripper, r hubRequest, body io.Reader) (hubAnswer, error) {
	t.Helper()
	server, _, err := rest.DefaultServerUrlFor(l.adminConfig)
	expect.NoError(t, err)
	request, err := http.NewRequestWithContext(ctx, r.method, server.JoinPath(r.path).String(), body)
	expect.NoError(t, err)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return hubAnswer{}, err
	}
	return hubAnswer{response.StatusCode, response.Header}, response.Body.Close()
}

// transportOf returns what sends requests of the user.
func (l *lab) transportOf(t testing.TB, r hubRequest) http.RoundTripper {
	t.Helper()
	groups := []string{"system:authenticated"}
	if r.group != "" {
		groups = append(groups, r.group)
	}
	transport, err := rest.TransportFor(cluster.AsUser(l.adminConfig, r.user, groups...))
	expect.NoError(t, err)
	return transport
}

// answersFirst asks the API server where it puts requests: the answer names the
// FlowSchema, and the level.
func (l *lab) answersFirst(t testing.TB) {
	t.Helper()
	for what, c := range map[string]struct {
		hubRequest
		schema, level string
	}{
		"the heartbeat of a cluster":  {hubRequest{"agent", clusterv1.GroupManagedClusters, http.MethodPut, leasesPath + "/managed-cluster-lease"}, "capstan-heartbeats", "capstan-heartbeats"},
		"the lease of a controller":   {hubRequest{l.account("placement-controller-sa"), "", http.MethodPut, leasesPath + "/x"}, "capstan-liveness", "capstan-liveness"},
		"a question of a webhook":     {hubRequest{l.account("work-webhook-sa"), "", http.MethodPost, reviewsPath}, "capstan-admission", "capstan-liveness"},
		"all leases":                  {hubRequest{"agent", clusterv1.GroupManagedClusters, http.MethodGet, leasesPath}, "global-default", "global-default"},
		"the lease of somebody else":  {hubRequest{"anna", "", http.MethodPut, leasesPath + "/x"}, "global-default", "global-default"},
		"a question of somebody else": {hubRequest{"anna", "", http.MethodPost, reviewsPath}, "global-default", "global-default"},
	} {
		transport := l.transportOf(t, c.hubRequest)
		l.await(t, what+" is put under "+c.schema, func() bool {
			schema, level := &flowcontrolv1.FlowSchema{}, &flowcontrolv1.PriorityLevelConfiguration{}
			expect.NoError(t, l.client.Get(t.Context(), client.ObjectKey{Name: c.schema}, schema))
			expect.NoError(t, l.client.Get(t.Context(), client.ObjectKey{Name: c.level}, level))
			answer, err := l.sendAs(t.Context(), t, transport, c.hubRequest, http.NoBody)
			expect.NoError(t, err)
			return answer.header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) == string(schema.UID) &&
				answer.header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) == string(level.UID)
		})
	}
}

// account is the name of a ServiceAccount of the hub as a user.
func (l *lab) account(name string) string { return "system:serviceaccount:" + l.namespace + ":" + name }

// TestSlowHeartbeatsKeepNobodyOfTheHubWaiting has an agent begin more heartbeats than the API server
// answers at a time, and send none to its end.
func TestSlowHeartbeatsKeepNobodyOfTheHubWaiting(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	l.settle(t)
	l.answersFirst(t)
	const requests = 700 // of 600 at a time
	slow := hubRequest{"slow-agent", clusterv1.GroupManagedClusters, http.MethodPut, leasesPath + "/managed-cluster-lease"}
	cluster.GrantUser(t, l.client, l.adminConfig, slow.user, rbacv1.PolicyRule{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"update"},
	})
	ctx, stop := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	defer sending.Wait()
	defer stop()
	transport := l.transportOf(t, slow)
	for range requests {
		sending.Go(func() {
			for ctx.Err() == nil {
				unsent, _ := io.Pipe()
				_, _ = l.sendAs(ctx, t, transport, slow, unsent) // refused, or ended after a minute
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	}
	statusOf := func(r hubRequest) int {
		answer, err := l.sendAs(t.Context(), t, l.transportOf(t, r), r, http.NoBody)
		expect.NoError(t, err)
		return answer.status
	}
	l.await(t, "the heartbeats of others are refused", func() bool {
		return statusOf(hubRequest{"other-agent", clusterv1.GroupManagedClusters, http.MethodPut, slow.path}) == http.StatusTooManyRequests
	})
	for what, r := range map[string]hubRequest{
		"the lease of a controller": {l.account("placement-controller-sa"), "", http.MethodPut, leasesPath + "/x"},
		"a question of a webhook":   {l.account("work-webhook-sa"), "", http.MethodPost, reviewsPath},
	} {
		if got := statusOf(r); got == http.StatusTooManyRequests {
			t.Errorf("%s waits for slow heartbeats until it is refused", what)
		}
	}
}
