// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/ownwrites"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// fleetHub is a hub with clusters edge-0, edge-1 and so on, of which each namespace has one binding.
type fleetHub struct {
	*testing.T
	client.Client
	*NamespaceController
	clock *clocktesting.FakePassiveClock
	// objects are those of bindings.
	objects knownObjects
	// stored are the bytes of works that were created or deleted.
	created, deleted, stored atomic.Int64
}

// knownObjects are the metadata of objects of the hub.
type knownObjects map[templates.Key]*metav1.PartialObjectMetadata

func (o knownObjects) Get(key templates.Key) (object *metav1.PartialObjectMetadata, known bool) {
	return o[key], true
}

// newFleetHub returns a hub with namespaces, which shares with many others what is written in a second.
func newFleetHub(t *testing.T, clusters int, writers int64, namespaces ...string) *fleetHub {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme),
		policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme), workv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	h := &fleetHub{T: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), objects: knownObjects{}}
	created := ownwrites.NewCreatedWorks(h.clock)
	hub := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if work, is := object.(*workv1.ManifestWork); is {
				h.created.Add(1)
				h.stored.Add(allowance.WorkBytes(work))
			}
			return c.Create(ctx, object, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			work := &workv1.ManifestWork{}
			if _, is := object.(*clusterv1.ManagedCluster); is {
				return c.Delete(ctx, object, options...)
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), work); err != nil {
				return err
			}
			h.deleted.Add(1)
			h.stored.Add(allowance.WorkBytes(work))
			created.ForgetWork(client.ObjectKeyFromObject(work))
			work.Finalizers = nil // as the agent does
			return errors.Join(c.Update(ctx, work), c.Delete(ctx, work))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if found, is := list.(*workv1.ManifestWorkList); is {
				for i := range found.Items {
					slim, failed := deliver.SlimWork(&found.Items[i])
					err = errors.Join(err, failed)
					found.Items[i] = *slim.(*workv1.ManifestWork) //nolint:forcetypeassert // it is one
				}
			}
			return err
		},
	}).WithIndex(&workv1.ManifestWork{}, IndexNamespace, func(object client.Object) []string { return []string{deliver.OfNamespace(object)} })
	for i := range clusters {
		hub.WithObjects(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("edge-", i)}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}})
	}
	for _, name := range namespaces {
		hub.WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "web"}})
	}
	h.Client = hub.Build()
	h.NamespaceController = NewNamespaceController(NamespaceDeps{
		Client: h.Client, Live: h.Client, Writer: send.WorkWriter{Client: h.Client, Live: h.Client, Created: created, Restless: send.NewRestlessWorks(h.clock)},
		Fleet: fleet.NewFleet(h.clock), Templates: h.objects, Allowance: allowance.NewAllowance(h.clock, allowance.DefaultShared, writers), Events: events.NewDiscardRecorder(), Clock: h.clock,
	})
	return h
}

// sends has the binding of a namespace send its object to the first clusters, and looks at the namespace. It returns how
// soon to look again.
func (h *fleetHub) sends(namespace string, clusters int) time.Duration {
	h.Helper()
	b := &workv1alpha2.ResourceBinding{}
	if err := h.Get(h.Context(), types.NamespacedName{Namespace: namespace, Name: "web"}, b); err != nil {
		h.Fatal(err)
	}
	b.Spec.Clusters = nil
	for i := range clusters {
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: fmt.Sprint("edge-", i)})
	}
	if err := h.Update(h.Context(), b); err != nil {
		h.Fatal(err)
	}
	return h.looksAt(namespace)
}

// looksAt looks at a namespace, and returns how soon to look again.
func (h *fleetHub) looksAt(namespace string) time.Duration {
	h.Helper()
	result, err := h.Reconcile(h.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: namespace}})
	if err != nil {
		h.Fatal(err)
	}
	return result.RequeueAfter
}

// passes lets time pass.
func (h *fleetHub) passes(time time.Duration) { h.clock.SetTime(h.clock.Now().Add(time)) }

// TestNamespacesThatComeAndGoHoldUpNobody has a tenant send an object to all clusters and to none, again and again: each time
// the namespace comes to all of them. That is written at a pace, and what others have sent does not wait for it.
func TestNamespacesThatComeAndGoHoldUpNobody(t *testing.T) {
	const clusters, moves, writers = 30, 100, 16384
	const burst, rate = allowance.DefaultShared / 4 / writers, allowance.DefaultShared / 1024 / writers
	h := newFleetHub(t, clusters, writers, "shop", "school")
	begun := h.clock.Now()
	for range moves {
		for _, to := range []int{clusters, 0} {
			h.sends("shop", to)
			h.passes(2 * time.Second)
		}
	}
	passed := int64(h.clock.Now().Sub(begun).Seconds())
	if most := int64(burst) + passed*rate + 4<<10; h.stored.Load() > most { // it is a work after which there is no more
		t.Errorf("%d bytes are stored in %d seconds, want %d at most", h.stored.Load(), passed, most)
	}
	if h.created.Load() < burst/(4<<10) {
		t.Errorf("%d works are created, which says nothing about a pace", h.created.Load())
	}
	before := h.created.Load()
	if again := h.sends("school", 1); h.created.Load() != before+1 {
		t.Errorf("the namespace of another comes to its cluster after %s", again)
	}
	definition := allowance.WorkWrite{Work: types.NamespacedName{Namespace: "edge-0", Name: "definition"}, Bytes: 1 << 20}
	if held := h.Allowance.AdmitWrites(allowance.WorkOwner{}, []allowance.WorkWrite{definition}); held.AnyHeld() {
		t.Errorf("the definition of an administrator waits for %s", held.Again)
	}
}

