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

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	managerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/hub/work"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/server/tracing"
	"github.com/capstan-io/capstan/internal/testing/env"
)

const (
	// patience only decides how long a failure takes.
	patience = time.Minute
	// account is the user that the controller works as.
	account = "work-controller-sa"
	// Templates with these words make the agent report a failure, or nothing, or
	// keep the work when it is deleted.
	bad, silent, kept = "bad", "silent", "kept"
)

// hub is a hub with the controller and an agent that serves all clusters.
type hub struct {
	*testing.T
	client.Client
	config    *rest.Config
	namespace string
	tracer    *tracing.Tracer // of the controller
}

// in returns the hub for a subtest, with a namespace of its own.
func (h hub) in(t *testing.T) hub {
	t.Helper()
	h.T, h.namespace = t, strings.ToLower(strings.ReplaceAll(t.Name()[strings.LastIndex(t.Name(), "/")+1:], "_", "-"))
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}})
	return h
}

// allow gives the account of the controller the role that it is installed with.
func (h hub) allow() {
	h.Helper()
	rules, _, err := config.Rules(config.WorkController)
	if err != nil {
		h.Fatal(err)
	}
	h.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: rules})
	h.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: account}},
	})
	env.WaitAllowed(h.Context(), h.T, h.config, authorizationv1.SubjectAccessReviewSpec{User: account}, "", rules[0], true)
}

// run runs the controller until the end of the test, as the program would, or
// with some of its requests intercepted.
func (h hub) run(t *testing.T, intercepted interceptor.Funcs) {
	t.Helper()
	scheme, err := work.NewWorkScheme()
	if err != nil {
		t.Fatal(err)
	}
	anyName := true
	own := rest.CopyConfig(h.config)
	own.Impersonate = rest.ImpersonationConfig{UserName: account, Groups: []string{"system:authenticated"}}
	mgr, err := ctrl.NewManager(own, ctrl.Options{
		Scheme: scheme, Cache: work.NewWorkCacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: managerconfig.Controller{SkipNameValidation: &anyName},
		NewClient: func(c *rest.Config, o client.Options) (client.Client, error) {
			watching, err := client.NewWithWatch(c, o)
			if err != nil {
				return nil, err
			}
			return h.tracer.WrapClient(interceptor.NewClient(watching, intercepted)), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	gates, _ := features.ResolveGates(features.HubWork, map[string]bool{string(features.ManifestWorkReplicaSet): true})
	if err := work.SetupWorkControllers(t.Context(), mgr, work.SetupOptions{Gates: gates}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager: %v", err)
		}
	})
}

// serve is the agent of all clusters, until the test ends.
func (h hub) serve(t *testing.T) {
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
	h.create(set)
	return set
}

// turn gives the template another value.
func (h hub) turn(set *workv1alpha1.ManifestWorkReplicaSet, value string) {
	h.Helper()
	h.update(set, func() { set.Spec.ManifestWorkTemplate = manifests(value) })
}

// choose makes a Placement choose the groups of clusters, as its controller would
// in the end.
func (h hub) choose(placement string, groups ...[]string) {
	h.Helper()
	n := h.decide(placement, groups...)
	p := h.placement(placement)
	h.updateStatus(p, func() {
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
		h.updateStatus(d, func() {
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
		h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.LabelClusterName: name}}})
	}
}

func (h hub) create(o client.Object) {
	h.Helper()
	if err := h.Create(h.Context(), o); err != nil {
		h.Fatal(err)
	}
}

func (h hub) get(o client.Object) {
	h.Helper()
	if err := h.Get(h.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		h.Fatal(err)
	}
}

func (h hub) remove(o client.Object) {
	h.Helper()
	if err := h.Delete(h.Context(), o); err != nil {
		h.Fatal(err)
	}
}

// update changes an object, as it is now.
func (h hub) update(o client.Object, change func()) { h.Helper(); h.write(o, change, h.Client) }

func (h hub) updateStatus(o client.Object, change func()) {
	h.Helper()
	h.write(o, change, statusWriter{h.Status()})
}

type patcher interface {
	Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error
}

type statusWriter struct{ client.SubResourceWriter }

func (s statusWriter) Patch(ctx context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return s.SubResourceWriter.Patch(ctx, o, patch)
}

func (h hub) write(o client.Object, change func(), by patcher) {
	h.Helper()
	h.get(o)
	before := deepcopy.CopyObject(o)
	change()
	if err := by.Patch(h.Context(), o, client.MergeFrom(before)); err != nil {
		h.Fatal(err)
	}
}

// listed returns the works of a replica set.
func (h hub) listed(set *workv1alpha1.ManifestWorkReplicaSet) []workv1.ManifestWork {
	h.Helper()
	list := &workv1.ManifestWorkList{}
	err := h.List(h.Context(), list, client.MatchingLabels{workv1.LabelManifestWorkReplicaSet: set.Namespace + "." + set.Name})
	if err != nil {
		h.Fatal(err)
	}
	return list.Items
}

// delivered waits until the works of a replica set are exactly these, by cluster
// and value, such as c1=v1.
func (h hub) delivered(set *workv1alpha1.ManifestWorkReplicaSet, want ...string) {
	h.Helper()
	h.until(func() string {
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
	h.until(func() string {
		h.get(set)
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

func (h hub) until(wrong func() string) {
	h.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		problem := wrong()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			h.Fatal(problem)
		}
	}
}

// versions returns the resource versions of the works by cluster.
func (h hub) versions(set *workv1alpha1.ManifestWorkReplicaSet) map[string]string {
	versions := map[string]string{}
	for _, w := range h.listed(set) {
		versions[w.Namespace] = w.ResourceVersion
	}
	return maps.Clone(versions)
}
