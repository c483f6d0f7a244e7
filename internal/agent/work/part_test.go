// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

const widgets = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]ss.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"%[1]ss","singular":"%[1]s","kind":"%[2]s"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}]}}`

func TestObjectsAreAppliedAndBothConditionsSaySo(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("one",
		s.configMap("a", "1"),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"in","namespace":"%s-new"},"data":{"key":"x"}}`, s.cluster),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"%s-new"}}`, s.cluster),
	))
	s.condition("one", "Applied", metav1.ConditionTrue)
	work := s.condition("one", "Available", metav1.ConditionTrue)
	if !slices.Contains(work.Finalizers, workv1.FinalizerManifestWorkCleanup) {
		t.Errorf("finalizers are %v", work.Finalizers)
	}
	s.contains(message(work, 0, "Applied"), "True AppliedManifestComplete")
	s.contains(message(work, 1, "Available"), "True ResourceAvailable")
	want := workv1.ManifestResourceMeta{
		Ordinal: 1, Group: "", Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: s.cluster + "-new", Name: "in",
	}
	if diff := cmp.Diff(want, work.Status.ResourceStatus.Manifests[1].ResourceMeta); diff != "" {
		t.Errorf("resourceMeta of manifest 1 (-want +got):\n%s", diff)
	}
	cm := s.has("a", "1")
	if len(cm.OwnerReferences) != 1 || cm.OwnerReferences[0].Kind != "AppliedManifestWork" || cm.OwnerReferences[0].Controller != nil {
		t.Errorf("owners are %+v", cm.OwnerReferences)
	}
	record := &workv1.AppliedManifestWork{}
	s.eventually("the record lists the objects", func() error {
		if err := s.client.Get(t.Context(), client.ObjectKey{Name: cm.OwnerReferences[0].Name}, record); err != nil {
			return err
		}
		if len(record.Status.AppliedResources) != 3 {
			return fmt.Errorf("it has %+v", record.Status.AppliedResources)
		}
		return nil
	})
	if record.Spec.ManifestWorkName != "one" || !strings.HasSuffix(record.Name, "-one") || len(record.Spec.HubHash) != 64 {
		t.Errorf("the record is %+v", record)
	}
	s.delete("one")
	s.eventually("the objects go", func() error { // namespaces never end in envtest
		if _, _, err := s.value("a"); err == nil {
			return errors.New("configmap a is there")
		}
		return nil
	})
	s.condition("one", "Deleting", metav1.ConditionTrue)
}

func TestADefinitionAndItsObjectsArriveFromOneWork(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("widgets",
		fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":%q},"spec":{"size":3}}`, s.ns()),
		fmt.Sprintf(widgets, "widget", "Widget"),
	))
	s.condition("widgets", "Available", metav1.ConditionTrue)
	work := s.condition("widgets", "Applied", metav1.ConditionTrue)
	for _, m := range work.Status.ResourceStatus.Manifests {
		for _, c := range m.Conditions {
			if c.Status != metav1.ConditionTrue {
				t.Errorf("%+v: %+v", m.ResourceMeta, c)
			}
		}
	}
	want := workv1.ManifestResourceMeta{Group: "example.com", Version: "v1", Kind: "Widget", Resource: "widgets", Namespace: s.ns(), Name: "w"}
	if diff := cmp.Diff(want, work.Status.ResourceStatus.Manifests[0].ResourceMeta); diff != "" {
		t.Errorf("meta of the widget (-want +got):\n%s", diff)
	}
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	widget := unstructuredOf(kind, s.ns(), "w")
	widget.Object["spec"] = map[string]any{"size": int64(4)}
	if err := s.client.Patch(t.Context(), widget, client.Merge); err != nil {
		t.Fatal(err)
	}
	s.eventually("the widget is mended", func() error {
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(widget), widget); err != nil {
			return err
		}
		if size := widget.Object["spec"].(map[string]any)["size"]; size != int64(3) {
			return fmt.Errorf("its size is %v", size)
		}
		return nil
	})
	s.delete("widgets")
	s.gone("widgets")
	s.nothingLeft()
}

