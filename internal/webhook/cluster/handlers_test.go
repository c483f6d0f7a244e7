// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/kube/access"
)

// TestTheMutatorParsesNoHostileQuantity is sent what holders of bootstrap tokens can send:
// it is asked before the API server compares the object with its schema, and drops the
// status. Whoever parses the quantity does so for hours.
func TestTheMutatorParsesNoHostileQuantity(t *testing.T) {
	m := &clusterMutator{clock: clocktesting.NewFakePassiveClock(time.Now())}
	response := m.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Name: "c", Operation: admissionv1.Create,
		Object: runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"c"},"spec":{},"status":{"allocatable":{"cpu":"1e-2000000000"}}}`)},
	}})
	if response.Allowed || response.Result.Code != 400 || !strings.Contains(response.Result.Message, `status.allocatable[cpu]: "1e-2000000000" is not a quantity`) {
		t.Errorf("the answer is %+v", response.Result)
	}
}

// acceptor answers whether the user may accept clusters.
func acceptor(may bool) access.Reviewer {
	return access.ReviewerFunc(func(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, string, error) {
		return may && what == acceptAttributes("c"), "", nil
	})
}

func TestMutatorChangesAsLittleAsNeeded(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	const anna = "55579b557896d0ce" // stands for user anna
	const mark = `"fleet.capstan.io/awaiting-acceptance":"` + anna + `"`
	const marked = `{"op":"add","path":"/metadata/annotations","value":{` + mark + `}}`
	const set = `{"op":"add","path":"/metadata/annotations/fleet.capstan.io~1awaiting-acceptance","value":"` + anna + `"}`
	const moved = `{"op":"add","path":"/metadata/annotations","value":{"fleet.capstan.io/awaiting-acceptance":"x"}}`
	const removed = `{"op":"remove","path":"/metadata/annotations/fleet.capstan.io~1awaiting-acceptance"}`
	const unlabelled = `{"op":"remove","path":"/metadata/labels/fleet.capstan.io~1awaiting-acceptance"}`
	const tainted = `{"key":"cluster.open-cluster-management.io/unreachable","effect":"NoSelect","timeAdded":"2029-01-02T03:04:05Z"}`
	const silent = `{"op":"add","path":"/spec/taints","value":[{"key":"cluster.open-cluster-management.io/unreachable","effect":"NoSelect","timeAdded":"2030-01-02T03:04:05Z"}]}`
	cases := map[string]struct {
		reason     string
		old        string
		object     string
		defaultSet bool
		mayAccept  bool
		want       []string // operations, as JSON
	}{
		"a cluster gets the default set": {
			object: `{"metadata":{"name":"c"},"spec":{}}`, defaultSet: true,
			want: []string{`{"op":"add","path":"/metadata/labels","value":{"cluster.open-cluster-management.io/clusterset":"default"}}`, marked, silent},
		},
		"a cluster of a user who may accept it says so": {
			object: `{"metadata":{"name":"c","annotations":{"a":"b"}},"spec":{}}`, mayAccept: true,
			want: []string{silent, set, `{"op":"add","path":"/metadata/annotations/fleet.capstan.io~1registered-by-acceptor","value":"true"}`},
		},
		"a cluster of a user who may not cannot say so": {
			object: `{"metadata":{"name":"c","annotations":{"fleet.capstan.io/registered-by-acceptor":"true"}},"spec":{}}`,
			want:   []string{silent, set, `{"op":"remove","path":"/metadata/annotations/fleet.capstan.io~1registered-by-acceptor"}`},
		},
		"nobody says so later": {
			old: `{"metadata":{"name":"c"},"spec":{}}`, object: `{"metadata":{"name":"c","annotations":{"fleet.capstan.io/registered-by-acceptor":"true"}},"spec":{}}`, mayAccept: true,
			want: []string{`{"op":"remove","path":"/metadata/annotations/fleet.capstan.io~1registered-by-acceptor"}`},
		},
		"what was said stays": {
			old: `{"metadata":{"name":"c","annotations":{"fleet.capstan.io/registered-by-acceptor":"true"}},"spec":{}}`, object: `{"metadata":{"name":"c"},"spec":{}}`,
			want: []string{`{"op":"add","path":"/metadata/annotations","value":{"fleet.capstan.io/registered-by-acceptor":"true"}}`},
		},
		"other labels stay": {
			object: `{"metadata":{"name":"c","labels":{"a":"b"}},"spec":{}}`, defaultSet: true,
			want: []string{`{"op":"add","path":"/metadata/labels/cluster.open-cluster-management.io~1clusterset","value":"default"}`, marked, silent},
		},
		"an empty label counts as none": {
			object: `{"metadata":{"name":"c","labels":{"cluster.open-cluster-management.io/clusterset":""}},"spec":{}}`, defaultSet: true,
			want: []string{`{"op":"add","path":"/metadata/labels/cluster.open-cluster-management.io~1clusterset","value":"default"}`, marked, silent},
		},
		"a cluster without a spec is tainted, too": {
			object: `{"metadata":{"name":"c"}}`, want: []string{marked, `{"op":"add","path":"/spec","value":{}}`, silent},
		},
		"without the gate it gets no set": {object: `{"metadata":{"name":"c"},"spec":{}}`, want: []string{marked, silent}},
		"an accepted cluster gets the finalizer": {
			old: `{"metadata":{"name":"c"},"spec":{}}`, object: `{"metadata":{"name":"c"},"spec":{"hubAcceptsClient":true}}`,
			want: []string{`{"op":"add","path":"/metadata/finalizers","value":["cluster.open-cluster-management.io/api-resource-cleanup"]}`, silent},
		},
		"so does one that is created accepted, after the others": {
			object: `{"metadata":{"name":"c","finalizers":["a/b"]},"spec":{"hubAcceptsClient":true}}`,
			want:   []string{`{"op":"add","path":"/metadata/finalizers/-","value":"cluster.open-cluster-management.io/api-resource-cleanup"}`, silent},
		},
		"a cluster that was accepted before does not get it again": {
			reason: "or it could never be taken off",
			old:    `{"metadata":{"name":"c"},"spec":{"hubAcceptsClient":true}}`, object: `{"metadata":{"name":"c"},"spec":{"hubAcceptsClient":true}}`,
		},
		"a cluster that goes away gets nothing": {
			reason: "the API server refuses new finalizers then",
			old:    `{"metadata":{"name":"c"},"spec":{}}`, defaultSet: true,
			object: `{"metadata":{"name":"c","deletionTimestamp":"2030-01-01T00:00:00Z"},"spec":{"hubAcceptsClient":true}}`,
		},
		"a taint gets its time and unknown fields stay": {
			reason: "a newer hub may have fields that this release does not know",
			object: `{"metadata":{"name":"c"},"spec":{"new":1,"taints":[{"key":"k","effect":"NoSelect"}]}}`,
			want: []string{
				marked,
				`{"op":"add","path":"/spec/taints/0/timeAdded","value":"2030-01-02T03:04:05Z"}`,
				`{"op":"add","path":"/spec/taints/-","value":{"key":"cluster.open-cluster-management.io/unreachable","effect":"NoSelect","timeAdded":"2030-01-02T03:04:05Z"}}`,
			},
		},
		"a cluster that is heard of when it is accepted again is not tainted": {
			reason: "its agent has gone on reporting",
			old:    `{"metadata":{"name":"c","finalizers":["cluster.open-cluster-management.io/api-resource-cleanup"]},"spec":{},"status":{"conditions":[{"type":"ManagedClusterConditionAvailable","status":"True"}]}}`,
			object: `{"metadata":{"name":"c","finalizers":["cluster.open-cluster-management.io/api-resource-cleanup"]},"spec":{"hubAcceptsClient":true}}`,
		},
		"what the sender says of the status counts for nothing": {
			old:    `{"metadata":{"name":"c","finalizers":["cluster.open-cluster-management.io/api-resource-cleanup"]},"spec":{}}`,
			object: `{"metadata":{"name":"c","finalizers":["cluster.open-cluster-management.io/api-resource-cleanup"]},"spec":{"hubAcceptsClient":true},"status":{"conditions":[{"type":"ManagedClusterConditionAvailable","status":"True"}]}}`,
			want:   []string{silent},
		},
		"a cluster that says it waits for another user waits for its own": {
			reason: "or nobody could count them",
			object: `{"metadata":{"name":"c","annotations":{"fleet.capstan.io/awaiting-acceptance":"x"}},"spec":{}}`,
			want:   []string{set, silent},
		},
		"an accepted cluster does not wait any more": {
			old:    `{"metadata":{"name":"c","annotations":{"fleet.capstan.io/awaiting-acceptance":"x"}},"spec":{"taints":[` + tainted + `]}}`,
			object: `{"metadata":{"name":"c","annotations":{"fleet.capstan.io/awaiting-acceptance":"x"},"finalizers":["cluster.open-cluster-management.io/api-resource-cleanup"]},"spec":{"hubAcceptsClient":true,"taints":[` + tainted + `]}}`,
			want:   []string{removed},
		},
		"one that is created accepted never waits": {
			object: `{"metadata":{"name":"c","annotations":{"a":"b","fleet.capstan.io/awaiting-acceptance":"x"},"finalizers":["cluster.open-cluster-management.io/api-resource-cleanup"]},"spec":{"hubAcceptsClient":true}}`,
			want:   []string{removed, silent},
		},
		"nobody changes for whom a cluster waits": {
			reason: "anna has not created it, and it stays one of those that were",
			old:    `{"metadata":{"name":"c","annotations":{"fleet.capstan.io/awaiting-acceptance":"x"}},"spec":{}}`,
			object: `{"metadata":{"name":"c","annotations":{}},"spec":{}}`,
			want:   []string{moved},
		},
		"the label of an earlier release becomes the annotation": {
			reason: "clients compare labels, and the cluster goes on counting",
			old:    `{"metadata":{"name":"c","labels":{"fleet.capstan.io/awaiting-acceptance":"x"}},"spec":{}}`,
			object: `{"metadata":{"name":"c","labels":{"fleet.capstan.io/awaiting-acceptance":"x"}},"spec":{}}`,
			want:   []string{unlabelled, moved},
		},
		"it does so if somebody removes it": {
			old:    `{"metadata":{"name":"c","labels":{"fleet.capstan.io/awaiting-acceptance":"x"}},"spec":{}}`,
			object: `{"metadata":{"name":"c"},"spec":{}}`,
			want:   []string{moved},
		},
		"it goes with acceptance": {
			old:    `{"metadata":{"name":"c","labels":{"fleet.capstan.io/awaiting-acceptance":"x"}},"spec":{"taints":[` + tainted + `]}}`,
			object: `{"metadata":{"name":"c","labels":{"fleet.capstan.io/awaiting-acceptance":"x"},"finalizers":["cluster.open-cluster-management.io/api-resource-cleanup"]},"spec":{"hubAcceptsClient":true,"taints":[` + tainted + `]}}`,
			want:   []string{unlabelled},
		},
		"nobody brings the label back": {
			old:    `{"metadata":{"name":"c"},"spec":{"hubAcceptsClient":true}}`,
			object: `{"metadata":{"name":"c","labels":{"fleet.capstan.io/awaiting-acceptance":"x"}},"spec":{"hubAcceptsClient":true}}`,
			want:   []string{unlabelled},
		},
		"nobody makes an older cluster wait": {
			reason: "it would count for a user who may not have created it",
			old:    `{"metadata":{"name":"c"},"spec":{}}`,
			object: `{"metadata":{"name":"c","annotations":{"fleet.capstan.io/awaiting-acceptance":"x"}},"spec":{}}`,
			want:   []string{removed},
		},
		"a cluster that is refused does not wait again": {
			reason: "an administrator has decided, and it is not the requester's any more",
			old:    `{"metadata":{"name":"c","annotations":{"fleet.capstan.io/awaiting-acceptance":"x"}},"spec":{"hubAcceptsClient":true}}`,
			object: `{"metadata":{"name":"c","annotations":{"fleet.capstan.io/awaiting-acceptance":"x"}},"spec":{}}`,
			want:   []string{removed},
		},
		"a cluster that has the taint already keeps its one": {
			old:    `{"metadata":{"name":"c","finalizers":["cluster.open-cluster-management.io/api-resource-cleanup"]},"spec":{"taints":[{"key":"cluster.open-cluster-management.io/unreachable","effect":"NoSelect","timeAdded":"2029-01-02T03:04:05Z"}]}}`,
			object: `{"metadata":{"name":"c","finalizers":["cluster.open-cluster-management.io/api-resource-cleanup"]},"spec":{"hubAcceptsClient":true,"taints":[{"key":"cluster.open-cluster-management.io/unreachable","effect":"NoSelect","timeAdded":"2029-01-02T03:04:05Z"}]}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := &clusterMutator{clock: clocktesting.NewFakePassiveClock(now), access: acceptor(tc.mayAccept), defaultSet: tc.defaultSet}
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(tc.object)}, UserInfo: user(),
			}}
			if tc.old != "" {
				request.Operation, request.OldObject.Raw = admissionv1.Update, []byte(tc.old)
			}
			response := m.Handle(t.Context(), request)
			if !response.Allowed {
				t.Fatalf("refused: %+v", response.Result)
			}
			var got []string
			for _, patch := range response.Patches {
				text, err := json.Marshal(patch)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(text))
			}
			slices.Sort(tc.want)
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\npatch (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestMutatorRefusesWhatItCannotRead(t *testing.T) {
	m := &clusterMutator{clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))}
	for _, object := range []string{``, `[]`, `{"spec":{"taints":"x"}}`, `{"spec":{"taints":[{"key":"k","effect":"NoSelect","timeAdded":"2030-01-01T00:00:00Z"}]}}`} {
		request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)},
		}}
		if response := m.Handle(t.Context(), request); response.Allowed || response.Result.Code != 400 {
			t.Errorf("object %q: got allowed %t, %+v, want a bad request", object, response.Allowed, response.Result)
		}
	}
}

