// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package managednamespace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestEachHubHasALabelThatKubernetesTakes(t *testing.T) {
	hubs := []string{"https://hub.example.com:6443", "https://hub.example.com:6444", "", "https://" + strings.Repeat("long.", 100) + "example.com"}
	of := map[string]string{}
	for _, hub := range hubs {
		label := NamespaceLabelKey(hub)
		if wrong := validation.IsQualifiedName(label); len(wrong) > 0 {
			t.Errorf("the label of hub %q is no key: %v", hub, wrong)
		}
		if !strings.HasPrefix(label, "clusterset.open-cluster-management.io/") || !strings.HasPrefix(workv1.HubHash(hub), strings.TrimPrefix(label, "clusterset.open-cluster-management.io/")) {
			t.Errorf("the label of hub %q is %q, want one with the hash of the hub", hub, label)
		}
		if other, taken := of[label]; taken {
			t.Errorf("hubs %q and %q have the same label", hub, other)
		}
		of[label] = hub
	}
}

const label = "clusterset.open-cluster-management.io/hub"

// scene is a cluster of a hub.
type scene struct {
	*testing.T
	namespaceReconciler
}

// newScene returns a cluster with these namespaces, on which all fails that has to do
// with namespace broken.
func newScene(t *testing.T, namespaces ...client.Object) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	expect.NoError(t, errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)))
	broken := func(object client.Object) error {
		if object.GetName() != "broken" {
			return nil
		}
		return apierrors.NewForbidden(corev1.Resource("namespaces"), "broken", errors.New("not yours"))
	}
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster).WithStatusSubresource(cluster).Build()
	member := fake.NewClientBuilder().WithScheme(scheme).WithObjects(namespaces...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := broken(object); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := broken(object); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	return &scene{T: t, namespaceReconciler: namespaceReconciler{cluster: "member1", label: label, hub: hub, member: member, reader: member}}
}

// wants has sets request namespaces, each as SET/NAMESPACE.
func (s *scene) wants(requests ...string) {
	s.Helper()
	cluster := s.read()
	cluster.Status.ManagedNamespaces = nil
	for _, request := range requests {
		set, name, _ := strings.Cut(request, "/")
		cluster.Status.ManagedNamespaces = append(cluster.Status.ManagedNamespaces, clusterv1.ClusterSetManagedNamespaceConfig{
			ClusterSet: set, ManagedNamespaceConfig: clusterv1.ManagedNamespaceConfig{Name: name},
		})
	}
	expect.NoError(s, s.hub.Status().Update(s.Context(), cluster))
}

func (s *scene) read() *clusterv1.ManagedCluster {
	s.Helper()
	cluster := &clusterv1.ManagedCluster{}
	expect.NoError(s, s.hub.Get(s.Context(), client.ObjectKey{Name: s.cluster}, cluster))
	return cluster
}

// namespaces returns the labels of the namespaces that there are.
func (s *scene) namespaces() map[string]map[string]string {
	s.Helper()
	all := &corev1.NamespaceList{}
	expect.NoError(s, s.member.List(s.Context(), all))
	found := map[string]map[string]string{}
	for i := range all.Items {
		found[all.Items[i].Name] = all.Items[i].Labels
	}
	return found
}

// told returns what the hub is told of each request.
func (s *scene) told() []string {
	s.Helper()
	var told []string
	for _, entry := range s.read().Status.ManagedNamespaces {
		text := entry.ClusterSet + "/" + entry.Name
		for _, said := range entry.Conditions {
			text += fmt.Sprintf(" %s=%s %s", said.Type, said.Status, said.Reason)
			if strings.Contains(said.Message, "not yours") {
				text += ": not yours"
			}
		}
		told = append(told, text)
	}
	return told
}

func namespace(name string, labels ...string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, each := range labels {
		key, value, _ := strings.Cut(each, "=")
		metav1.SetMetaDataLabel(&ns.ObjectMeta, key, value)
	}
	return ns
}

