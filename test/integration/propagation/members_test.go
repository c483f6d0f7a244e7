// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
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
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/agent/work/hubfile"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// member is a cluster that is an API server, with the work agent of a Pull cluster.
// It has no controllers and no nodes: a Deployment runs as soon as it is there.
type member struct{ client.Client }

// newWorldOfMembers starts a hub with so many members, named member1 and on. Its
// controllers do not run.
func newWorldOfMembers(t *testing.T, members int) world {
	t.Helper()
	w := newHub(t, servers.Start)
	w.joinMembers(members)
	return w
}

func (w world) joinMembers(members int) {
	w.Helper()
	for i := range members {
		w.joinMember(fmt.Sprintf("member%d", i+1))
	}
}

// joinMember starts a member, and has it join.
func (w world) joinMember(name string) {
	w.Helper()
	_, config := servers.Start(w.T, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{pathOf("work.open-cluster-management.io_appliedmanifestworks.yaml")}
	})
	c, err := client.New(config, client.Options{Scheme: w.Scheme()})
	if err != nil {
		w.Fatal(err)
	}
	w.members[name] = &member{c}
	w.accept(name)
	kubeconfig := filepath.Join(w.TempDir(), "hub-of-"+name)
	if err := os.WriteFile(kubeconfig, w.environment.KubeConfig, 0o600); err != nil {
		w.Fatal(err)
	}
	part, err := work.NewManifestWorkPart(work.PartOptions{Logger: logr.Discard()})
	if err != nil {
		w.Fatal(err)
	}
	follower := hubfile.NewKubeconfigFollower(hubfile.FollowerOptions{
		File: kubeconfig, ClusterName: name, AgentID: "agent-of-" + name, Member: config, Log: logr.Discard(),
		Registry: fleet.NewRegistry(fleet.RegistryOptions{Parts: []fleet.Part{part}}),
	})
	w.background("works of "+name, part.Start)
	w.background("the agent of "+name, follower.RunFollower)
	w.background("Deployments of "+name, w.members[name].runDeployments)
}

// background does something until the test ends.
func (w world) background(what string, do func(context.Context) error) {
	w.Helper()
	var running sync.WaitGroup
	running.Go(func() {
		if err := do(w.Context()); err != nil {
			w.Errorf("%s: %v", what, err)
		}
	})
	w.Cleanup(running.Wait)
}

// runDeployments gives Deployments the status that they have when all their pods run.
func (m *member) runDeployments(ctx context.Context) error {
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

// has returns what agents have applied in namespace default, by KIND/NAME.
func (m *member) has(ctx context.Context) (map[string]*unstructured.Unstructured, error) {
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

// has waits until a member has exactly these objects, KIND/NAME, that agents have applied.
func (w world) has(cluster string, want ...string) {
	w.Helper()
	slices.Sort(want)
	w.eventually(fmt.Sprintf("%s has %v", cluster, want), func() error {
		has, err := w.members[cluster].has(w.Context())
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
func (w world) noteApplied(sent map[string]sentWork) error {
	for name, m := range w.members {
		has, err := m.has(w.Context())
		if err != nil {
			return err
		}
		for object, is := range has {
			if work, there := sent[name+"/"+object]; there && is.GetDeletionTimestamp().IsZero() {
				work.applied = is.GetUID()
				sent[name+"/"+object] = work
			}
		}
	}
	return nil
}

// delivered returns an error unless the members have what was sent to them as it was
// sent, and nothing else but what the hub has forgotten.
func (w world) delivered(sent map[string]sentWork) error {
	for name, m := range w.members {
		has, err := m.has(w.Context())
		if err != nil {
			return err
		}
		forgotten, err := m.forgotten(w.Context())
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
		if w.members[cluster] != nil && work.applied == "" {
			return fmt.Errorf("%s does not have %s, but was sent it", cluster, object)
		}
	}
	return nil
}

// forgotten returns the UIDs of the records of works that the agent has missed on the
// hub: it keeps what they brought for a time.
func (m *member) forgotten(ctx context.Context) (map[types.UID]bool, error) {
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