// user is who asks in the tests, with all that decides about its rights.
func user() authenticationv1.UserInfo {
	return authenticationv1.UserInfo{
		Username: "anna", Groups: []string{"admins"}, Extra: map[string]authenticationv1.ExtraValue{"scope": {"x"}},
	}
}

func TestValidatorAsksForTheRightPermissions(t *testing.T) {
	cluster := func(change func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
		c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
		change(c)
		return c
	}
	plain := cluster(func(*clusterv1.ManagedCluster) {})
	accepted := cluster(func(c *clusterv1.ManagedCluster) { c.Spec.HubAcceptsClient = true })
	inSet := cluster(func(c *clusterv1.ManagedCluster) { c.Labels = map[string]string{clusterv1.LabelClusterSet: "a"} })
	joined := cluster(func(c *clusterv1.ManagedCluster) {
		c.Annotations = map[string]string{clusterv1.AnnotationAgents: "abcde"}
	})
	requested := cluster(func(c *clusterv1.ManagedCluster) {
		c.Annotations = map[string]string{clusterv1.AnnotationAgents: "abcde", clusterv1.AnnotationJoinRequestedBy: "anna", clusterv1.AnnotationJoinKey: "sha256:00"}
	})
	badName := cluster(func(c *clusterv1.ManagedCluster) { c.Name = "kube-system" })
	badNameAccepted := cluster(func(c *clusterv1.ManagedCluster) { c.Name = "kube-system"; c.Spec.HubAcceptsClient = true })
	terminating := &corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}
	const accept, join = `update managedclusters/accept.register.open-cluster-management.io "c1"`, `create managedclustersets/join.cluster.open-cluster-management.io "a"`

	cases := map[string]struct {
		reason    string
		old       *clusterv1.ManagedCluster
		cluster   *clusterv1.ManagedCluster
		namespace *corev1.Namespace
		refused   string // permission that the user does not have
		err       error  // of the API server
		wantAsked []string
		wantKind  func(error) bool
		want      string
	}{
		"registering needs no permission":       {cluster: plain},
		"saying how it joined does":             {reason: "the hub knows its agent by that", cluster: joined, wantAsked: []string{accept}},
		"an agent may keep what the hub wrote":  {old: joined, cluster: joined},
		"naming an agent later does":            {reason: "it would have permissions", old: plain, cluster: joined, wantAsked: []string{accept}},
		"removing them does":                    {reason: "the next one could take the place", old: joined, cluster: plain, wantAsked: []string{accept}},
		"saying later who asked does":           {reason: "another one would be taken for him", old: joined, cluster: requested, wantAsked: []string{accept}},
		"creating it accepted does":             {cluster: accepted, wantAsked: []string{accept}},
		"accepting does":                        {old: plain, cluster: accepted, wantAsked: []string{accept}},
		"refusing a cluster does not":           {old: accepted, cluster: plain},
		"changing an accepted cluster does not": {old: accepted, cluster: accepted},
		"entering a set does":                   {old: plain, cluster: inSet, wantAsked: []string{join}},
		"who may not accept is told so": {
			old: plain, cluster: accepted, refused: accept, wantAsked: []string{accept}, wantKind: apierrors.IsForbidden,
			want: `requires a permission: user "anna" may not update managedclusters/accept`,
		},
		"who may not change the set is told so": {
			old: inSet, cluster: plain, refused: join, wantAsked: []string{join}, wantKind: apierrors.IsForbidden,
			want: `adding the cluster to the set "a" or removing it`,
		},
		"nobody is let through while permissions cannot be reviewed": {
			old: plain, cluster: accepted, err: errors.New("timeout"), wantAsked: []string{accept}, wantKind: apierrors.IsInternalError, want: "timeout",
		},
		"a cluster is not accepted into a namespace that goes away": {
			old: plain, cluster: accepted, namespace: terminating, wantAsked: []string{accept}, wantKind: apierrors.IsForbidden,
			want: "while its namespace is being deleted",
		},
		"it may be registered while the namespace goes away": {cluster: plain, namespace: terminating},
		"a reserved name is refused, also without client configs": {
			reason:  "upstream looks at the name only if there are client configs",
			cluster: badName, wantKind: apierrors.IsBadRequest, want: "is reserved",
		},
		"a cluster with such a name from before can be changed": {
			reason: "or it could not lose its finalizers",
			old:    badName, cluster: badName,
		},
		"but not accepted": {old: badName, cluster: badNameAccepted, wantKind: apierrors.IsBadRequest, want: "is reserved"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var asked []string
			v := &clusterValidator{
				namespace: func(context.Context, string) (*corev1.Namespace, error) { return tc.namespace, nil },
				access: access.ReviewerFunc(func(_ context.Context, who authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, string, error) {
					if diff := cmp.Diff(user(), who); diff != "" {
						t.Errorf("asked for another user (-want +got):\n%s", diff)
					}
					asked = append(asked, access.DescribePermission(what))
					return access.DescribePermission(what) != tc.refused, "", tc.err
				}),
			}
			ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UserInfo: user()}})
			_, err := v.validateCluster(ctx, tc.old, tc.cluster)
			expect(t, err, tc.want)
			if tc.wantKind != nil && !tc.wantKind(err) {
				t.Errorf("%s\ngot an error of the wrong kind: %#v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.wantAsked, asked); diff != "" {
				t.Errorf("%s\nasked (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestValidatorWarnsOfANamespaceThatSomebodyElseMade(t *testing.T) {
	v := &clusterValidator{namespace: func(context.Context, string) (*corev1.Namespace, error) { return &corev1.Namespace{}, nil }}
	ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UserInfo: user()}})
	warnings, err := v.ValidateCreate(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "argocd"}})
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], `already has a namespace "argocd"`) || !strings.Contains(warnings[0], "taken back") {
		t.Errorf("got %q, %v, want a warning that names the namespace", warnings, err)
	}
}