func TestWhatBecomesOfNamespaces(t *testing.T) {
	type labels = map[string]string
	const is, isNot = " NamespaceAvailable=True NamespaceApplied", " NamespaceAvailable=False NamespaceApplyFailed: not yours"
	cases := map[string]struct {
		has    []client.Object
		wants  []string
		want   map[string]labels
		told   []string
		failed bool
	}{
		"nobody wants any": {[]client.Object{namespace("default")}, nil, map[string]labels{"default": nil}, nil, false},
		"one is made":      {nil, []string{"one/apps"}, map[string]labels{"apps": {label: "true"}}, []string{"one/apps" + is}, false},
		"one that is there keeps its labels": {
			[]client.Object{namespace("apps", "team=a")},
			[]string{"one/apps"},
			map[string]labels{"apps": {"team": "a", label: "true"}},
			[]string{"one/apps" + is},
			false,
		},
		"two sets want the same": {
			nil, []string{"one/apps", "two/apps"}, map[string]labels{"apps": {label: "true"}}, []string{"one/apps" + is, "two/apps" + is}, false,
		},
		"one is wanted again": {
			[]client.Object{namespace("apps", label+"=false")}, []string{"one/apps"}, map[string]labels{"apps": {label: "true"}}, []string{"one/apps" + is}, false,
		},
		"one that nobody wants any more is not deleted": {
			[]client.Object{namespace("apps", "team=a", label+"=true")}, nil, map[string]labels{"apps": {"team": "a", label: "false"}}, nil, false,
		},
		"what another hub wants is left alone": {
			[]client.Object{namespace("apps", "clusterset.open-cluster-management.io/other=true")},
			nil,
			map[string]labels{"apps": {"clusterset.open-cluster-management.io/other": "true"}},
			nil, false,
		},
		"one that cannot be made is told of, and holds up no other": {
			nil,
			[]string{"one/broken", "one/apps", "two/broken"},
			map[string]labels{"apps": {label: "true"}},
			[]string{"one/broken" + isNot, "one/apps" + is, "two/broken" + isNot},
			true,
		},
		"one that cannot be labelled is told of": {
			[]client.Object{namespace("broken")}, []string{"one/broken"}, map[string]labels{"broken": nil}, []string{"one/broken" + isNot}, true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, tc.has...)
			s.wants(tc.wants...)
			again, err := s.reconcileNamespaces(t.Context())
			if (err != nil) != tc.failed {
				t.Errorf("error %v, want one: %t", err, tc.failed)
			}
			if (again > 0) != (len(tc.wants) > 0) {
				t.Errorf("again after %s: want to look from time to time while something is wanted", again)
			}
			if diff := cmp.Diff(tc.want, s.namespaces()); diff != "" {
				t.Errorf("namespaces, -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.told, s.told()); diff != "" {
				t.Errorf("what the hub is told, -want +got:\n%s", diff)
			}
		})
	}
}

func TestANamespaceIsReleasedWhenItsLastSetIsGone(t *testing.T) {
	s := newScene(t)
	for _, step := range []struct {
		wants []string
		want  map[string]string // values of the label
	}{
		{[]string{"one/apps", "two/apps", "two/tools"}, map[string]string{"apps": "true", "tools": "true"}},
		{[]string{"one/apps"}, map[string]string{"apps": "true", "tools": "false"}},
		{nil, map[string]string{"apps": "false", "tools": "false"}},
		{nil, map[string]string{"apps": "false", "tools": "false"}},
		{[]string{"two/tools"}, map[string]string{"apps": "false", "tools": "true"}},
		{nil, map[string]string{"apps": "false", "tools": "false"}},
	} {
		s.wants(step.wants...)
		if _, err := s.reconcileNamespaces(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for name, labels := range s.namespaces() {
			got[name] = labels[label]
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("when %v are wanted, -want +got:\n%s", step.wants, diff)
		}
	}
}

func TestAClusterThatTheHubDoesNotHaveIsNoError(t *testing.T) {
	s := newScene(t, namespace("apps", label+"=true"))
	s.cluster = "gone"
	if again, err := s.reconcileNamespaces(t.Context()); err != nil || again != 0 {
		t.Errorf("again after %s, error %v", again, err)
	}
	if got := s.namespaces()["apps"][label]; got != "true" {
		t.Errorf("the label is %q, want it as it was: nobody has said that the namespace is not wanted", got)
	}
}
