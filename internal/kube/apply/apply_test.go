// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

func TestKindsGoInOrder(t *testing.T) {
	// Each kind has to be in a later class than the one before, or in the same
	// where they stand in one string.
	order := []string{
		"Namespace v1,CustomResourceDefinition apiextensions.k8s.io/v1,PriorityClass scheduling.k8s.io/v1,StorageClass storage.k8s.io/v1,PersistentVolume v1",
		"ClusterRole rbac.authorization.k8s.io/v1,RoleBinding rbac.authorization.k8s.io/v1",
		"NetworkPolicy networking.k8s.io/v1,ResourceQuota v1,LimitRange v1,PodDisruptionBudget policy/v1,ServiceAccount v1",
		"Secret v1,ConfigMap v1,PersistentVolumeClaim v1",
		"Service v1",
		"Deployment apps/v1,DaemonSet apps/v1,Job batch/v1,CronJob batch/v1,Pod v1",
		"APIService apiregistration.k8s.io/v1,ValidatingWebhookConfiguration admissionregistration.k8s.io/v1,ValidatingAdmissionPolicy admissionregistration.k8s.io/v1",
		"Widget example.com/v1,Ingress networking.k8s.io/v1,Endpoints v1,CSIDriver storage.k8s.io/v1",
	}
	for i, kinds := range order {
		for kind := range strings.SplitSeq(kinds, ",") {
			name, apiVersion, _ := strings.Cut(kind, " ")
			got := ClassOf(schema.FromAPIVersionAndKind(apiVersion, name).GroupKind())
			if got != Class(i) {
				t.Errorf("%s is in class %d, want %d", kind, got, i)
			}
		}
	}
}

func TestManifestsAreRead(t *testing.T) {
	cases := map[string]struct {
		reason string
		raw    string
		want   Manifest
		err    string
	}{
		"an object": {
			raw:  `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"n"},"spec":{}}`,
			want: Manifest{Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Namespace: "n", Name: "d"},
		},
		"nothing":                          {raw: ``, err: "empty"},
		"null":                             {raw: `null`, err: "empty"},
		"a number":                         {raw: `7`, err: "cannot unmarshal number"},
		"a list of objects":                {raw: `[{"apiVersion":"v1"}]`, err: "cannot unmarshal array"},
		"text that ends":                   {raw: `{"apiVersion":"v1"`, err: "unexpected end"},
		"no apiVersion":                    {raw: `{"kind":"ConfigMap","metadata":{"name":"a"}}`, err: "apiVersion is missing"},
		"no kind":                          {raw: `{"apiVersion":"v1","metadata":{"name":"a"}}`, err: "kind is missing"},
		"no name":                          {raw: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`, err: "metadata.name is missing"},
		"metadata is text":                 {raw: `{"apiVersion":"v1","kind":"ConfigMap","metadata":"a"}`, err: "cannot unmarshal string"},
		"a name that leads elsewhere":      {raw: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"../../b/configmaps/x","namespace":"a"}}`, err: "cannot be part of a path"},
		"a name that leads up":             {raw: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"..","namespace":"a"}}`, err: "cannot be part of a path"},
		"a namespace that leads elsewhere": {raw: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"a/../b"}}`, err: `metadata.namespace "a/../b" cannot be part of a path`},
		"a made-up name":                   {raw: `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"}}`, err: "set metadata.name"},
		"a Kubernetes list":                {raw: `{"apiVersion":"v1","kind":"List","items":[]}`, err: "add each of its items as a manifest"},
		"a strange version":                {raw: `{"apiVersion":"a/b/c","kind":"X","metadata":{"name":"a"}}`, err: "apiVersion"},
		"keys in other cases":              {reason: "the API server takes them as they are written", raw: `{"APIVERSION":"v1","Kind":"X","metadata":{"name":"a"}}`, err: "apiVersion is missing"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseManifest([]byte(tc.raw))
			if tc.err != "" {
				if err == nil || !errors.Is(err, ErrNotObject) || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("Read: got error %v, want ErrNotObject with %q. %s", err, tc.err, tc.reason)
				}
				return
			}
			tc.want.Hash = HashManifest([]byte(tc.raw))
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("Read: %v, -want +got:\n%s", err, diff)
			}
		})
	}
}

