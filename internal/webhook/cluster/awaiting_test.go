// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/access"
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
		waiting   int
		taken     int
		old       *clusterv1.ManagedCluster
		accepted  bool
		may       bool
		err       error // of the count
		counted   int
		wantAsked []string
		wantKind  func(error) bool
		want      string
	}{
		"below the limit":  {reason: "nobody is asked about", limit: 3, waiting: 2, counted: 1},
		"the first of one": {limit: 1, counted: 1},
		"at the limit": {
			limit: 3, waiting: 3, counted: 2, wantAsked: []string{accept}, wantKind: apierrors.IsForbidden,
			want: `3 clusters of user "anna" wait for acceptance, and there may not be more: accept or delete some of them, which ` +
				`"kubectl get managedclusters -l fleet.capstan.io/awaiting-acceptance=` + markOf("anna") + `" lists`,
		},
		"beyond the limit": {reason: "it was lowered", limit: 3, waiting: 9, counted: 2, wantAsked: []string{accept}, wantKind: apierrors.IsForbidden, want: "3 clusters of user"},
		"a name that is taken": {
			reason: "agents that register again are to be told so, by the API server", limit: 3, waiting: 3, taken: 1, counted: 2,
		},
		"who may accept":             {reason: "could accept them instead", limit: 3, waiting: 3, may: true, counted: 2, wantAsked: []string{accept}},
		"without a limit":            {reason: "there is nothing to count for", waiting: 9},
		"a cluster that is accepted": {reason: "it does not wait", limit: 3, waiting: 3, accepted: true, may: true, wantAsked: []string{accept}},
		"a change":                   {reason: "the cluster is there already", limit: 3, waiting: 3, old: cluster(false)},
		"what cannot be counted":     {reason: "or a flood would get in whenever the hub is slow", limit: 3, err: errors.New("timeout"), counted: 1, wantKind: apierrors.IsInternalError, want: "timeout"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var asked []string
			counted := 0
			v := &validator{
				maxUnaccepted: tc.limit,
				namespace:     func(context.Context, string) (*corev1.Namespace, error) { return nil, nil },
				count: func(_ context.Context, options metav1.ListOptions) (int, error) {
					counted++
					switch options {
					case metav1.ListOptions{LabelSelector: selectAwaiting("anna"), Limit: int64(tc.limit)}:
						return min(tc.waiting, tc.limit), tc.err
					case metav1.ListOptions{FieldSelector: "metadata.name=c"}:
						return tc.taken, nil
					}
					t.Errorf("counted %+v", options)
					return 0, nil
				},
				access: access.Func(func(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, string, error) {
					asked = append(asked, access.Describe(what))
					return tc.may, "", nil
				}),
			}
			ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UserInfo: user()}})
			_, err := v.validate(ctx, tc.old, cluster(tc.accepted))
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

func TestHandlersRefuseALimitBelowZero(t *testing.T) {
	if _, err := Handlers(Options{MaxUnaccepted: -1}); err == nil {
		t.Error("the webhooks start with a limit of -1 clusters")
	}
}
