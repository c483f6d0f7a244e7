// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// Restored sets the annotation by which a restored hub says what it forgot to a
// JSON value.
func (w *World) Restored(value string) {
	w.t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.Agent.Cluster()}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, fleetv1alpha1.AnnotationRestored, value)
	w.Must(w.Hub.Client.Patch(w.t.Context(), mc, client.RawPatch(types.MergePatchType, patch)))
}

// StaysWithoutWork expects that the agent reports that works are missing, and does not
// begin to evict the ConfigMap of the same name as one of them, each time that it looks.
func (w *World) StaysWithoutWork(name string) {
	w.t.Helper()
	w.Eventually("the agent reports what the hub forgot", func(ctx context.Context) error {
		mc := &clusterv1.ManagedCluster{}
		if err := w.Hub.Client.Get(ctx, client.ObjectKey{Name: w.Agent.Cluster()}, mc); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionWorksMissing) {
			return fmt.Errorf("the conditions are %+v", mc.Status.Conditions)
		}
		return nil
	})
	for range 2 { // at the second look, the first one has ended
		w.looksWhatToKeep(name)
	}
	w.Must(w.Member.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, &corev1.ConfigMap{}))
	records, err := w.Records(w.t.Context())
	w.Must(err)
	record, there := records[w.recordName(name)]
	if !there || record.DeletionTimestamp != nil || record.Status.EvictionStartTime != nil {
		w.t.Errorf("the record of work %q should stay: it is there: %t, deleted: %v, evicted since %v",
			name, there, record.DeletionTimestamp, record.Status.EvictionStartTime)
	}
	err = w.Hub.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.Agent.Cluster(), Name: name}, &workv1.ManifestWork{})
	if !apierrors.IsNotFound(err) {
		w.t.Errorf("the restored hub should have forgotten work %q: %v", name, err)
	}
}

// looksWhatToKeep changes the ConfigMap of a work that the hub does not have, and waits
// until the agent asks the hub for what it forgot, as it does before it lets go of
// anything.
func (w *World) looksWhatToKeep(name string) {
	w.t.Helper()
	var asked atomic.Bool
	w.ToHub.Misbehave(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/managedclusters/"+w.Agent.Cluster()) && strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
			asked.Store(true)
		}
		return false
	})
	defer w.ToHub.Misbehave(nil)
	patch := fmt.Appendf(nil, `{"data":{"mark":"%d"}}`, time.Now().UnixNano())
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
	w.Must(w.Member.Client.Patch(w.t.Context(), object, client.RawPatch(types.MergePatchType, patch)))
	w.Eventually("the agent asks the hub what it forgot", func(context.Context) error {
		if !asked.Load() {
			return errors.New("it does not")
		}
		return nil
	})
}

// sentinelName is of a work, and of its object, by which the test knows that the agent
// has looked at what happened before.
const sentinelName = "sentinel"

// Settles waits until everything is as declared, has the agent look at each work once
// more, and sees that it then writes nothing, while it does what comes later.
func (w *World) Settles() {
	w.t.Helper()
	start := time.Now()
	w.Eventually("everything is as declared", w.Exact)
	took := time.Since(start)
	w.WorksAreLookedAt()
	w.Eventually("everything is as declared", w.Exact)
	w.passesSentinel("before")
	before, err := w.versions(w.t.Context())
	w.Must(err)
	w.passesSentinel("after")
	after, err := w.versions(w.t.Context())
	w.Must(err)
	for name, version := range after {
		if before[name] != version {
			w.t.Errorf("%s is written although nothing is to be done", name)
		}
	}
	w.removeSentinel()
	w.t.Logf("%d works and records and objects as declared after %s", len(after), took.Round(100*time.Millisecond))
}

// WorksAreLookedAt gives each work a new generation that asks for nothing else, and
// waits until the agent has said what became of it.
func (w *World) WorksAreLookedAt() {
	w.t.Helper()
	works, err := w.works(w.t.Context())
	w.Must(err)
	for i := range works {
		after := works[i].DeepCopy()
		if after.Spec.DeleteOption == nil {
			after.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyForeground} // the default
		} else {
			after.Spec.DeleteOption = nil
		}
		w.Must(w.Hub.Client.Patch(w.t.Context(), after, client.MergeFrom(&works[i])))
	}
	w.Eventually("the agent has looked at all works", func(ctx context.Context) error {
		works, err := w.works(ctx)
		if err != nil {
			return err
		}
		for i := range works {
			if err := IsDone(&works[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// passesSentinel changes the sentinel, and waits until the agent has carried that out:
// it has heard of all works that were written before, its own writes among them.
func (w *World) passesSentinel(value string) {
	w.t.Helper()
	w.Must(w.Put(w.t.Context(), w.Work(sentinelName, w.Object("ConfigMap", sentinelName, value))))
	w.Eventually("everything is as declared, with the sentinel "+value, w.Exact)
}

func (w *World) removeSentinel() {
	w.t.Helper()
	w.Must(w.Hub.Client.Delete(w.t.Context(), w.Work(sentinelName)))
	w.Eventually("the sentinel is gone", w.Exact)
}

// versions are the resourceVersions of everything but the sentinel.
func (w *World) versions(ctx context.Context) (map[string]string, error) {
	versions := map[string]string{}
	works, err := w.works(ctx)
	if err != nil {
		return nil, err
	}
	for i := range works {
		versions["work "+works[i].Name] = works[i].ResourceVersion
	}
	records, err := w.Records(ctx)
	if err != nil {
		return nil, err
	}
	for name, record := range records {
		versions["record "+name] = record.ResourceVersion
	}
	objects, err := w.Objects(ctx)
	for k, object := range objects {
		versions[fmt.Sprint(k)] = object.GetResourceVersion()
	}
	for _, name := range []string{"work " + sentinelName, "record " + w.recordName(sentinelName), fmt.Sprint(key{"ConfigMap", w.Namespace, sentinelName})} {
		delete(versions, name)
	}
	return versions, err
}