func FuzzManifestsAreReadWithoutPanic(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"b"},"ownerReferences":[]}}`))
	f.Add([]byte(`{"metadata":[1]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := ParseManifest(raw); err != nil && !errors.Is(err, ErrNotObject) {
			t.Errorf("Read: %v", err)
		}
		body, err := RenderBody(t.Context(), raw, Stamp{
			Label: "l", Owners: []metav1.OwnerReference{{Name: "o"}}, Annotations: map[string]string{"a": "b"}, UID: "u",
			Without: []ignore.Path{{"spec", "replicas"}, {"spec", "items", 0}, {"metadata", "labels", "a"}},
		})
		if err == nil && !json.Valid(body) {
			t.Errorf("Body made %q", body)
		}
	})
}

func TestBodyHasTheStamp(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "work/v1", Kind: "AppliedManifestWork", Name: "w", UID: "u"}
	raw := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","uid":"x","resourceVersion":"7",
		"managedFields":[],"labels":{"mine":"1"},"ownerReferences":[{"uid":"other"}]},"data":{"big":9007199254740993}}`
	cases := map[string]struct {
		stamp Stamp
		want  string
	}{
		"the whole object": {
			stamp: Stamp{Label: "ours", Owners: []metav1.OwnerReference{owner}, Namespace: "n"},
			want: `{"apiVersion":"v1","data":{"big":9007199254740993},"kind":"ConfigMap","metadata":{"labels":{"mine":"1","ours":"true"},"name":"a","namespace":"n",` +
				`"ownerReferences":[{"uid":"other"},{"apiVersion":"work/v1","kind":"AppliedManifestWork","name":"w","uid":"u"}]}}`,
		},
		"without fields, with annotations, of one object": {
			stamp: Stamp{
				Label: "ours", Namespace: "n", UID: "v", Annotations: map[string]string{"hash": "h"},
				Without: []ignore.Path{{"data"}, {"metadata", "labels", "mine"}},
			},
			want: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"hash":"h"},"labels":{"ours":"true"},"name":"a","namespace":"n",` +
				`"ownerReferences":[{"uid":"other"}],"uid":"v"}}`,
		},
		"only the stamp": {
			stamp: Stamp{Label: "ours", Owners: []metav1.OwnerReference{owner}, MetadataOnly: true},
			want: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"ours":"true"},"name":"a",` +
				`"ownerReferences":[{"apiVersion":"work/v1","kind":"AppliedManifestWork","name":"w","uid":"u"}]}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := RenderBody(t.Context(), []byte(raw), tc.stamp)
			if diff := cmp.Diff(tc.want, string(got)); err != nil || diff != "" {
				t.Errorf("Body: %v, -want +got:\n%s", err, diff)
			}
		})
	}
	for _, bad := range []string{`{"metadata":{"labels":7}}`, `{"metadata":{"ownerReferences":{}}}`, `{"metadata":{"annotations":1}}`, `{}`} {
		if _, err := RenderBody(t.Context(), []byte(bad), Stamp{}); !errors.Is(err, ErrNotObject) {
			t.Errorf("Body(%s): got error %v, want ErrNotObject", bad, err)
		}
	}
}