func TestWhatSomeoneChangesOrDeletesIsRestored(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1"),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"svc","namespace":%q,"labels":{"x":"1"}},"spec":{"ports":[{"port":80}]}}`, s.ns())))
	s.condition("w", "Applied", metav1.ConditionTrue)
	cm := s.has("a", "1")
	for i := range 3 {
		cm.Data["key"] = "changed"
		if err := s.client.Update(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
		cm = s.has("a", "1")
		if err := s.client.Delete(t.Context(), cm); err != nil {
			t.Fatal(i, err)
		}
		cm = s.has("a", "1")
	}
	svc := &corev1.Service{}
	key := client.ObjectKey{Namespace: s.ns(), Name: "svc"}
	if err := s.client.Get(t.Context(), key, svc); err != nil {
		t.Fatal(err)
	}
	svc.Labels = nil // ours and the manifest's
	if err := s.client.Update(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	s.eventually("the labels are restored", func() error {
		if err := s.client.Get(t.Context(), key, svc); err != nil {
			return err
		}
		if svc.Labels["x"] != "1" || svc.Labels[workv1.LabelManaged] != "true" {
			return fmt.Errorf("they are %v", svc.Labels)
		}
		return nil
	})
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestAManifestThatLeavesTheWorkLeavesTheMember(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1"), s.configMap("b", "1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) {
		setManifests(w, s.configMap("b", "2"), fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c","namespace":%q}}`, s.ns()))
	})
	s.hasNot("a")
	s.has("b", "2")
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) {
		setManifests(w, fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"c","namespace":%q}}`, s.ns()))
	})
	s.hasNot("b")
	s.eventually("the record drops the type", func() error {
		records := &workv1.AppliedManifestWorkList{}
		if err := s.client.List(t.Context(), records); err != nil {
			return err
		}
		for i := range records.Items {
			if r := &records.Items[i]; r.Spec.AgentID == "agent-of-"+s.cluster &&
				(r.Annotations[workv1.AnnotationResourceTypes] != "/v1/secrets" || len(r.Status.AppliedResources) != 1) {
				return fmt.Errorf("it has %v and %v", r.Annotations, r.Status.AppliedResources)
			}
		}
		return nil
	})
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestAnObjectOfTwoWorksStaysUntilTheSecondOneGoes(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("one", s.configMap("a", "1")))
	s.condition("one", "Applied", metav1.ConditionTrue)
	s.create(s.work("two", s.configMap("a", "1")))
	s.condition("two", "Applied", metav1.ConditionTrue)
	if cm := s.has("a", "1"); len(cm.OwnerReferences) != 2 {
		t.Fatalf("owners are %+v", cm.OwnerReferences)
	}
	s.delete("one")
	s.gone("one")
	if cm := s.has("a", "1"); len(cm.OwnerReferences) != 1 || cm.Labels[workv1.LabelManaged] != "true" {
		t.Fatalf("owners are %+v, labels %v", cm.OwnerReferences, cm.Labels)
	}
	s.delete("two")
	s.gone("two")
	s.hasNot("a")
	s.nothingLeft()
}

func TestTwoWorksThatDisagreeDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	var count atomic.Int64
	s.start(agentOptions{wrap: func(rt http.RoundTripper) http.RoundTripper { return &writes{RoundTripper: rt, count: &count} }})
	s.create(s.work("one", s.configMap("a", "1")))
	s.condition("one", "Applied", metav1.ConditionTrue)
	s.create(s.work("two", s.configMap("a", "2")))
	work := s.condition("two", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), "AppliedManifestFailed", ".data.key", `ManifestWork "one"`)
	s.has("a", "1")
	before := count.Load()
	<-time.After(500 * time.Millisecond)
	if after := count.Load(); after-before > 2 {
		t.Errorf("%d writes while nothing happened", after-before)
	}
	s.delete("one")
	s.gone("one")
	s.condition("two", "Applied", metav1.ConditionTrue)
	s.has("a", "2")
	s.delete("two")
	s.gone("two")
	s.nothingLeft()
}

func TestADeletionThatWaitsSaysForWhat(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1"), s.configMap("b", "1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	cm := s.has("a", "1")
	cm.Finalizers = []string{"example.com/wait"}
	if err := s.client.Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	s.delete("w")
	s.hasNot("b")
	work := s.condition("w", "Deleting", metav1.ConditionTrue)
	c := meta.FindStatusCondition(work.Status.Conditions, "Deleting")
	s.contains(c.Reason+" "+c.Message, "WorkDeleting", "configmaps "+s.ns()+"/a", "example.com/wait")
	cm, _, err := s.value("a")
	if err != nil {
		t.Fatal(err)
	}
	cm.Finalizers = nil
	if err := s.client.Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	s.gone("w")
	s.nothingLeft()
}

func TestAManifestThatIsNotAllowedSaysWhatToAllow(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	user, _ := s.user(records,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch", "delete"}})
	s.start(agentOptions{spoke: user})
	s.create(s.work("w", s.configMap("a", "1"),
		fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":%q},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, s.ns())))
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.eventually("the other says that it is not watched", func() error {
		work, err := s.get("w")
		if got := message(work, 0, "Applied"); err == nil && !strings.Contains(got, "list and watch configmaps") {
			err = errors.New(got)
		}
		return err
	})
	s.contains(message(work, 1, "Applied"), "AppliedManifestFailed", "may not patch deployments.apps", s.ns(),
		"open-cluster-management.io/aggregate-to-work", "[get list watch create patch delete]")
	s.contains(message(work, 1, "Available"), "Unknown")
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestOfAHundredQuickChangesTheLastOneCounts(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "0")))
	for i := range 100 {
		s.change("w", func(w *workv1.ManifestWork) {
			setManifests(w, s.configMap("a", fmt.Sprint(i+1)), s.configMap(fmt.Sprintf("extra-%d", i), "x"))
		})
	}
	s.has("a", "100")
	work := s.condition("w", "Applied", metav1.ConditionTrue)
	if len(work.Status.ResourceStatus.Manifests) != 2 {
		t.Errorf("status has %d manifests", len(work.Status.ResourceStatus.Manifests))
	}
	s.eventually("only the last extra is left", func() error {
		maps := &corev1.ConfigMapList{}
		if err := s.client.List(t.Context(), maps, client.InNamespace(s.ns()), client.HasLabels{workv1.LabelManaged}); err != nil {
			return err
		}
		if len(maps.Items) != 2 {
			return fmt.Errorf("there are %d", len(maps.Items))
		}
		return nil
	})
	s.has("extra-99", "x")
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}
