// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/aggregated"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// manifestWork is one of a binding, unless it has no labels.
func manifestWork(cluster, name string, labels map[string]string) *workv1.ManifestWork {
	object := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `","namespace":"default"}}`
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name, Labels: labels},
		Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(object)}}}}},
	}
}

func bound(of string) map[string]string {
	return map[string]string{workv1alpha1.LabelPermanentID: "id-" + of, "of": of}
}

func TestWorksAreDiscovered(t *testing.T) {
	h := workHubs.ShareFixture(t)
	list, err := discovery.NewDiscoveryClientForConfigOrDie(h.AdminConfig).ServerResourcesForGroupVersion("work.karmada.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	if len(list.APIResources) != 1 {
		t.Fatalf("resources are %+v, want works only", list.APIResources)
	}
	r := list.APIResources[0]
	got := fmt.Sprintln(r.Name, r.SingularName, r.Kind, r.Namespaced, r.Verbs, r.ShortNames, r.Categories)
	same(t, "the resource", got, "works work Work true [get list patch update watch] [wk] [karmada-io]\n")
}

func TestAWorkIsReadAsItsManifestWork(t *testing.T) {
	h := workHubs.ShareFixture(t)
	from := manifestWork("m1", "read", bound("read"))
	h.CreateObject(t, from)
	got := &workv1alpha1.Work{}
	key := client.ObjectKey{Namespace: "karmada-es-m1", Name: "read"}
	if err := h.Get(t.Context(), key, got); err != nil {
		t.Fatal(err)
	}
	same(t, "resourceVersion", got.ResourceVersion, from.ResourceVersion)
	same(t, "namespace", got.Namespace, key.Namespace)
	same(t, "number of objects", len(got.Spec.Workload.Manifests), 1)
	if !strings.Contains(string(got.Spec.Workload.Manifests[0].Raw), `"kind":"ConfigMap"`) || got.UID == from.UID {
		t.Errorf("got object %s and UID %s", got.Spec.Workload.Manifests[0].Raw, got.UID)
	}
	h.CreateObject(t, manifestWork("m1", "of-a-user", nil))
	for _, key := range []client.ObjectKey{
		{Namespace: "karmada-es-m1", Name: "of-a-user"},
		{Namespace: "karmada-es-m1", Name: "absent"},
		{Namespace: "m1", Name: "read"},
		{Namespace: "karmada-es-m2", Name: "read"},
		{Namespace: "karmada-es-", Name: "read"},
	} {
		want := fmt.Sprintf("works.work.karmada.io %q not found", key.Name)
		if err := h.Get(t.Context(), key, got); !apierrors.IsNotFound(err) || err.Error() != want {
			t.Errorf("%s: %v, want %s", key, err, want)
		}
	}
}

// names returns those of Works with their namespaces.
func names(list *workv1alpha1.WorkList) []string {
	found := []string{}
	for _, w := range list.Items {
		found = append(found, w.Namespace+"/"+w.Name)
	}
	return found
}