func TestMarksChangeWithWhatCounts(t *testing.T) {
	object := func(change func(*metav1.ObjectMeta)) metav1.Object {
		m := &metav1.ObjectMeta{
			UID: "u", Generation: 3, ResourceVersion: "10", Labels: map[string]string{"a": "1", "b": "2"},
			Annotations: map[string]string{"a": "1"}, OwnerReferences: []metav1.OwnerReference{{UID: "o"}},
		}
		change(m)
		return m
	}
	deployments := ObjectRef{Group: "apps", Resource: "deployments"}
	base := FingerprintOf(deployments, object(func(*metav1.ObjectMeta) {}))
	cases := map[string]struct {
		reason string
		change func(*metav1.ObjectMeta)
		same   bool
	}{
		"a status write":          {reason: "it changes the resourceVersion only", change: func(m *metav1.ObjectMeta) { m.ResourceVersion = "11" }, same: true},
		"a finalizer":             {reason: "nobody applies it", change: func(m *metav1.ObjectMeta) { m.Finalizers = []string{"x"} }, same: true},
		"the spec":                {change: func(m *metav1.ObjectMeta) { m.Generation = 4 }},
		"another object":          {change: func(m *metav1.ObjectMeta) { m.UID = "v" }},
		"a label's value":         {change: func(m *metav1.ObjectMeta) { m.Labels["a"] = "2" }},
		"values that change side": {change: func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a": "2", "b": "1"} }},
		"a label as annotation":   {change: func(m *metav1.ObjectMeta) { m.Annotations["b"] = "2"; delete(m.Labels, "b") }},
		"an owner":                {change: func(m *metav1.ObjectMeta) { m.OwnerReferences = nil }},
		"no generation": {reason: "then every write counts", change: func(m *metav1.ObjectMeta) {
			m.Generation = 0
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := FingerprintOf(deployments, object(tc.change)) == base; got != tc.same {
				t.Errorf("MarkOf is the same: %t, want %t. %s", got, tc.same, tc.reason)
			}
		})
	}
	classes := ObjectRef{Group: "scheduling.k8s.io", Resource: "priorityclasses"}
	if FingerprintOf(classes, object(func(*metav1.ObjectMeta) {})) == FingerprintOf(classes, object(cases["a status write"].change)) {
		t.Error("a PriorityClass has the same mark after a write, which its generation does not count")
	}
}

func TestClaims(t *testing.T) {
	for name, tc := range map[string]struct {
		owners []types.UID
		want   Ownership
	}{
		"no owner":          {want: ClaimNone},
		"someone else only": {owners: []types.UID{"b"}, want: ClaimNone},
		"we only":           {owners: []types.UID{"a"}, want: ClaimSole},
		"both":              {owners: []types.UID{"a", "b"}, want: ClaimShared},
	} {
		t.Run(name, func(t *testing.T) {
			if got := OwnershipOf("a", tc.owners); got != tc.want {
				t.Errorf("ClaimOf: got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestDamperSlowsDownWhatDoesNotLast(t *testing.T) {
	now := time.Unix(0, 0)
	var d CorrectionDamper
	for i := range dampFree {
		if wait := d.CorrectionDelay(now); wait != 0 {
			t.Fatalf("correction %d waits %s", i+1, wait)
		}
		d = d.AfterCorrection(now)
	}
	want := dampWaitMin
	for range 12 {
		if got := d.CorrectionDelay(now); got != want || !d.IsDamped() {
			t.Fatalf("got a wait of %s, want %s", got, want)
		}
		now = now.Add(want)
		if got := d.CorrectionDelay(now); got != 0 {
			t.Fatalf("after the wait there are %s left", got)
		}
		d = d.AfterCorrection(now)
		want = min(2*want, dampWaitMax)
	}
	if d = d.AfterCorrection(now.Add(dampWaitMax + dampQuiet + 1)); d.IsDamped() {
		t.Error("a correction after a long quiet time is still damped")
	}
}

func TestErrorsAreExplained(t *testing.T) {
	object := ObjectRef{Group: "apps", Resource: "deployments", Namespace: "n", Name: "d"}
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	conflict := apierrors.NewApplyConflict([]metav1.StatusCause{
		{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl" using v1`, Field: ".spec.replicas"},
	}, "conflict")
	terminating := apierrors.NewForbidden(deployments, "d", errors.New("because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating"}}
	cases := map[string]struct {
		reason string
		err    error
		want   Trouble
		noKind bool
		says   []string
	}{
		"success":       {want: TroubleNone},
		"no permission": {err: apierrors.NewForbidden(deployments, "d", errors.New(`User "a" cannot patch resource "deployments"`)), want: TroubleForbidden, says: []string{"may not patch deployments.apps in namespace \"n\"", "aggregate-to-work", `resources ["deployments"]`}},
		"over quota": {
			reason: "a role would not help", err: apierrors.NewForbidden(deployments, "d", errors.New("exceeded quota: q")),
			want: TroubleInvalid, says: []string{"exceeded quota"},
		},
		"namespace going":      {err: terminating, want: TroublePassing, says: []string{`Namespace "n" is being deleted`}},
		"invalid":              {err: apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "d", nil), want: TroubleInvalid},
		"a field of others":    {err: conflict, want: TroubleConflict, says: []string{".spec.replicas (kubectl)"}},
		"changed in between":   {err: apierrors.NewConflict(deployments, "d", errors.New("changed")), want: TroubleRaced},
		"no such kind":         {err: ErrNoKind, want: TroublePassing, noKind: true, says: []string{"waiting for its definition"}},
		"kind is gone":         {err: apierrors.NewGenericServerResponse(http.StatusNotFound, "PATCH", schema.GroupResource{}, "", "404 page not found", 0, true), want: TroublePassing, noKind: true},
		"no such namespace":    {err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), want: TroublePassing, says: []string{`Namespace "n" does not exist: add it to the work, or create it`}},
		"definition is going":  {err: apierrors.NewMethodNotSupported(deployments, "create"), want: TroublePassing, noKind: true, says: []string{"The definition of deployments.apps is being deleted"}},
		"not an object":        {err: ErrNotObject, want: TroubleInvalid},
		"the server is away":   {err: errors.New("connection refused"), want: TroublePassing, says: []string{"connection refused"}},
		"the server is busy":   {err: apierrors.NewTooManyRequests("later", 1), want: TroublePassing},
		"the server is broken": {err: apierrors.NewInternalError(errors.New("disk full")), want: TroublePassing},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ExplainError(tc.err, "patch", object)
			if got.Trouble != tc.want || got.NoKind != tc.noKind {
				t.Errorf("Explain: got %+v, want trouble %d, noKind %t. %s", got, tc.want, tc.noKind, tc.reason)
			}
			for _, text := range tc.says {
				if !strings.Contains(got.Message, text) {
					t.Errorf("Explain: %q does not contain %q", got.Message, text)
				}
			}
		})
	}
}

func TestKindsAreAskedForWhenNeeded(t *testing.T) {
	asked := 0
	list := &metav1.APIResourceList{APIResources: []metav1.APIResource{
		{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"patch"}},
		{Name: "pods/status", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"patch"}},
		{Name: "bindings", Kind: "Binding", Verbs: metav1.Verbs{"create"}},
	}}
	var fail error
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	kinds := NewKindResolver(func(string) (*metav1.APIResourceList, error) { asked++; return list, fail }, clock)
	pod, node := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionKind{Version: "v1", Kind: "Node"}
	for range 3 {
		if r, err := kinds.FindResource(pod); err != nil || r.Resource != "pods" || !r.Namespaced {
			t.Fatalf("Find(Pod): %+v, %v", r, err)
		}
	}
	if _, err := kinds.FindResource(node); !errors.Is(err, ErrNoKind) || asked != 1 {
		t.Fatalf("Find(Node): %v after %d questions, want ErrNoKind after 1", err, asked)
	}
	list.APIResources = append(list.APIResources, metav1.APIResource{Name: "nodes", Kind: "Node", Verbs: metav1.Verbs{"patch"}})
	clock.SetTime(clock.Now().Add(kindMissTTL))
	if r, err := kinds.FindResource(node); err != nil || r.Namespaced || asked != 2 {
		t.Fatalf("Find(Node): %+v, %v after %d questions", r, err, asked)
	}
	if kind, err := kinds.KindOf(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}); err != nil || kind != node {
		t.Errorf("KindOf(nodes): %v, %v", kind, err)
	}
	if _, err := kinds.FindResource(schema.GroupVersionKind{Version: "v1", Kind: "Binding"}); !errors.Is(err, ErrNoKind) {
		t.Errorf("Find(Binding): %v, want ErrNoKind, as it cannot be applied", err)
	}
	kinds.ForgetGroupVersion(schema.GroupVersion{Version: "v1"})
	fail = errors.New("away")
	if _, err := kinds.FindResource(pod); !errors.Is(err, fail) || errors.Is(err, ErrNoKind) {
		t.Errorf("Find(Pod): %v, want that the server is away", err)
	}
}

