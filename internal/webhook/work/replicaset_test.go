// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/access"
)

func replicaSet(changes ...func(*workv1alpha1.ManifestWorkReplicaSet)) *workv1alpha1.ManifestWorkReplicaSet {
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "web"}}
	set.Spec.ManifestWorkTemplate.Workload.Manifests = manifests(configMap("a", "x"))
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p"}}
	for _, change := range changes {
		change(set)
	}
	return set
}

func executed(set *workv1alpha1.ManifestWorkReplicaSet) {
	set.Spec.ManifestWorkTemplate.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type: workv1.ExecutorSubjectTypeServiceAccount, ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "ns", Name: "sa"},
	}}
}

func TestTemplatesKeepTheRulesOfWorks(t *testing.T) {
	const asServiceAccount = `execute-as manifestworks.work.open-cluster-management.io "system:serviceaccount:ns:sa"`
	paused := func(s *workv1alpha1.ManifestWorkReplicaSet) { s.Annotations = map[string]string{"a": "b"} }
	elsewhere := func(s *workv1alpha1.ManifestWorkReplicaSet) { s.Spec.PlacementRefs[0].Name = "q" }
	orphaned := func(s *workv1alpha1.ManifestWorkReplicaSet) {
		s.Spec.ManifestWorkTemplate.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	}
	empty := func(s *workv1alpha1.ManifestWorkReplicaSet) { s.Spec.ManifestWorkTemplate.Workload.Manifests = nil }
	twice := func(s *workv1alpha1.ManifestWorkReplicaSet) {
		s.Spec.ManifestWorkTemplate.Workload.Manifests = manifests(configMap("a", "x"), configMap("a", "x"))
	}
	for name, tc := range map[string]struct {
		reason      string
		old, set    *workv1alpha1.ManifestWorkReplicaSet
		nilExecutor bool
		denied      bool
		wantAsked   []string
		wantKind    func(error) bool
		want        string
	}{
		"plain":     {set: replicaSet()},
		"empty":     {set: replicaSet(empty), wantKind: apierrors.IsBadRequest, want: "spec.manifestWorkTemplate.workload.manifests is empty"},
		"duplicate": {set: replicaSet(twice), wantKind: apierrors.IsBadRequest, want: "spec.manifestWorkTemplate.workload.manifests[1]: ConfigMap"},
		"an executor needs a permission for all clusters": {
			reason: "its Placements may choose any", set: replicaSet(executed), wantAsked: []string{asServiceAccount},
		},
		"who has none is refused": {
			set: replicaSet(executed), denied: true, wantAsked: []string{asServiceAccount}, wantKind: apierrors.IsForbidden,
			want: `user "anna" may not execute-as manifestworks.work.open-cluster-management.io "system:serviceaccount:ns:sa" in all namespaces`,
		},
		"with the gate none needs one, too": {
			set: replicaSet(), nilExecutor: true, denied: true, wantKind: apierrors.IsBadRequest, want: "klusterlet-work-sa",
			wantAsked: []string{`execute-as manifestworks.work.open-cluster-management.io "system:serviceaccount::klusterlet-work-sa"`},
		},
		"metadata is no change":             {old: replicaSet(executed), set: replicaSet(executed, paused), denied: true},
		"an old one can lose its finalizer": {old: replicaSet(empty), set: replicaSet(empty), denied: true},
		"leaving the objects is no change":  {old: replicaSet(executed), set: replicaSet(executed, orphaned), denied: true},
		"other clusters are": {
			reason: "else anybody could use the identity there that somebody else was allowed to", old: replicaSet(executed), set: replicaSet(executed, elsewhere),
			denied: true, wantAsked: []string{asServiceAccount}, wantKind: apierrors.IsForbidden, want: "requires a permission",
		},
		"other clusters are, if the objects are left there, too": {
			old: replicaSet(executed), set: replicaSet(executed, orphaned, elsewhere),
			denied: true, wantAsked: []string{asServiceAccount}, wantKind: apierrors.IsForbidden, want: "requires a permission",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			v := &replicaSetValidator{works: true, specRules: specRules{
				sizeMax: workv1.ManifestsSizeMax, nilExecutor: tc.nilExecutor,
				access: access.ReviewerFunc(func(_ context.Context, who authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, string, error) {
					asked = append(asked, access.DescribePermission(what))
					return !tc.denied && who.Username == "anna", "", nil
				}),
			}}
			ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Namespace: "team-a", UserInfo: authenticationv1.UserInfo{Username: "anna"},
			}})
			_, err := v.ValidateCreate(ctx, tc.set)
			if tc.old != nil {
				asked = nil
				_, err = v.ValidateUpdate(ctx, tc.old, tc.set)
			}
			if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s\ngot error %v, want one with %q", tc.reason, err, tc.want)
			}
			if tc.wantKind != nil && !tc.wantKind(err) {
				t.Errorf("%s\ngot an error of the wrong kind: %#v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.wantAsked, asked); diff != "" {
				t.Errorf("%s\nasked (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestUsersAreToldWhatWillBeInConditions(t *testing.T) {
	for name, tc := range map[string]struct {
		off  bool
		set  *workv1alpha1.ManifestWorkReplicaSet
		want string
	}{
		"nothing": {set: replicaSet()},
		"gate":    {off: true, set: replicaSet(), want: "turn on the feature gate ManifestWorkReplicaSet"},
		"name": {
			set:  replicaSet(func(s *workv1alpha1.ManifestWorkReplicaSet) { s.Name = strings.Repeat("a", 57) }),
			want: "namespace and name together have 63 characters, at most 62",
		},
		"strategy": {
			set: replicaSet(func(s *workv1alpha1.ManifestWorkReplicaSet) {
				s.Spec.PlacementRefs[0].RolloutStrategy.All = &clusterv1alpha1.RolloutAll{RolloutConfig: clusterv1alpha1.RolloutConfig{MinSuccessTime: "soon"}}
			}),
			want: "spec.placementRefs[0].rolloutStrategy.all.minSuccessTime",
		},
		"many Placements": {
			set: replicaSet(func(s *workv1alpha1.ManifestWorkReplicaSet) {
				s.Spec.PlacementRefs = slices.Repeat(s.Spec.PlacementRefs, 65)
			}),
			want: "no ManifestWork will be changed: spec.placementRefs: Too many: must have at most 64 items",
		},
		"time to live": {
			set: replicaSet(func(s *workv1alpha1.ManifestWorkReplicaSet) {
				s.Spec.ManifestWorkTemplate.DeleteOption = &workv1.DeleteOption{TTLSecondsAfterFinished: new(int64(1))}
			}),
			want: "ttlSecondsAfterFinished has no effect",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := &replicaSetValidator{works: !tc.off, specRules: specRules{sizeMax: workv1.ManifestsSizeMax}}
			warnings, err := v.ValidateCreate(t.Context(), tc.set)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(warnings, ";"); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("got warnings %q, want one with %q", got, tc.want)
			}
		})
	}
}
