// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/registration/boundtoken"
	"github.com/capstan-io/capstan/internal/registration/policy"
	"github.com/capstan-io/capstan/internal/testing/agentrequest"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// tokenUser is who asks with a bootstrap token for edge-*, whose clusters the hub accepts by itself.
const tokenUser = "system:bootstrap:edge00"

// tokenRequest is the request of an agent with that token.
func tokenRequest(t *testing.T, cluster string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	groups, err := boundtoken.TokenGroups([]string{"edge-*"}, true)
	expect.NoError(t, err)
	request, _ := agentrequest.NewRequest(t, cluster, "one")
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: cluster, Labels: map[string]string{clusterv1.LabelClusterName: cluster}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			Username:   tokenUser, Groups: groups, Request: request,
		},
	}
}

// TestATokenHasSoManyClustersAcceptedByItself has a token join more clusters than the hub accepts for it
// without anybody having looked: what goes to all clusters is stored for each of them. Those beyond wait
// for an administrator, and for others to go.
func TestATokenHasSoManyClustersAcceptedByItself(t *testing.T) {
	const clustersMax = 3
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{certificatesv1.AddToScheme, clusterv1.AddToScheme, clusterv1beta2.AddToScheme, corev1.AddToScheme} {
		expect.NoError(t, add(scheme))
	}
	csr, mc := &certificatesv1.CertificateSigningRequest{}, &clusterv1.ManagedCluster{}
	others := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "west", Annotations: map[string]string{
		clusterv1.AnnotationAutomaticallyAcceptedOn: "2026-01-01T00:00:00Z", clusterv1.AnnotationJoinRequestedBy: "system:bootstrap:west00",
	}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(others).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, obj client.Object, o ...client.SubResourceUpdateOption) error {
			return c.SubResource("status").Update(ctx, obj, o...) // the fake client knows no approval
		},
	}).WithIndex(csr, indexRequester, indexByRequester).WithIndex(mc, indexAutomatic, indexByAutomatic).WithStatusSubresource(csr).Build()
	recorder := events.NewFakeRecorder(10 * clustersMax)
	controller := NewCSRApprovalController(CSRApprovalDeps{
		Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), Events: recorder,
		Automatic: policy.AutoApproval{TokenClustersMax: clustersMax},
	})
	joins := func(cluster string) (accepted bool, again time.Duration) {
		t.Helper()
		result, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: cluster}})
		expect.NoError(t, err)
		asked, is := &certificatesv1.CertificateSigningRequest{}, &clusterv1.ManagedCluster{}
		for _, object := range []client.Object{asked, is} {
			expect.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: cluster}, object))
		}
		if isDecided(asked) != is.Spec.HubAcceptsClient {
			t.Errorf("%s: decided=%t, accepted=%t", cluster, isDecided(asked), is.Spec.HubAcceptsClient)
		}
		return is.Spec.HubAcceptsClient, result.RequeueAfter
	}
	for i := range 2 * clustersMax {
		name := fmt.Sprint("edge-", i)
		for _, object := range []client.Object{tokenRequest(t, name), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}} {
			expect.NoError(t, c.Create(t.Context(), object))
		}
		accepted, again := joins(name)
		if want := i < clustersMax; accepted != want || (again > 0) == want {
			t.Errorf("cluster %d of %d that are accepted: accepted=%t, again in %s", i+1, clustersMax, accepted, again)
		}
	}
	told := ""
	for len(recorder.Events) > 0 {
		if text := <-recorder.Events; strings.Contains(text, policy.ReasonNotAutomatic) {
			told = text
		}
	}
	if !strings.Contains(told, "capstan accept edge-5") || !strings.Contains(told, "fleet.capstan.io/max-automatic-clusters") {
		t.Errorf("the last event about what waits is %q, want what to do", told)
	}
	expect.NoError(t, c.Delete(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}))
	if accepted, _ := joins("edge-5"); !accepted {
		t.Error("one that was accepted is gone, and no other takes its place")
	}
	if accepted, _ := joins("edge-4"); accepted {
		t.Error("one that was accepted is gone, and two others take its place")
	}
}

// TestATokenHasNoMoreAcceptedAtTheSameTime has requests decided about before a cache shows any of the clusters that were
// accepted, one of which is gone again and one of which could not be accepted.
func TestATokenHasNoMoreAcceptedAtTheSameTime(t *testing.T) {
	const most = 100
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	recent := newRecentAcceptances(clk)
	begin := func(cluster int, shown ...clusterv1.ManagedCluster) bool {
		return recent.beginAcceptance(acceptance{tokenUser, fmt.Sprint("edge-", cluster)}, shown, most)
	}
	accepted := 0
	for cluster := range 10 * most {
		if begin(cluster) {
			accepted++
		}
	}
	if accepted != most {
		t.Errorf("%d clusters are accepted that no cache shows, want %d", accepted, most)
	}
	if !begin(0) {
		t.Error("a request that is looked at again is refused")
	}
	if !recent.beginAcceptance(acceptance{"system:bootstrap:west00", "west"}, nil, most) {
		t.Error("another token waits for it")
	}
	recent.endAcceptance(acceptance{tokenUser, "edge-0"})
	if !begin(most) || begin(most+1) {
		t.Error("one could not be accepted, and not one other takes its place")
	}
	shown := clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}}
	if begin(most+1, shown) {
		t.Error("one that a cache shows now does not count any more")
	}
	if !begin(most + 1) {
		t.Error("one that a cache has shown counts after it is gone")
	}
	clk.SetTime(clk.Now().Add(time.Minute))
	if !begin(most + 2) {
		t.Error("what no cache has shown counts for ever")
	}
}