func TestAServerIsAskedAnewWhetherItServesAResource(t *testing.T) {
	list := &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget", Verbs: metav1.Verbs{"patch"}}}}
	var fail error
	kinds := NewKindResolver(func(string) (*metav1.APIResourceList, error) { return list, fail }, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	if !kinds.ServesResource(widgets) {
		t.Error("it is served")
	}
	for name, err := range map[string]error{"the server is away": errors.New("away"), "it may not be asked": apierrors.NewForbidden(schema.GroupResource{}, "", nil)} {
		if fail = err; !kinds.ServesResource(widgets) {
			t.Errorf("%s: that does not say that it is not served", name)
		}
	}
	if fail = apierrors.NewNotFound(schema.GroupResource{}, ""); kinds.ServesResource(widgets) {
		t.Error("its group version is gone")
	}
	list, fail = &metav1.APIResourceList{}, nil
	if kinds.ServesResource(widgets) {
		t.Error("its definition is gone")
	}
}

func TestManagersOfAnOwner(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	owns := `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"ours\"}":{}}}}`
	object := &metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		entry("a", metav1.ManagedFieldsOperationApply, owns), entry("made", metav1.ManagedFieldsOperationUpdate, owns),
		entry("other", metav1.ManagedFieldsOperationApply, strings.ReplaceAll(owns, "ours", "theirs")),
		entry("a", metav1.ManagedFieldsOperationApply, owns),
		entry("likes the word", metav1.ManagedFieldsOperationApply, `{"f:data":{"f:ours":{}}}`),
		entry("longer", metav1.ManagedFieldsOperationApply, strings.ReplaceAll(owns, "ours", "ours too")),
		entry("broken", metav1.ManagedFieldsOperationApply, owns[1:]),
		{Manager: "none", Operation: metav1.ManagedFieldsOperationApply},
	}}
	if diff := cmp.Diff([]string{"a"}, ManagersOf(object, "ours")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestMessagesAreShort has a server say megabytes, which would be kept for each object.
func TestMessagesAreShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	conflict := apierrors.NewApplyConflict([]metav1.StatusCause{
		{Type: metav1.CauseTypeFieldManagerConflict, Field: long, Message: `conflict with "` + long + `"`},
	}, long)
	for _, err := range []error{apierrors.NewBadRequest(long), apierrors.NewInternalError(errors.New(long)), errors.New(long), conflict} {
		if got := ExplainError(err, "patch", ObjectRef{Resource: "configmaps", Name: "a"}); len(got.Message) > MessageBytesMax {
			t.Errorf("the message has %d bytes: %.100s", len(got.Message), got.Message)
		}
	}
	if got := ConflictingManagers(conflict); !got.Has(long) {
		t.Error("who the conflict is with is not known")
	}
}