func TestWorksAreSelected(t *testing.T) {
	h := workHubs.ShareFixture(t)
	for _, cluster := range []string{"m1", "m2"} {
		h.CreateObject(t, manifestWork(cluster, "select", bound("select")))
		h.CreateObject(t, manifestWork(cluster, "not-of-a-binding", map[string]string{"of": "select"}))
	}
	of := client.MatchingLabels{"of": "select"}
	byNamespace := func(name string) client.ListOption { return client.MatchingFields{"metadata.namespace": name} }
	for name, test := range map[string]struct {
		options []client.ListOption
		want    []string
	}{
		"everywhere":            {[]client.ListOption{of}, []string{"karmada-es-m1/select", "karmada-es-m2/select"}},
		"of a cluster":          {[]client.ListOption{of, client.InNamespace("karmada-es-m1")}, []string{"karmada-es-m1/select"}},
		"of no cluster":         {[]client.ListOption{of, client.InNamespace("karmada-es-m3")}, []string{}},
		"in another namespace":  {[]client.ListOption{of, client.InNamespace("m1")}, []string{}},
		"by namespace":          {[]client.ListOption{of, byNamespace("karmada-es-m2")}, []string{"karmada-es-m2/select"}},
		"by one of no cluster":  {[]client.ListOption{of, byNamespace("m2")}, []string{}},
		"by name":               {[]client.ListOption{client.MatchingFields{"metadata.name": "select"}, client.InNamespace("karmada-es-m2")}, []string{"karmada-es-m2/select"}},
		"by a name that is not": {[]client.ListOption{client.MatchingFields{"metadata.name": "not-of-a-binding"}}, []string{}},
	} {
		list := &workv1alpha1.WorkList{}
		if err := h.List(t.Context(), list, test.options...); err != nil || list.ResourceVersion == "" {
			t.Errorf("%s: a list of version %q (%v)", name, list.ResourceVersion, err)
		}
		same(t, name, names(list), test.want)
	}
	err := h.List(t.Context(), &workv1alpha1.WorkList{}, client.MatchingFields{"spec.suspendDispatching": "true"})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("a field that cannot be selected: %v, want that it is a bad request", err)
	}
}

func TestWorksAreListedInPages(t *testing.T) {
	h := workHubs.ShareFixture(t)
	for i := range 5 {
		h.CreateObject(t, manifestWork("m1", fmt.Sprintf("page%d", i), bound("pages")))
		h.CreateObject(t, manifestWork("m1", fmt.Sprintf("page%d-of-a-user", i), map[string]string{"of": "pages"}))
	}
	var sizes []int
	next := ""
	for {
		list := &workv1alpha1.WorkList{}
		if err := h.List(t.Context(), list, client.MatchingLabels{"of": "pages"}, client.Limit(2), client.Continue(next)); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(list.Items))
		if next = list.Continue; next == "" {
			break
		}
	}
	same(t, "sizes of pages", sizes, []int{2, 2, 1})
}

