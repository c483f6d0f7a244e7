// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/work"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/tracing"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	// account is the user that the controller works as.
	account = "work-controller-sa"
	// Templates with these words make the agent report a failure, or nothing, or
	// keep the work when it is deleted.
	bad, silent, kept = "bad", "silent", "kept"
)

// hub is a hub with the controller and an agent that serves all clusters.
type hub struct {
	cluster.AdminClient
	config    *rest.Config
	namespace string
	tracer    *tracing.Tracer // of the controller
}

// in returns the hub for a test, with a namespace of its own.
func (h hub) in(t testing.TB) hub {
	t.Helper()
	h.TB, h.namespace = t, strings.ToLower(t.Name())
	h.MustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}})
	return h
}

// run runs the controller until the end of the test, as the program would, or
// with some of its requests intercepted.
func (h hub) run(t testing.TB, intercepted interceptor.Funcs) {
	t.Helper()
	scheme, err := work.NewWorkScheme()
	expect.NoError(t, err)
	own := rest.CopyConfig(h.config)
	own.Impersonate = rest.ImpersonationConfig{UserName: account, Groups: []string{"system:authenticated"}}
	mgr := cluster.NewManager(t, own, ctrl.Options{
		Scheme: scheme, Cache: work.NewWorkCacheOptions(),
		NewClient: func(c *rest.Config, o client.Options) (client.Client, error) {
			watching, err := client.NewWithWatch(c, o)
			if err != nil {
				return nil, err
			}
			return h.tracer.WrapClient(interceptor.NewClient(watching, intercepted)), nil
		},
	})
	gates, _ := features.ResolveGates(features.HubWork, map[string]bool{string(features.ManifestWorkReplicaSet): true})
	expect.NoError(t, work.SetupWorkControllers(t.Context(), mgr, work.SetupOptions{Gates: gates}))
	cluster.RunManager(t, mgr)
}

// serve is the agent of all clusters, until the test ends.
func (h hub) serve(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			list := &workv1.ManifestWorkList{}
			if err := h.List(ctx, list); err == nil {
				for i := range list.Items {
					h.pass(ctx, &list.Items[i])
				}
			}
			<-time.After(20 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// pass is what the agent does about a work. Conflicts are for the next pass.
func (h hub) pass(ctx context.Context, w *workv1.ManifestWork) {
	value := valueOf(w)
	if !w.DeletionTimestamp.IsZero() {
		if value != kept && controllerutil.RemoveFinalizer(w, workv1.FinalizerManifestWorkCleanup) {
			_ = h.Update(ctx, w)
		}
		return
	}
	applied := meta.FindStatusCondition(w.Status.Conditions, workv1.ManifestWorkConditionApplied)
	if value == silent || applied != nil && applied.ObservedGeneration == w.Generation {
		return
	}
	status := metav1.ConditionTrue
	if value == bad {
		status = metav1.ConditionFalse
	}
	for name, s := range map[string]metav1.ConditionStatus{"Applied": status, "Available": metav1.ConditionTrue} {
		meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: name, Status: s, ObservedGeneration: w.Generation, Reason: "ByTheTest", Message: "the value is " + value,
		})
	}
	_ = h.Status().Update(ctx, w)
}

// manifests returns a template that can be told by its value.
func manifests(value string) workv1.ManifestWorkSpec {
	raw := fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m","namespace":"default"},"data":{"value":%q,"a<b":"\u00e9"}}`, value)
	return workv1.ManifestWorkSpec{
		Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}},
		// The API server adds a default here.
		ManifestConfigs: []workv1.ManifestConfigOption{{
			ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "default", Name: "m"},
			UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: &workv1.ServerSideApplyConfig{}},
		}},
	}
}

