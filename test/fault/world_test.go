// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fault

package fault

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

const (
	// patience is how long it may take until everything is as declared. It only
	// decides how long a failure takes.
	patience = 5 * time.Minute
)

// world is a cluster of the fleet with an agent of its own, and the works that
// the test gives it.
type world struct {
	t     *testing.T
	agent fleet.Agent
	// ns is where the objects are on the member.
	ns          string
	hub, member *fleet.Cluster
	// agentID is what the agent calls itself in its records, and hubURL the hub.
	agentID, hubURL string
	// launch starts the agent.
	launch func(context.Context) (*fleet.Process, error)
	// toHub and toMember are what the agent has in between.
	toHub, toMember *proxy
	// kinds are those of the objects.
	kinds []schema.GroupVersionKind
	// churns counts how often works have been changed at random.
	churns int

	mu      sync.Mutex
	process *fleet.Process
}

var (
	configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secrets    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
)

// worlds counts them, for their names.
var worlds int

// newWorld starts an agent with further arguments, and expects when the test is over that deleting
// all works leaves nothing behind.
func newWorld(t *testing.T, args ...string) *world {
	t.Helper()
	w := bareWorld(t)
	w.agent.Args, w.agent.Hub = args, w.toHub.cluster()
	w.agent.Kubeconfig = theFleet.Path(fmt.Sprintf("proxied-%d.kubeconfig", w.agent.Number))
	w.agentID, w.hubURL = w.agent.Name(), w.toHub.address
	w.launch = func(ctx context.Context) (*fleet.Process, error) { return theFleet.StartAgent(ctx, w.agent) }
	kubeconfig, err := clientcmd.LoadFromFile(w.member.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig.Clusters[kubeconfig.Contexts[kubeconfig.CurrentContext].Cluster] = w.toMember.cluster()
	text, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, w.agent.Kubeconfig, text)
	w.must(theFleet.PrepareAgent(t.Context(), w.agent))
	w.start()
	t.Cleanup(func() { w.kill() })
	w.hasNamespace()
	return w
}

// bareWorld is a world without an agent.
func bareWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, hub: theFleet.Hub, member: theFleet.Members[0], ns: fmt.Sprintf("objects-%d", worlds),
		toHub: startProxy(t, theFleet.Hub), toMember: startProxy(t, theFleet.Members[0]),
		kinds: []schema.GroupVersionKind{configMaps, secrets},
	}
	w.agent = fleet.Agent{Number: worlds, Member: w.member}
	worlds++
	w.must(w.member.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}))
	return w
}

// hasNamespace waits until the hub has accepted the cluster.
func (w *world) hasNamespace() {
	w.t.Helper()
	w.eventually("the cluster has a namespace on the hub", func(ctx context.Context) error {
		return w.hub.Client.Get(ctx, client.ObjectKey{Name: w.agent.Cluster()}, &corev1.Namespace{})
	})
}

