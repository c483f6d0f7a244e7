// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/access"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
)

func TestMutatorAddsTheFinalizerAtCreation(t *testing.T) {
	cases := map[string]struct {
		reason    string
		operation admissionv1.Operation
		object    string
		want      string
	}{
		"a new work gets it": {
			operation: admissionv1.Create, object: `{"metadata":{"name":"w"},"spec":{}}`,
			want: `[{"op":"add","path":"/metadata/finalizers","value":["cluster.open-cluster-management.io/manifest-work-cleanup"]}]`,
		},
		"behind those that are there": {
			operation: admissionv1.Create, object: `{"metadata":{"name":"w","finalizers":["a/b"]}}`,
			want: `[{"op":"add","path":"/metadata/finalizers/-","value":"cluster.open-cluster-management.io/manifest-work-cleanup"}]`,
		},
		"but not twice": {
			operation: admissionv1.Create, object: `{"metadata":{"finalizers":["cluster.open-cluster-management.io/manifest-work-cleanup"]}}`, want: `null`,
		},
		"and not later": {
			reason:    "the agent has to be able to take it off",
			operation: admissionv1.Update, object: `{"metadata":{"name":"w"}}`, want: `null`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			response := finalizerMutator{}.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: tc.operation, Object: runtime.RawExtension{Raw: []byte(tc.object)},
			}})
			got, err := json.Marshal(response.Patches)
			if err != nil || !response.Allowed {
				t.Fatalf("got allowed %t, %v", response.Allowed, err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("%s\npatch (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestExecutorNeedsPermission(t *testing.T) {
	work := func(change func(*workv1.ManifestWork)) *workv1.ManifestWork {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "w"}}
		w.Spec.Workload.Manifests = manifests(configMap("a", "x"))
		change(w)
		return w
	}
	executor := func(w *workv1.ManifestWork) {
		w.Spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
			Type: workv1.ExecutorSubjectTypeServiceAccount, ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "ns", Name: "sa"},
		}}
	}
	plain := work(func(*workv1.ManifestWork) {})
	executed := work(executor)
	other := work(func(w *workv1.ManifestWork) { executor(w); w.Spec.Executor.Subject.ServiceAccount.Name = "other" })
	colon := work(func(w *workv1.ManifestWork) {
		executor(w)
		w.Spec.Executor.Subject.ServiceAccount.Namespace, w.Spec.Executor.Subject.ServiceAccount.Name = "ns:sa", "x"
	})
	labelled := work(func(w *workv1.ManifestWork) { executor(w); w.Labels = map[string]string{"a": "b"} })
	changed := work(func(w *workv1.ManifestWork) { executor(w); w.Spec.Workload.Manifests = manifests(configMap("a", "y")) })
	orphaned := func(change func(*workv1.ManifestWork)) *workv1.ManifestWork {
		w := work(change)
		w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
		return w
	}
	wrongType := work(func(w *workv1.ManifestWork) { w.Spec.Executor = &workv1.ManifestWorkExecutor{} })
	nobody := work(func(w *workv1.ManifestWork) {
		w.Spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{Type: workv1.ExecutorSubjectTypeServiceAccount}}
	})
	empty := work(func(w *workv1.ManifestWork) { w.Spec.Workload.Manifests = nil })
	const asServiceAccount = `execute-as manifestworks.work.open-cluster-management.io "system:serviceaccount:ns:sa" in namespace "c1"`
	const asAgent = `execute-as manifestworks.work.open-cluster-management.io "system:serviceaccount::klusterlet-work-sa" in namespace "c1"`

	cases := map[string]struct {
		reason      string
		old, work   *workv1.ManifestWork
		nilExecutor bool
		denied      bool
		err         error
		wantAsked   []string
		wantKind    func(error) bool
		want        string
	}{
		"the agent's own rights need no permission": {work: plain},
		"with the gate they do":                     {work: plain, nilExecutor: true, wantAsked: []string{asAgent}},
		"another identity does":                     {work: executed, wantAsked: []string{asServiceAccount}},
		"changing the manifests does": {
			reason: "else anybody could use the identity that somebody else was allowed to",
			old:    executed, work: changed, wantAsked: []string{asServiceAccount},
		},
		"another executor needs its own": {
			reason: "who may be one may not be all",
			old:    executed, work: other, wantAsked: []string{strings.Replace(asServiceAccount, ":sa", ":other", 1)},
		},
		"so does the first one":                 {old: plain, work: executed, wantAsked: []string{asServiceAccount}},
		"going without one needs no permission": {reason: "as in OCM, unless the gate is on", old: executed, work: plain},
		"with the gate that does": {
			reason: "else it would be a way to more rights",
			old:    executed, work: plain, nilExecutor: true, denied: true, wantAsked: []string{asAgent}, wantKind: apierrors.IsBadRequest,
			want: `applying the manifests as "system:serviceaccount::klusterlet-work-sa" requires a permission`,
		},
		"the gate changes nothing for those that have one": {work: executed, nilExecutor: true, wantAsked: []string{asServiceAccount}},
		"with the gate labels need no permission, either":  {old: plain, work: work(func(w *workv1.ManifestWork) { w.Labels = map[string]string{"a": "b"} }), nilExecutor: true, denied: true},
		"a name that reads as another's is refused": {
			work: colon, wantKind: apierrors.IsBadRequest, want: `namespace "ns:sa", name "x" is not a valid ServiceAccount`,
		},
		"changing labels does not": {old: executed, work: labelled, denied: true},
		"nor does leaving the objects on the member": {
			reason: "nothing is executed for it, and the operator does it for a hub that is removed",
			old:    executed, work: orphaned(executor), denied: true,
		},
		"nor does it with the gate": {old: plain, work: orphaned(func(*workv1.ManifestWork) {}), nilExecutor: true, denied: true},
		"unless the work changes with it": {
			old: executed, work: orphaned(func(w *workv1.ManifestWork) { executor(w); w.Spec.Workload.Manifests = changed.Spec.Workload.Manifests }),
			denied: true, wantAsked: []string{asServiceAccount}, wantKind: apierrors.IsForbidden, want: "requires a permission",
		},
		"or it is one that deletes again": {
			old: orphaned(executor), work: executed, denied: true, wantAsked: []string{asServiceAccount}, wantKind: apierrors.IsForbidden, want: "requires a permission",
		},
		"who may not is told so": {
			work: executed, denied: true, wantAsked: []string{asServiceAccount}, wantKind: apierrors.IsForbidden,
			want: `applying the manifests as "system:serviceaccount:ns:sa" requires a permission: user "anna" may not execute-as`,
		},
		"nobody is let through while permissions cannot be reviewed": {
			work: executed, err: errors.New("timeout"), wantAsked: []string{asServiceAccount}, wantKind: apierrors.IsInternalError, want: "timeout",
		},
		"an unknown sort of identity is refused": {work: wrongType, wantKind: apierrors.IsBadRequest, want: `spec.executor.subject.type is "", want ServiceAccount`},
		"an identity has to have a name":         {work: nobody, wantKind: apierrors.IsBadRequest, want: "needs the namespace and name"},
		"wrong manifests are refused first":      {work: empty, wantKind: apierrors.IsBadRequest, want: "spec.workload.manifests is empty"},
		"a wrong work from before can lose its finalizers": {
			reason: "its spec does not change",
			old:    empty, work: empty,
		},
		"but not stay wrong when it changes": {old: executed, work: empty, wantKind: apierrors.IsBadRequest, want: "is empty"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var asked []string
			v := &workValidator{specRules: specRules{
				sizeMax: workv1.ManifestsSizeMax, nilExecutor: tc.nilExecutor,
				access: access.ReviewerFunc(func(_ context.Context, who authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, string, error) {
					asked = append(asked, access.DescribePermission(what))
					return !tc.denied && who.Username == "anna", "", tc.err
				}),
			}}
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Namespace: "c1", UserInfo: authenticationv1.UserInfo{Username: "anna"},
			}}
			ctx := admission.NewContextWithRequest(t.Context(), request)
			var err error
			if tc.old == nil {
				_, err = v.ValidateCreate(ctx, tc.work)
			} else {
				_, err = v.ValidateUpdate(ctx, tc.old, tc.work)
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

func TestUsersAreToldIfATimeToLiveHasNoEffect(t *testing.T) {
	work := func(seconds *int64) *workv1.ManifestWork {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "w"}}
		w.Spec.Workload.Manifests = manifests(configMap("a", "x"))
		w.Spec.DeleteOption = &workv1.DeleteOption{TTLSecondsAfterFinished: seconds}
		return w
	}
	for name, tc := range map[string]struct {
		reason  string
		cleanUp bool
		seconds *int64
		want    string
	}{
		"Off":      {"nobody would delete the work", false, new(int64(60)), "turn on the feature gate CleanUpCompletedManifestWork"},
		"On":       {"it has the effect that is wished for", true, new(int64(60)), ""},
		"Unset":    {"nothing is wished for", false, nil, ""},
		"Negative": {"it is no time", true, new(int64(-1)), "ttlSecondsAfterFinished is -1, which is less than 0"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &workValidator{specRules: specRules{sizeMax: workv1.ManifestsSizeMax}, cleanUp: tc.cleanUp}
			created, err := v.ValidateCreate(t.Context(), work(tc.seconds))
			if err != nil {
				t.Fatal(err)
			}
			without := work(tc.seconds)
			without.Spec.DeleteOption = nil
			updated, err := v.ValidateUpdate(t.Context(), without, work(tc.seconds))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(created, updated); diff != "" {
				t.Errorf("%s: creation and change warn differently:\n%s", tc.reason, diff)
			}
			if got := strings.Join(created, ";"); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("%s: got warnings %q, want one with %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestAnAgentDoesNotTakeUpTheRoomOfATenant has the agent of a cluster write its works, which count
// for the namespace of the hub that they were made for.
func TestAnAgentDoesNotTakeUpTheRoomOfATenant(t *testing.T) {
	large := strings.Repeat("x", 100<<10)
	before := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: "c1", Name: "w", Finalizers: []string{workv1.FinalizerManifestWorkCleanup},
		Annotations: map[string]string{workv1alpha2.AnnotationResourceBindingNamespace: "shop"},
	}}
	before.Spec.Workload.Manifests = manifests(configMap("a", "x"))
	ofSet := before.DeepCopy()
	ofSet.Name, ofSet.Annotations, ofSet.Labels = "web-12345", nil, map[string]string{workv1.LabelManifestWorkReplicaSet: "shop.web"}
	ofNobody := before.DeepCopy()
	ofNobody.Annotations = nil
	configs := func(number int) (all []workv1.ManifestConfigOption) {
		for i := range number {
			all = append(all, workv1.ManifestConfigOption{ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "default", Name: fmt.Sprint("a-", i)}})
		}
		return all
	}
	long := ofNobody.DeepCopy()
	long.Spec.ManifestConfigs = configs(400)
	for name, tc := range map[string]struct {
		old     *workv1.ManifestWork
		change  func(*workv1.ManifestWork)
		refused bool
	}{
		"a manifest that grows": {before, func(w *workv1.ManifestWork) { w.Spec.Workload.Manifests = manifests(configMap("a", large)) }, true},
		"one more manifest": {before, func(w *workv1.ManifestWork) {
			w.Spec.Workload.Manifests = manifests(configMap("a", "x"), configMap("b", "x"))
		}, true},
		"what overrides have noted": {before, func(w *workv1.ManifestWork) { w.Annotations[policyv1alpha1.AnnotationAppliedOverrides] = large }, true},
		"what counts in its place": {before, func(w *workv1.ManifestWork) {
			w.Spec.Workload.Manifests, w.Annotations[allowance.AnnotationBytes] = nil, "4000000"
		}, true},
		"the work of another": {before, func(w *workv1.ManifestWork) { w.Annotations[workv1alpha2.AnnotationResourceBindingNamespace] = "bank" }, true},
		"a work of nobody":    {ofNobody, func(w *workv1.ManifestWork) { w.Annotations = before.Annotations }, true},
		"the configs of a replica set": {ofSet, func(w *workv1.ManifestWork) {
			w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Name: "*"}}}
		}, true},
		"a manifest of nobody's that grows": {ofNobody, func(w *workv1.ManifestWork) { w.Spec.Workload.Manifests = manifests(configMap("a", large)) }, true},
		"long configs of nobody's":          {ofNobody, func(w *workv1.ManifestWork) { w.Spec.ManifestConfigs = configs(400) }, true},
		"long configs":                      {before, func(w *workv1.ManifestWork) { w.Spec.ManifestConfigs = configs(400) }, true},
		"short configs":                     {before, func(w *workv1.ManifestWork) { w.Spec.ManifestConfigs = configs(1) }, false},
		"long configs that stay":            {long, func(w *workv1.ManifestWork) { w.Finalizers = nil }, false},
		"long configs that grow":            {long, func(w *workv1.ManifestWork) { w.Spec.ManifestConfigs = configs(401) }, true},
		"the finalizer":                     {before, func(w *workv1.ManifestWork) { w.Finalizers = nil }, false},
		"the status":                        {before, func(w *workv1.ManifestWork) { w.Status.Conditions = []metav1.Condition{{Message: large}} }, false},
		"who wrote which field":             {before, func(w *workv1.ManifestWork) { w.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: large}} }, false},
		"a label that nobody counts":        {before, func(w *workv1.ManifestWork) { w.Labels = map[string]string{"a": large} }, false},
		"a spec in another spelling": {before, func(w *workv1.ManifestWork) {
			w.Spec.Workload.Manifests[0].Raw = append([]byte(" "), w.Spec.Workload.Manifests[0].Raw...)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := &workValidator{specRules: specRules{sizeMax: workv1.ManifestsSizeMax}}
			for user, refused := range map[string]bool{clusterv1.GroupManagedClusters: tc.refused, "system:serviceaccounts": false} {
				ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
					UserInfo: authenticationv1.UserInfo{Username: "anna", Groups: []string{"system:authenticated", user}},
				}})
				work := tc.old.DeepCopy()
				tc.change(work)
				err := checkGrowth(ctx, tc.old, work)
				if refused != apierrors.IsForbidden(err) || !refused && err != nil {
					t.Errorf("of %s: got error %v, want a refusal: %t", user, err, refused)
				}
				if _, whole := v.ValidateUpdate(ctx, tc.old, work); refused && !apierrors.IsForbidden(whole) {
					t.Errorf("the webhook says %v, want a refusal", whole)
				}
			}
		})
	}
}
