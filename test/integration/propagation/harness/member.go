// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/background"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/member"
)

// Member is a cluster that is an API server, with the work agent of a Pull cluster.
// It has no controllers and no nodes: a Deployment runs as soon as it is there.
type Member struct{ client.Client }

// NewWorldOfMembers starts a hub with so many members, named member1 and on. Its
// controllers do not run.
func NewWorldOfMembers(t testing.TB, servers *env.Servers, members int) World {
	t.Helper()
	w := NewHub(t, servers)
	w.JoinMembers(members)
	return w
}

// JoinMembers starts members, named member1 and on, and has them join.
func (w World) JoinMembers(members int) {
	w.Helper()
	for i := range members {
		w.JoinMember(fmt.Sprintf("member%d", i+1))
	}
}

// JoinMember starts a member, and has it join.
func (w World) JoinMember(name string) {
	w.Helper()
	_, config := w.servers.Start(w.TB, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{pathOf("work.open-cluster-management.io_appliedmanifestworks.yaml")}
	})
	c, err := client.New(config, client.Options{Scheme: w.Scheme()})
	if err != nil {
		w.Fatal(err)
	}
	w.Members[name] = &Member{c}
	w.AcceptCluster(name)
	member.RunWorkAgent(w.TB, member.WorkAgent{ClusterName: name, AgentID: "agent-of-" + name, HubKubeconfig: w.Environment.KubeConfig, Member: config})
	background.RunUntilEnd(w.TB, "Deployments of "+name, w.Members[name].runDeployments)
}

// runDeployments gives Deployments the status that they have when all their pods run.
func (m *Member) runDeployments(ctx context.Context) error {
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
		_ = m.List(ctx, list) // it is tried again
		for i := range list.Items {
			object := &list.Items[i]
			if observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); observed == object.GetGeneration() {
				continue
			}
			runs(object)
			_ = m.Status().Update(ctx, object) // it is tried again
		}
	}
	return nil
}

// AppliedObjects returns what agents have applied in namespace default, by KIND/NAME.
func (m *Member) AppliedObjects(ctx context.Context) (map[string]*unstructured.Unstructured, error) {
	all := map[string]*unstructured.Unstructured{}
	for _, kind := range []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("Deployment"), corev1.SchemeGroupVersion.WithKind("ConfigMap")} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := m.List(ctx, list, client.InNamespace(metav1.NamespaceDefault), client.HasLabels{workv1.LabelManaged}); err != nil {
			return nil, err
		}
		for i := range list.Items {
			all[kind.Kind+"/"+list.Items[i].GetName()] = &list.Items[i]
		}
	}
	return all, nil
}

// MemberHas waits until a member has exactly these objects, KIND/NAME, that agents have applied.
func (w World) MemberHas(cluster string, want ...string) {
	w.Helper()
	slices.Sort(want)
	w.Eventually(fmt.Sprintf("%s has %v", cluster, want), func() error {
		has, err := w.Members[cluster].AppliedObjects(w.Context())
		if err != nil {
			return err
		}
		if got := slices.Sorted(maps.Keys(has)); !slices.Equal(got, want) {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

// noteApplied notes the UIDs of the objects in the members that works have brought there.
func (w World) noteApplied(sent map[string]SentWork) error {
	for name, m := range w.Members {
		has, err := m.AppliedObjects(w.Context())
		if err != nil {
			return err
		}
		for object, is := range has {
			if work, there := sent[name+"/"+object]; there && is.GetDeletionTimestamp().IsZero() {
				work.Applied = is.GetUID()
				sent[name+"/"+object] = work
			}
		}
	}
	return nil
}

// delivered returns an error unless the members have what was sent to them as it was
// sent, and nothing else but what the hub has forgotten.
func (w World) delivered(sent map[string]SentWork) error {
	for name, m := range w.Members {
		has, err := m.AppliedObjects(w.Context())
		if err != nil {
			return err
		}
		forgotten, err := m.ForgottenRecords(w.Context())
		if err != nil {
			return err
		}
		for object, is := range has {
			work, there := sent[name+"/"+object]
			switch {
			case there && (!is.GetDeletionTimestamp().IsZero() || !carries(is.Object, work.object.Object)):
				return fmt.Errorf("%s has %s as %v, but was sent %v", name, object, is.Object, work.object.Object)
			case !there && !slices.ContainsFunc(is.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return forgotten[o.UID] }):
				return fmt.Errorf("%s has %s, but was not sent it", name, object)
			}
		}
	}
	for key, work := range sent {
		cluster, object, _ := strings.Cut(key, "/")
		if w.Members[cluster] != nil && work.Applied == "" {
			return fmt.Errorf("%s does not have %s, but was sent it", cluster, object)
		}
	}
	return nil
}

// ForgottenRecords returns the UIDs of the records of works that the agent has missed on the
// hub: it keeps what they brought for a time.
func (m *Member) ForgottenRecords(ctx context.Context) (map[types.UID]bool, error) {
	records := &workv1.AppliedManifestWorkList{}
	if err := m.List(ctx, records); err != nil {
		return nil, err
	}
	all := map[types.UID]bool{}
	for _, record := range records.Items {
		all[record.UID] = record.Status.EvictionStartTime != nil
	}
	return all, nil
}

// carries reports whether an object has the replicas and the template that another has.
func carries(is, sent map[string]any) bool {
	for _, path := range [][]string{{"spec", "replicas"}, {"metadata", "annotations", workv1alpha2.AnnotationTemplateUID}} {
		got, _, _ := unstructured.NestedFieldNoCopy(is, path...)
		want, _, _ := unstructured.NestedFieldNoCopy(sent, path...)
		if got != want {
			return false
		}
	}
	return true
}