// in is the world for a part of the test.
func (w *world) in(t *testing.T) *world {
	whole := w.t
	t.Cleanup(func() { w.t = whole })
	w.t = t
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start starts the agent; kill ends it as a crash does.
func (w *world) start() {
	w.t.Helper()
	p, err := w.launch(context.WithoutCancel(w.t.Context()))
	w.must(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.process = p
}

func (w *world) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process != nil {
		w.process.Kill()
	}
	w.process = nil
}

// eventually waits until the check returns nil.
func (w *world) eventually(what string, check func(context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var last error
	err := fleet.Poll(ctx, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err == nil || ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		w.t.Fatalf("%s: not after %s: %v", what, patience, last)
	}
}

// pause lets things happen.
func (w *world) pause(d time.Duration) {
	w.must(fleet.Pause(w.t.Context(), d))
}

// key names an object.
type key struct{ kind, namespace, name string }

// declared is an object as the works declare it.
type declared struct {
	value  string
	owners []string // names of records, sorted
}

func (w *world) recordName(work string) string {
	sum := sha256.Sum256([]byte(w.hubURL))
	return hex.EncodeToString(sum[:]) + "-" + work
}

func (w *world) works(ctx context.Context) ([]workv1.ManifestWork, error) {
	list := &workv1.ManifestWorkList{}
	err := w.hub.Client.List(ctx, list, client.InNamespace(w.agent.Cluster()))
	return list.Items, err
}

func (w *world) records(ctx context.Context) (map[string]workv1.AppliedManifestWork, error) {
	list := &workv1.AppliedManifestWorkList{}
	if err := w.member.Client.List(ctx, list); err != nil {
		return nil, err
	}
	records := map[string]workv1.AppliedManifestWork{}
	for i := range list.Items {
		if list.Items[i].Spec.AgentID == w.agentID {
			records[list.Items[i].Name] = list.Items[i]
		}
	}
	return records, nil
}

// objects returns all managed objects of the world's namespace.
func (w *world) objects(ctx context.Context) (map[key]unstructured.Unstructured, error) {
	found := map[key]unstructured.Unstructured{}
	for _, kind := range w.kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := w.member.Client.List(ctx, list, client.InNamespace(w.ns), client.HasLabels{workv1.LabelManaged}); err != nil {
			return nil, err
		}
		for _, object := range list.Items {
			found[key{kind.Kind, object.GetNamespace(), object.GetName()}] = object
		}
	}
	return found, nil
}

// valueOf returns what the tests change in objects.
func valueOf(object *unstructured.Unstructured) string {
	for _, path := range [][]string{{"data", "value"}, {"spec", "value"}} {
		if value, ok, err := unstructured.NestedString(object.Object, path...); ok && err == nil {
			return value
		}
	}
	return ""
}

// exact returns an error as long as the member is not exactly what the works
// on the hub declare, or a work does not say that it is.
func (w *world) exact(ctx context.Context) error {
	works, err := w.works(ctx)
	if err != nil {
		return err
	}
	want := map[key]declared{}
	applied := map[string][]key{} // by record
	for i := range works {
		if err := isDone(&works[i]); err != nil {
			return err
		}
		record := w.recordName(works[i].Name)
		applied[record] = []key{}
		for _, manifest := range works[i].Spec.Workload.Manifests {
			object := unstructured.Unstructured{}
			if err := json.Unmarshal(manifest.Raw, &object.Object); err != nil {
				return err
			}
			k := key{object.GetKind(), object.GetNamespace(), object.GetName()}
			d := declared{value: valueOf(&object), owners: append(want[k].owners, record)}
			slices.Sort(d.owners)
			want[k] = d
			applied[record] = append(applied[record], k)
		}
	}
	records, err := w.records(ctx)
	if err != nil {
		return err
	}
	if got, want := slices.Sorted(maps.Keys(records)), slices.Sorted(maps.Keys(applied)); !slices.Equal(got, want) {
		return fmt.Errorf("the records are %v, want %v", got, want)
	}
	objects, err := w.objects(ctx)
	if err != nil {
		return err
	}
	return errors.Join(w.compare(want, objects, records), compareRecords(applied, objects, records))
}

func isDone(work *workv1.ManifestWork) error {
	if work.DeletionTimestamp != nil {
		return fmt.Errorf("work %s is still there: %+v", work.Name, work.Status.Conditions)
	}
	for _, condition := range []string{workv1.ManifestWorkConditionApplied, workv1.ManifestWorkConditionAvailable} {
		c := meta.FindStatusCondition(work.Status.Conditions, condition)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != work.Generation {
			return fmt.Errorf("condition %s of work %s at generation %d is %+v", condition, work.Name, work.Generation, c)
		}
	}
	if got, want := len(work.Status.ResourceStatus.Manifests), len(work.Spec.Workload.Manifests); got != want {
		return fmt.Errorf("the status of work %s has %d manifests of %d", work.Name, got, want)
	}
	return nil
}

func (w *world) compare(want map[key]declared, objects map[key]unstructured.Unstructured, records map[string]workv1.AppliedManifestWork) error {
	var errs []error
	for k := range objects {
		if _, ok := want[k]; !ok {
			errs = append(errs, fmt.Errorf("%v is left over", k))
		}
	}
	for k, d := range want {
		object, ok := objects[k]
		if !ok {
			errs = append(errs, fmt.Errorf("%v is missing", k))
			continue
		}
		if got := valueOf(&object); got != d.value || object.GetDeletionTimestamp() != nil {
			errs = append(errs, fmt.Errorf("%v is %q, want %q, deleted %v", k, got, d.value, object.GetDeletionTimestamp()))
		}
		var owners []string
		for _, owner := range object.GetOwnerReferences() {
			if records[owner.Name].UID != owner.UID {
				errs = append(errs, fmt.Errorf("%v has an owner that is gone: %v", k, owner))
			}
			owners = append(owners, owner.Name)
		}
		slices.Sort(owners)
		if !slices.Equal(owners, d.owners) {
			errs = append(errs, fmt.Errorf("%v is owned by %v, want %v", k, owners, d.owners))
		}
	}
	return errors.Join(errs...)
}

// compareRecords sees that each record lists its objects and no others.
func compareRecords(applied map[string][]key, objects map[key]unstructured.Unstructured, records map[string]workv1.AppliedManifestWork) error {
	var errs []error
	for name, keys := range applied {
		var got, want []string
		for _, r := range records[name].Status.AppliedResources {
			got = append(got, r.UID)
		}
		for _, k := range keys {
			object := objects[k]
			want = append(want, string(object.GetUID()))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || records[name].DeletionTimestamp != nil {
			errs = append(errs, fmt.Errorf("record %s lists %v, want %v, deleted %v", name, got, want, records[name].DeletionTimestamp))
		}
	}
	return errors.Join(errs...)
}

// clear deletes all works and sees that nothing is left of them.
func (w *world) clear() {
	w.t.Helper()
	works, err := w.works(w.t.Context())
	w.must(err)
	for i := range works {
		if err := w.hub.Client.Delete(w.t.Context(), &works[i]); err != nil && !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
	}
	w.eventually("nothing is left", func(ctx context.Context) error {
		works, err := w.works(ctx)
		if err != nil {
			return err
		}
		if len(works) > 0 {
			return fmt.Errorf("there are %d works; %s: %+v", len(works), works[0].Name, works[0].Status.Conditions)
		}
		return w.exact(ctx)
	})
}
