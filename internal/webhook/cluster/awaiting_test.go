// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/jsonpath"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/kube/access"
)

func TestValidatorLimitsClustersThatWait(t *testing.T) {
	const accept = `update managedclusters/accept.register.open-cluster-management.io "c"`
	cluster := func(accepted bool) *clusterv1.ManagedCluster {
		return &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: accepted},
		}
	}
	cases := map[string]struct {
		reason    string
		limit     int
		admitted  bool
		old       *clusterv1.ManagedCluster
		accepted  bool
		may       bool
		err       error // of the count
		counted   int
		wantAsked []string
		wantKind  func(error) bool
		want      string
	}{
		"below the limit": {reason: "nobody is asked about", limit: 3, admitted: true, counted: 1},
		"at the limit": {
			limit: 3, counted: 1, wantAsked: []string{accept}, wantKind: apierrors.IsForbidden,
			want: `3 clusters of user "anna" wait for acceptance, and there may not be more: accept or delete some of them, which ` +
				`"kubectl get managedclusters -o jsonpath='{.items[?(@.metadata.annotations.fleet\.capstan\.io/awaiting-acceptance=="` + clusterv1.AwaitingMark("anna") + `")].metadata.name}'" lists`,
		},
		"who may accept":             {reason: "could accept them instead", limit: 3, may: true, counted: 1, wantAsked: []string{accept}},
		"without a limit":            {reason: "there is nothing to count for"},
		"a cluster that is accepted": {reason: "it does not wait", limit: 3, accepted: true, may: true, wantAsked: []string{accept}},
		"a change":                   {reason: "the cluster is there already", limit: 3, old: cluster(false)},
		"what cannot be counted":     {reason: "or a flood would get in whenever the hub is slow", limit: 3, err: errors.New("timeout"), counted: 1, wantKind: apierrors.IsInternalError, want: "timeout"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var asked []string
			counted := 0
			v := &clusterValidator{
				maxUnaccepted: tc.limit,
				namespace:     func(context.Context, string) (*corev1.Namespace, error) { return nil, nil },
				admit: func(_ context.Context, mark, cluster string, try bool) (bool, error) {
					counted++
					if mark != clusterv1.AwaitingMark("anna") || cluster != "c" || try {
						t.Errorf("admits %q for %q, only tried: %t", cluster, mark, try)
					}
					return tc.admitted, tc.err
				},
				access: access.ReviewerFunc(func(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, string, error) {
					asked = append(asked, access.DescribePermission(what))
					return tc.may, "", nil
				}),
			}
			ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UserInfo: user()}})
			_, err := v.validateCluster(ctx, tc.old, cluster(tc.accepted))
			expect(t, err, tc.want)
			if tc.wantKind != nil && !tc.wantKind(err) {
				t.Errorf("%s\ngot an error of the wrong kind: %#v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.wantAsked, asked); diff != "" || counted != tc.counted {
				t.Errorf("%s\ncounted %d times, want %d; asked (-want +got):\n%s", tc.reason, counted, tc.counted, diff)
			}
		})
	}
}

// waitingOf knows of the clusters that are given, each with the mark of whom it waits for.
func waitingOf(t *testing.T, limit int, clusters map[string]string) (*waitingClusters, *clocktesting.FakePassiveClock) {
	t.Helper()
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	w := &waitingClusters{limit: limit, waitTally: newWaitTally("clusters wait for acceptance", now,
		cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexByKey()), func() bool { return true })}
	for name, mark := range clusters {
		w.shows(t, name, mark)
	}
	return w, now
}

// shows has the informer show a cluster.
func (w *waitingClusters) shows(t *testing.T, name, mark string) {
	t.Helper()
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{clusterv1.AnnotationAwaitingAcceptance: mark, "env": "x"}, Finalizers: []string{"example.com/f"},
	}}
	kept, err := keepMark(object)
	if err == nil {
		err = w.shown.Update(kept)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (w *waitingClusters) tries(t *testing.T, mark, cluster string, want bool) {
	t.Helper()
	for _, try := range []bool{true, false} {
		if got, err := w.admitWaiting(t.Context(), mark, cluster, try); got != want || err != nil {
			t.Errorf("cluster %q of %q, only tried: %t: admitted %t (%v), want %t", cluster, mark, try, got, err, want)
		}
	}
}

func TestClustersThatWaitAreCounted(t *testing.T) {
	w, now := waitingOf(t, 3, map[string]string{"one": "anna", "accepted": "", "other": "berta"})
	w.tries(t, "anna", "one", true)      // it is taken, which the API server says
	w.tries(t, "anna", "accepted", true) // so is it
	w.tries(t, "anna", "two", true)
	w.tries(t, "anna", "three", true)
	w.tries(t, "anna", "four", false)
	w.tries(t, "anna", "two", true) // its agent asks again, and nothing was shown yet
	w.tries(t, "berta", "four", true)

	w.shows(t, "two", "anna")
	w.tries(t, "anna", "four", false) // it counts once
	w.shows(t, "two", "")             // it is accepted
	w.tries(t, "anna", "four", true)
	w.tries(t, "anna", "five", false)
	now.SetTime(now.Now().Add(forgetAfter + time.Second)) // three and four never came
	w.tries(t, "anna", "five", true)
	w.tries(t, "anna", "six", true)
	w.tries(t, "anna", "seven", false)
	if counted := w.senders[""].at; len(counted) != 1 { // of berta nothing is left, though nobody asks for her
		t.Errorf("%d keys are counted for, want only that of anna", len(counted))
	}
	w.tries(t, "berta", "five", true)
}

// TestClustersWithTheLabelOfAnEarlierReleaseAreCounted sees them as they were stored before
// the hub was upgraded.
func TestClustersWithTheLabelOfAnEarlierReleaseAreCounted(t *testing.T) {
	w, _ := waitingOf(t, 2, map[string]string{"new": "anna"})
	kept, err := keepMark(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "old", Labels: map[string]string{clusterv1.LabelAwaitingAcceptance: "anna"},
	}})
	if err == nil {
		err = w.shown.Update(kept)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.tries(t, "anna", "another", false)
}