func TestWorksAreWatched(t *testing.T) {
	h := workHubs.ShareFixture(t)
	c, err := client.NewWithWatch(h.AdminConfig, client.Options{Scheme: aggregated.NewScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := c.Watch(t.Context(), &workv1alpha1.WorkList{}, client.InNamespace("karmada-es-m2"), client.MatchingLabels{"of": "watch"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	h.CreateObject(t, manifestWork("m1", "elsewhere", bound("watch")))
	h.CreateObject(t, manifestWork("m2", "of-a-user", map[string]string{"of": "watch"}))
	work := manifestWork("m2", "seen", bound("watch"))
	h.CreateObject(t, work)
	work.Annotations = map[string]string{"a": "b"}
	if err := h.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	delete(work.Labels, workv1alpha1.LabelPermanentID)
	if err := h.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		select {
		case event := <-watcher.ResultChan():
			got, ok := event.Object.(*workv1alpha1.Work)
			if !ok || event.Type != want || got.Name != "seen" || got.Namespace != "karmada-es-m2" {
				t.Fatalf("event %s of %+v, want %s of Work seen", event.Type, event.Object, want)
			}
		case <-time.After(aggregated.Patience):
			t.Fatalf("no event, want %s", want)
		}
	}
}

func TestWorksAreShownAsATable(t *testing.T) {
	h := workHubs.ShareFixture(t)
	work := manifestWork("m1", "table", bound("table"))
	h.CreateObject(t, work)
	work.Status.Conditions = []metav1.Condition{{
		Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue, Reason: "AppliedManifestWorkComplete", LastTransitionTime: metav1.Now(),
	}}
	if err := h.Status().Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	content, err := discovery.NewDiscoveryClientForConfigOrDie(h.AdminConfig).RESTClient().Get().
		AbsPath("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-m1/works").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Param("labelSelector", "of=table").Do(t.Context()).Raw()
	table := &metav1.Table{}
	if err == nil {
		err = json.Unmarshal(content, table)
	}
	if err != nil || len(table.Rows) != 1 {
		t.Fatalf("%d rows (%v), want one", len(table.Rows), err)
	}
	columns := []string{}
	for _, c := range table.ColumnDefinitions {
		columns = append(columns, c.Name)
	}
	same(t, "columns", columns, []string{"Name", "Workload-Kind", "Applied", "Age"})
	cells := table.Rows[0].Cells
	cells[3] = "age"
	same(t, "cells", cells, []any{"table", "ConfigMap", "True", "age"})
}

// TestNothingElseOfAWorkIsWritten tries what the API does not have: what is delivered is changed
// where it comes from.
func TestNothingElseOfAWorkIsWritten(t *testing.T) {
	h := workHubs.ShareFixture(t)
	h.CreateObject(t, manifestWork("m1", "kept", bound("kept")))
	work := &workv1alpha1.Work{}
	if err := h.Get(t.Context(), client.ObjectKey{Namespace: "karmada-es-m1", Name: "kept"}, work); err != nil {
		t.Fatal(err)
	}
	for verb, err := range map[string]error{
		"create": h.Create(t.Context(), &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-m1", Name: "new"}}),
		"delete": h.Delete(t.Context(), work.DeepCopy()),
	} {
		if !apierrors.IsMethodNotSupported(err) {
			t.Errorf("%s: %v, want that there is no such method", verb, err)
		}
	}
	for path, change := range map[string]func(*workv1alpha1.Work){
		"spec": func(w *workv1alpha1.Work) {
			w.Spec.Workload.Manifests[0].Raw = []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"b"}}`)
		},
		"metadata.labels":      func(w *workv1alpha1.Work) { delete(w.Labels, workv1alpha1.LabelPermanentID) },
		"metadata.annotations": func(w *workv1alpha1.Work) { w.Annotations = map[string]string{"a": "b"} },
		"metadata.finalizers":  func(w *workv1alpha1.Work) { w.Finalizers = []string{"a.example.com/b"} },
	} {
		changed := work.DeepCopy()
		change(changed)
		for verb, err := range map[string]error{
			"patch":  h.Patch(t.Context(), changed.DeepCopy(), client.MergeFrom(work)),
			"update": h.Update(t.Context(), changed.DeepCopy()),
		} {
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), path+": Forbidden: only spec.suspendDispatching of a Work can be changed") {
				t.Errorf("%s of %s: %v, want that it is refused", verb, path, err)
			}
		}
	}
}

// TestAWorkIsSuspendedAndGoesOn suspends a Work as users of Karmada do, and lets it go on.
func TestAWorkIsSuspendedAndGoesOn(t *testing.T) {
	h := workHubs.ShareFixture(t)
	from := manifestWork("m1", "suspend", bound("suspend"))
	from.Annotations = map[string]string{"of": "somebody"}
	h.CreateObject(t, from)
	key := client.ObjectKey{Namespace: "karmada-es-m1", Name: "suspend"}
	patch := func(body string, options ...client.PatchOption) error {
		work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		return h.Patch(t.Context(), work, client.RawPatch(types.MergePatchType, []byte(body)), options...)
	}
	stored := func() string {
		t.Helper()
		work, shows := &workv1.ManifestWork{}, &workv1alpha1.Work{}
		err := errors.Join(h.Get(t.Context(), client.ObjectKeyFromObject(from), work), h.Get(t.Context(), key, shows))
		if err != nil || work.Annotations["of"] != "somebody" {
			t.Fatalf("the ManifestWork has annotations %v (%v)", work.Annotations, err)
		}
		shown := "none"
		if is := shows.Spec.SuspendDispatching; is != nil {
			shown = strconv.FormatBool(*is)
		}
		return fmt.Sprintf("%q shown as %s", work.Annotations[workv1.AnnotationSuspendDispatching], shown)
	}
	for _, test := range []struct {
		body string
		more []client.PatchOption
		want string
	}{
		{`{"spec":{"suspendDispatching":true}}`, []client.PatchOption{client.DryRunAll}, `"" shown as none`},
		{`{"spec":{"suspendDispatching":true}}`, nil, `"true" shown as true`},
		{`{"spec":{"suspendDispatching":true}}`, nil, `"true" shown as true`},
		{`{"spec":{"suspendDispatching":false}}`, nil, `"false" shown as false`},
		{`{"spec":{"suspendDispatching":null}}`, nil, `"" shown as none`},
	} {
		if err := patch(test.body, test.more...); err != nil {
			t.Errorf("%s: %v", test.body, err)
		}
		same(t, test.body, stored(), test.want)
	}
	work := &workv1alpha1.Work{}
	if err := h.Get(t.Context(), key, work); err != nil {
		t.Fatal(err)
	}
	suspends := true
	work.Spec.SuspendDispatching = &suspends
	if err := h.Update(t.Context(), work.DeepCopy()); err != nil {
		t.Errorf("an update: %v", err)
	}
	same(t, "an update", stored(), `"true" shown as true`)
	suspends = false
	if err := h.Update(t.Context(), work); !apierrors.IsConflict(err) {
		t.Errorf("an update of an earlier version: %v, want a conflict", err)
	}
	if err := patch(`{"spec":{"suspendDispatching":"yes"}}`); err == nil {
		t.Error("a value that is no boolean is taken")
	}
	h.CreateObject(t, manifestWork("m1", "not-suspendable", nil))
	key.Name = "not-suspendable"
	if err := patch(`{"spec":{"suspendDispatching":true}}`); !apierrors.IsNotFound(err) {
		t.Errorf("a ManifestWork that is no Work: %v, want that it is not found", err)
	}
}

// TestWhoMayReadTheWorksOfAClusterReadsNoOthers are requests of a user who may read the Works of one cluster.
func TestWhoMayReadTheWorksOfAClusterReadsNoOthers(t *testing.T) {
	h := workHubs.ShareFixture(t)
	const user = "reader-of-m1"
	h.CreateObject(t, manifestWork("m1", "only-read", bound("only-read")))
	read := rbacv1.PolicyRule{APIGroups: []string{workv1alpha1.GroupName}, Resources: []string{"works"}, Verbs: []string{"get", "list", "watch"}}
	h.GrantUser(t, user, "karmada-es-m1", read)
	env.WaitAllowed(t.Context(), t, h.AdminConfig, env.UserReview(user), "karmada-es-m1", read, true)
	config, _ := h.AddUser(t, user)
	c, err := client.New(config, client.Options{Scheme: aggregated.NewScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	list := &workv1alpha1.WorkList{}
	if err := c.List(t.Context(), list, client.InNamespace("karmada-es-m1")); err != nil || len(list.Items) == 0 {
		t.Errorf("%d Works that the user may read (%v)", len(list.Items), err)
	}
	for name, options := range map[string][]client.ListOption{
		"everywhere":                           nil,
		"of another cluster":                   {client.InNamespace("karmada-es-m2")},
		"of another cluster, by its namespace": {client.InNamespace("m2")},
		"everywhere, narrowed by a field":      {client.MatchingFields{"metadata.namespace": "karmada-es-m1"}},
	} {
		if err := c.List(t.Context(), list, options...); !apierrors.IsForbidden(err) {
			t.Errorf("Works %s: %v, want that they are forbidden", name, err)
		}
	}
	suspended := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-m1", Name: "only-read"}}
	if err := c.Patch(t.Context(), suspended, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspendDispatching":true}}`))); !apierrors.IsForbidden(err) {
		t.Errorf("who may only read suspends a Work: %v, want that it is forbidden", err)
	}
	inside := []client.ListOption{client.InNamespace("karmada-es-m1"), client.MatchingFields{"metadata.namespace": "karmada-es-m2"}}
	if err := c.List(t.Context(), list, inside...); err != nil || len(list.Items) > 0 {
		t.Errorf("a field reaches out of the namespace: %v (%v)", names(list), err)
	}
}