func TestValidatorHoldsTokensToTheirNames(t *testing.T) {
	const group = clusterv1.GroupBootstrappers
	cases := map[string]struct {
		groups  []string
		cluster string
		want    string
	}{
		"a token for any cluster":       {groups: []string{group}, cluster: "edge"},
		"a token for its cluster":       {groups: []string{group, group + ":name:edge"}, cluster: "edge"},
		"a token for another cluster":   {groups: []string{group, group + ":name:edge"}, cluster: "edge-1", want: `bound to other cluster names: edge;`},
		"a token for clusters like it":  {groups: []string{group, group + ":prefix:edge-:x"}, cluster: "edge-1"},
		"a token for clusters unlike":   {groups: []string{group, group + ":prefix:edge-:x"}, cluster: "edge", want: `bound to other cluster names: edge-*;`},
		"a token with an empty prefix":  {groups: []string{group, group + ":prefix::x"}, cluster: "edge", want: `bound to other cluster names: no cluster;`},
		"a token that is auto-accepted": {groups: []string{group, group + ":name:edge", group + ":auto-accept"}, cluster: "prod", want: "bound to other cluster names"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := &clusterValidator{namespace: func(context.Context, string) (*corev1.Namespace, error) { return nil, nil }}
			ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				UserInfo: authenticationv1.UserInfo{Username: "system:bootstrap:abcdef", Groups: tc.groups},
			}})
			_, err := v.ValidateCreate(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: tc.cluster}})
			expect(t, err, tc.want)
			if tc.want != "" && !apierrors.IsForbidden(err) {
				t.Errorf("got an error of the wrong kind: %#v", err)
			}
		})
	}
}