// TestWhatATokenHasAcceptedIsBounded has a bootstrap token whose clusters the hub accepts by itself ask for
// one after the other, each of which waits for a moment only.
func TestWhatATokenHasAcceptedIsBounded(t *testing.T) {
	const token, named = "system:bootstrap:edge00", "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
	w, _ := waitingOf(t, 2, nil)
	accepted := func(name, requester string) {
		t.Helper()
		kept, err := keepMark(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			clusterv1.AnnotationJoinRequestedBy: requester, clusterv1.AnnotationAutomaticallyAcceptedOn: "2026-01-01T00:00:00Z",
		}}})
		if err == nil {
			err = w.shown.Update(kept)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"edge-1", "edge-2"} {
		w.tries(t, clusterv1.AwaitingMark(token), name, true)
		w.shows(t, name, clusterv1.AwaitingMark(token))
		accepted(name, token)
	}
	w.tries(t, clusterv1.AwaitingMark(token), "edge-3", false)
	w.tries(t, clusterv1.AwaitingMark("system:bootstrap:edge01"), "edge-3", true)
	for _, name := range []string{"one", "two", "three"} { // of a user whom an administrator has named
		w.tries(t, clusterv1.AwaitingMark(named), name, true)
		accepted(name, named)
	}
}

// TestTheAdviceListsWhoWaits evaluates the path as kubectl does.
func TestTheAdviceListsWhoWaits(t *testing.T) {
	path := jsonpath.New("advice").AllowMissingKeys(true)
	if err := path.Parse(namesAwaiting("anna")); err != nil {
		t.Fatal(err)
	}
	named := func(name string, annotations map[string]any) any {
		return map[string]any{"metadata": map[string]any{"name": name, "annotations": annotations}}
	}
	var names strings.Builder
	err := path.Execute(&names, map[string]any{"items": []any{
		named("hers", map[string]any{clusterv1.AnnotationAwaitingAcceptance: clusterv1.AwaitingMark("anna")}),
		named("of-berta", map[string]any{clusterv1.AnnotationAwaitingAcceptance: clusterv1.AwaitingMark("berta")}),
		named("accepted", nil),
		map[string]any{"metadata": map[string]any{"name": "bare"}},
	}})
	if err != nil || names.String() != "hers" {
		t.Errorf("it lists %q (%v)", names.String(), err)
	}
}

// TestAFloodOfClustersIsBounded creates more clusters at once than the informer shows
// meanwhile.
func TestAFloodOfClustersIsBounded(t *testing.T) {
	const limit, creations = 100, 5000
	w, _ := waitingOf(t, limit, map[string]string{"there": "anna"})
	var admitted atomic.Int64
	var all sync.WaitGroup
	for i := range creations {
		all.Go(func() {
			may, err := w.admitWaiting(t.Context(), "anna", fmt.Sprint("c-", i), false)
			if err != nil {
				t.Error(err)
			}
			if may {
				admitted.Add(1)
			}
		})
	}
	all.Wait()
	if got := admitted.Load(); got != limit-1 {
		t.Errorf("of %d clusters at once, %d were let through besides the one that was there, want %d", creations, got, limit-1)
	}
}

func TestNothingIsAdmittedBeforeTheClustersAreKnown(t *testing.T) {
	w, _ := waitingOf(t, 3, nil)
	w.synced = func() bool { return false }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if may, err := w.admitWaiting(ctx, "anna", "one", false); may || err == nil {
		t.Errorf("admitted: %t, error: %v", may, err)
	}
}

func TestHandlersRefuseALimitBelowZero(t *testing.T) {
	if _, err := WebhookHandlers(t.Context(), WebhookOptions{MaxUnaccepted: -1}); err == nil {
		t.Error("the webhooks start with a limit of -1 clusters")
	}
}