// TestFewResourcesAreKept has a server say that it serves kinds without number, which are kept for
// each group version.
func TestFewResourcesAreKept(t *testing.T) {
	list := &metav1.APIResourceList{APIResources: []metav1.APIResource{
		{Name: "widgets", Kind: "Widget", Verbs: metav1.Verbs{"patch"}}, {Name: strings.Repeat("x", 1<<20), Kind: "Long", Verbs: metav1.Verbs{"patch"}},
	}}
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	kinds := NewKindResolver(func(string) (*metav1.APIResourceList, error) { return list, nil }, clock)
	gv := schema.GroupVersion{Group: "g", Version: "v1"}
	if _, err := kinds.FindResource(gv.WithKind("Widget")); err != nil {
		t.Error(err)
	}
	if _, err := kinds.FindResource(gv.WithKind("Long")); !errors.Is(err, ErrNoKind) {
		t.Errorf("got %v", err)
	}
	list.APIResources = make([]metav1.APIResource, servedMax+1)
	kinds.ForgetGroupVersion(gv)
	if _, err := kinds.FindResource(gv.WithKind("Widget")); err == nil || errors.Is(err, ErrNoKind) {
		t.Errorf("got %v", err)
	}
}

// TestFewFieldsOfARefusalAreNamed has a server refuse more fields than anybody reads.
func TestFewFieldsOfARefusalAreNamed(t *testing.T) {
	details := &metav1.StatusDetails{}
	for i := range 2 * namedMax {
		details.Causes = append(details.Causes, metav1.StatusCause{Field: fmt.Sprint("spec.", i), Message: "is immutable"})
	}
	refusal := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Code: 422, Details: details}}
	if names := InvalidFields(refusal); len(names) != namedMax || names[0] != "spec.0" {
		t.Errorf("named are %q", names)
	}
	details.Causes = append(details.Causes, metav1.StatusCause{Message: "a policy"})
	if names := InvalidFields(refusal); names != nil {
		t.Errorf("named are %q, where something else is refused as well", names)
	}
}
