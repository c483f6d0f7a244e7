// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/internal/server/features"
)

// TestEventsThatUsersOfKarmadaWaitFor reads events as they do: by the name of the
// object, in both APIs.
func TestEventsThatUsersOfKarmadaWaitFor(t *testing.T) {
	w := newWorld(t, 1)
	w.create(policy("web", policyv1alpha1.Placement{}), deployment("quiet", 1))
	w.on("quiet", map[string]int32{"member1": 1})
	w.event(metav1.NamespaceDefault, "quiet", "ApplyPolicySucceed", "")
	w.stop()
	if got := slices.Concat(w.reasons("quiet"), w.reasons("quiet-deployment")); !slices.Equal(got, []string{"ApplyPolicySucceed"}) {
		t.Errorf("without the gate there are events %q", got)
	}

	// One namespace was there before, which is nobody's.
	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karmada-es-member2"}}
	w.create(foreign)
	w.withGates(features.KarmadaEvents)
	w.start()
	w.join("member2")
	w.event(metav1.NamespaceDefault, "member1", "CreateExecutionSpaceSucceed", "Namespace karmada-es-member1 was created.")
	space, cluster := &corev1.Namespace{}, &clusterv1.ManagedCluster{}
	for name, object := range map[string]client.Object{"karmada-es-member1": space, "member1": cluster} {
		if err := w.Get(t.Context(), client.ObjectKey{Name: name}, object); err != nil {
			t.Fatal(err)
		}
	}
	if owner := metav1.GetControllerOf(space); owner == nil || owner.UID != cluster.UID || space.Labels["karmada.io/system"] != "true" {
		t.Errorf("the namespace has labels %v and owners %v", space.Labels, space.OwnerReferences)
	}

	web := deployment("web", 2)
	w.create(web)
	w.on("web", map[string]int32{"member1": 2, "member2": 2})
	for _, name := range []string{"web", "web-deployment"} {
		w.event(web.Namespace, name, "ScheduleBindingSucceed", "The object goes to: member1 (2), member2 (2).")
		w.event(web.Namespace, name, "SyncWorkSucceed", "")
		w.event(web.Namespace, name, "AggregateStatusSucceed", "")
	}
	work := deliver.WorkName("Deployment", web.Namespace, web.Name)
	for _, reason := range []string{"SyncSucceed", "ReflectStatusSucceed", "InterpretHealthSucceed"} {
		w.event("karmada-es-member1", work, reason, "")
	}
	w.event("karmada-es-member2", work, "WorkDispatching", "Work is being dispatched to member clusters.")

	if err := w.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || len(foreign.OwnerReferences) != 0 {
		t.Errorf("the namespace that was there is taken over: %v, %v", foreign.OwnerReferences, err)
	}
	w.disagree()
	w.event(web.Namespace, "shared-configmap", "DependencyPolicyConflict", "ConflictResolution conflicted (Overwrite vs Abort); "+
		"PreserveResourcesOnDeletion conflicted (true vs false): the policies of the objects that need this one differ, and the first of both wins")
	for _, name := range []string{"first", "first-deployment"} {
		w.event(web.Namespace, name, "GetDependenciesSucceed", "")
	}
	w.event(web.Namespace, "first-deployment", "SyncScheduleResultToDependenciesSucceed", "")
}

// disagree creates two Deployments that read the same ConfigMap, and whose policies
// want different things of it.
func (w world) disagree() {
	w.Helper()
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "shared"}})
	for name, resolution := range map[string]policyv1alpha1.ConflictResolution{"first": policyv1alpha1.ConflictOverwrite, "second": policyv1alpha1.ConflictAbort} {
		p, d := policy(name, policyv1alpha1.Placement{}), deployment(name, 1)
		p.Spec.ResourceSelectors[0].Name, p.Spec.PropagateDeps = name, true
		p.Spec.ConflictResolution, p.Spec.PreserveResourcesOnDeletion = resolution, new(name == "first")
		d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "shared"},
		}}}
		w.create(p, d)
	}
}

// withGates turns on feature gates for the controllers that are started next.
func (w world) withGates(gates ...features.Gate) {
	on := map[string]bool{}
	for _, gate := range gates {
		on[string(gate)] = true
	}
	w.options.Gates, _ = features.ResolveGates(features.HubPlacement, on)
}

// event waits for an event about the object of a name; an empty note is any.
func (w world) event(namespace, name, reason, note string) {
	w.Helper()
	w.await(namespace, name, reason, func(is string) bool { return note == "" || note == is })
}

// noted waits for an event about an object of namespace default whose note has a
// part.
func (w world) noted(name, reason, part string) {
	w.Helper()
	w.await(metav1.NamespaceDefault, name, reason, func(note string) bool { return strings.Contains(note, part) })
}

func (w world) await(namespace, name, reason string, fits func(note string) bool) {
	w.Helper()
	w.eventually(fmt.Sprintf("there is an event %s about %s/%s", reason, namespace, name), func() error {
		list := &corev1.EventList{}
		if err := w.List(w.Context(), list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.name": name}); err != nil {
			return err
		}
		var told []string
		for i := range list.Items {
			e := &list.Items[i]
			if e.Reason == reason && fits(e.Message) {
				return w.Get(w.Context(), client.ObjectKeyFromObject(e), &eventsv1.Event{})
			}
			told = append(told, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("there are %q", told)
	})
}

// reasons returns the reasons of all events about an object of namespace default.
func (w world) reasons(name string) []string {
	w.Helper()
	list := &corev1.EventList{}
	if err := w.List(w.Context(), list, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"involvedObject.name": name}); err != nil {
		w.Fatal(err)
	}
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Reason)
	}
	return all
}