func valueOf(w *workv1.ManifestWork) string {
	if len(w.Spec.Workload.Manifests) == 0 {
		return ""
	}
	_, rest, _ := strings.Cut(string(w.Spec.Workload.Manifests[0].Raw), `"value":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// set creates a replica set named web for a Placement.
func (h hub) set(value string, placement string, strategy clusterv1alpha1.RolloutStrategy) *workv1alpha1.ManifestWorkReplicaSet {
	h.Helper()
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "web"}}
	set.Spec.ManifestWorkTemplate = manifests(value)
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: placement, RolloutStrategy: strategy}}
	h.MustCreate(set)
	return set
}

// turn gives the template another value.
func (h hub) turn(set *workv1alpha1.ManifestWorkReplicaSet, value string) {
	h.Helper()
	h.MustPatch(set, func() { set.Spec.ManifestWorkTemplate = manifests(value) })
}

// choose makes a Placement choose the groups of clusters, as its controller would
// in the end.
func (h hub) choose(placement string, groups ...[]string) {
	h.Helper()
	n := h.decide(placement, groups...)
	p := h.placement(placement)
	h.MustPatchStatus(p, func() {
		p.Status.NumberOfSelectedClusters = int32(n)
		meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
			Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionTrue, Reason: clusterv1beta1.PlacementReasonAllDecisionsScheduled,
		})
	})
}

func (h hub) placement(name string) *clusterv1beta1.Placement {
	return &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}}
}

// decide creates the Placement, if need be, and writes its decisions, one for
// each group, but not its status.
func (h hub) decide(placement string, groups ...[]string) (clusters int) {
	h.Helper()
	if err := h.Create(h.Context(), h.placement(placement)); client.IgnoreAlreadyExists(err) != nil {
		h.Fatal(err)
	}
	for i, group := range groups {
		d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
			Namespace: h.namespace, Name: fmt.Sprintf("%s-decision-%d", placement, i+1),
			Labels: map[string]string{clusterv1beta1.LabelPlacement: placement, clusterv1beta1.LabelDecisionGroupIndex: strconv.Itoa(i)},
		}}
		if err := h.Create(h.Context(), d); client.IgnoreAlreadyExists(err) != nil {
			h.Fatal(err)
		}
		h.MustPatchStatus(d, func() {
			d.Status.Decisions = []clusterv1beta1.ClusterDecision{}
			for _, cluster := range group {
				d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: cluster})
			}
		})
		clusters += len(group)
	}
	return clusters
}

// clusters creates the namespaces of clusters.
func (h hub) clusters(names ...string) {
	h.Helper()
	for _, name := range names {
		h.MustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.LabelClusterName: name}}})
	}
}

// listed returns the works of a replica set.
func (h hub) listed(set *workv1alpha1.ManifestWorkReplicaSet) []workv1.ManifestWork {
	h.Helper()
	list := &workv1.ManifestWorkList{}
	err := h.List(h.Context(), list, client.MatchingLabels{workv1.LabelManifestWorkReplicaSet: set.Namespace + "." + set.Name})
	expect.NoError(h, err)
	return list.Items
}

// delivered waits until the works of a replica set are exactly these, by cluster
// and value, such as c1=v1.
func (h hub) delivered(set *workv1alpha1.ManifestWorkReplicaSet, want ...string) {
	h.Helper()
	h.UntilRight(func() string {
		var got []string
		for _, w := range h.listed(set) {
			got = append(got, w.Namespace+"="+valueOf(&w))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Sprintf("the works are %v, want %v", got, want)
		}
		return ""
	})
}

// says waits until a condition of the replica set has the reason, for its present
// generation, and a message that contains all of the parts.
func (h hub) says(set *workv1alpha1.ManifestWorkReplicaSet, condition, reason string, parts ...string) {
	h.Helper()
	h.UntilRight(func() string {
		h.MustGet(set)
		c := meta.FindStatusCondition(set.Status.Conditions, condition)
		if c == nil || c.Reason != reason || c.ObservedGeneration != set.Generation {
			return fmt.Sprintf("%s is %+v, want reason %s at generation %d", condition, c, reason, set.Generation)
		}
		for _, part := range parts {
			if !strings.Contains(c.Message, part) {
				return fmt.Sprintf("the message of %s is %q, want %q in it", condition, c.Message, part)
			}
		}
		return ""
	})
}

// versions returns the resource versions of the works by cluster.
func (h hub) versions(set *workv1alpha1.ManifestWorkReplicaSet) map[string]string {
	versions := map[string]string{}
	for _, w := range h.listed(set) {
		versions[w.Namespace] = w.ResourceVersion
	}
	return maps.Clone(versions)
}