// TestATenantHoldsBackNoNamespaceOfAnAdministrator has a tenant write all that he may in his namespace, while an administrator has
// a NetworkPolicy in it sent to one more cluster. The marks of the same policy on what it does not select help nobody.
func TestATenantHoldsBackNoNamespaceOfAnAdministrator(t *testing.T) {
	const clusters, writers = 30, 16384
	h := newFleetHub(t, clusters, writers, "shop")
	policy := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: "isolation", Labels: map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "permanent"},
	}}
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Name: "isolated"}}
	if err := h.Create(h.Context(), policy); err != nil {
		t.Fatal(err)
	}
	if again := h.sends("shop", clusters); again == 0 || h.created.Load() >= clusters-2 {
		t.Fatalf("%d works are created, so that nobody waits", h.created.Load())
	}
	sends := func(object, cluster string) bool {
		h.sendsByPolicy(policy, object, cluster)
		h.looksAt("shop")
		work := types.NamespacedName{Namespace: cluster, Name: deliver.NamespaceWorkName("shop")}
		return h.Get(h.Context(), work, &workv1.ManifestWork{}) == nil
	}
	if sends("another", fmt.Sprint("edge-", clusters-1)) {
		t.Error("the namespace comes to the cluster of an object that the policy does not select")
	}
	if !sends("isolated", fmt.Sprint("edge-", clusters-2)) {
		t.Error("the namespace waits for its users where a NetworkPolicy of an administrator needs it")
	}
}

// sendsByPolicy has a NetworkPolicy of a namespace, with the marks of a policy, sent to a cluster.
func (h *fleetHub) sendsByPolicy(policy *policyv1alpha1.ClusterPropagationPolicy, object, cluster string) {
	h.Helper()
	marks := claims.MarksForPolicy(policy)
	of := workv1alpha2.ObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: "shop", Name: object}
	key := templates.KeyOf(of)
	h.objects[key] = &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: of.APIVersion, Kind: of.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: object, Labels: marks.Labels, Annotations: marks.Annotations},
	}
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: of.Namespace, Name: claims.BindingNames(key.Kind, object)[0], Labels: marks.Labels, Annotations: marks.Annotations,
	}}
	b.Spec.Resource = of
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: cluster}}
	if err := h.Create(h.Context(), b); err != nil {
		h.Fatal(err)
	}
}

// TestANamespaceThatIsNotNeededLeavesLater has the last binding leave a cluster, and come back.
func TestANamespaceThatIsNotNeededLeavesLater(t *testing.T) {
	h := newFleetHub(t, 2, 1, "shop")
	h.sends("shop", 2)
	if again := h.sends("shop", 1); again != leaveAfter || h.deleted.Load() > 0 {
		t.Errorf("%d works are deleted at once, and it is looked at again after %s", h.deleted.Load(), again)
	}
	h.passes(leaveAfter - time.Second)
	if again := h.sends("shop", 1); again != time.Second || h.deleted.Load() > 0 {
		t.Errorf("%d works are deleted before their time, and it is looked at again after %s", h.deleted.Load(), again)
	}
	h.sends("shop", 2)
	h.passes(time.Second)
	if again := h.sends("shop", 1); again != leaveAfter || h.deleted.Load() > 0 {
		t.Errorf("%d works are deleted that were needed a moment ago, and it is looked at again after %s", h.deleted.Load(), again)
	}
	h.passes(leaveAfter)
	if again := h.sends("shop", 1); again != 0 || h.deleted.Load() != 1 {
		t.Errorf("after its time %d works are deleted, and it is looked at again after %s", h.deleted.Load(), again)
	}
	if h.sends("shop", 1); len(h.unneeded.since) > 0 {
		t.Errorf("%v are remembered", h.unneeded.since)
	}
}

// TestWhatAdministratorsDecideAboutLeavesAtOnce has reasons for which a cluster loses a namespace that no tenant has.
func TestWhatAdministratorsDecideAboutLeavesAtOnce(t *testing.T) {
	for name, decide := range map[string]func(*fleetHub) error{
		"it is not to be sent": func(h *fleetHub) error {
			shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{policyv1alpha1.LabelSkipAutoPropagation: "true"}}}
			return h.Update(h.Context(), shop)
		},
		"a policy sends it": func(h *fleetHub) error {
			b := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: "shop-namespace"}}
			b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "shop"}
			b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "edge-0"}}
			return h.Create(h.Context(), b)
		},
		"the cluster goes": func(h *fleetHub) error {
			cluster := &clusterv1.ManagedCluster{}
			if err := h.Get(h.Context(), types.NamespacedName{Name: "edge-0"}, cluster); err != nil {
				return err
			}
			cluster.Finalizers = []string{"example.io/kept"}
			return errors.Join(h.Update(h.Context(), cluster), h.Delete(h.Context(), cluster))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFleetHub(t, 1, 1, "shop")
			h.sends("shop", 1)
			if err := decide(h); err != nil {
				t.Fatal(err)
			}
			if h.sends("shop", 1); h.deleted.Load() != 1 {
				t.Errorf("%d works are deleted", h.deleted.Load())
			}
		})
	}
}
