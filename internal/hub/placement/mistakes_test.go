// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/hub/placement"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	satisfied     = clusterv1beta1.PlacementConditionSatisfied
	misconfigured = clusterv1beta1.PlacementConditionMisconfigured
)

// state is a condition as it is to be. The message has to contain each of the texts.
type state struct {
	conditionType string
	status        metav1.ConditionStatus
	reason        string
	message       []string
}

// mistake is one that a user makes, in a namespace of its own in which set
// "fleet" is bound.
type mistake struct {
	spec clusterv1beta1.PlacementSpec
	// around is done before the Placement is made.
	around func(h hub, namespace string)
	wrong  state
	// mend mends it. The Placement itself is changed only if that is what is wrong.
	mend  func(h hub, p *clusterv1beta1.Placement)
	right state
}

// TestMistakesAreToldOnceAndMended makes every mistake with a Placement that the
// definition lets through. Each ends in a condition that names the field and what
// to do, costs nothing while other things happen, and goes with its cause.
func TestMistakesAreToldOnceAndMended(t *testing.T) {
	h, writes := startCounted(t)
	for _, name := range []string{"c0", "c1", "c2"} {
		h.MustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		h.MustCreate(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"fleet": "yes"}}})
	}
	h.MustCreate(fleetSet("fleet"))
	cases := mistakes()
	placements := map[string]*clusterv1beta1.Placement{}
	for name, m := range cases {
		h.MustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		h.MustCreate(binding(name, "fleet"))
		if m.around != nil {
			m.around(h, name)
		}
		placements[name] = &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "p"}, Spec: m.spec}
		h.MustCreate(placements[name])
	}
	for name, m := range cases {
		h.reaches(placements[name], m.wrong)
	}
	// First what is under way, such as events, has to end.
	written, reconciled := int64(-1), -1.0
	for written != writes.Load() || reconciled != reconciles(t) {
		written, reconciled = writes.Load(), reconciles(t)
		<-time.After(time.Second)
	}
	// Then happens what no Placement asks about.
	c0 := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c0"}}
	for i := range 20 {
		h.MustPatch(c0, func() { c0.Labels["noise"] = fmt.Sprint(i) })
		<-time.After(100 * time.Millisecond)
	}
	if more := writes.Load() - written; more != 0 {
		t.Errorf("%d writes while nothing changed that a Placement asks about", more)
	}
	if more := reconciles(t) - reconciled; more != 0 {
		t.Errorf("%v Placements were looked at while nothing changed that they ask about", more)
	}
	for name, m := range cases {
		t.Run(name, func(t *testing.T) {
			h := hub{cluster.AdminClient{TB: t, Client: h.Client}}
			m.mend(h, placements[name])
			h.reaches(placements[name], m.right)
		})
	}
}

// mistakes are by the namespaces that they are made in.
func mistakes() map[string]mistake {
	chosen := state{satisfied, metav1.ConditionTrue, clusterv1beta1.PlacementReasonAllDecisionsScheduled, nil}
	configured := state{misconfigured, metav1.ConditionFalse, clusterv1beta1.PlacementReasonSucceedConfigured, nil}
	cel := func(expression string) clusterv1beta1.PlacementSpec {
		return clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
			CelSelector: clusterv1beta1.ClusterCelSelector{CelExpressions: []string{expression}},
		}}}}
	}
	refused := func(message ...string) state {
		return state{misconfigured, metav1.ConditionTrue, clusterv1beta1.PlacementReasonMisconfigured, message}
	}
	emptied := func(h hub, p *clusterv1beta1.Placement) {
		h.MustPatch(p, func() { p.Spec = clusterv1beta1.PlacementSpec{} })
	}
	const celPath = "spec.predicates[0].requiredClusterSelector.celSelector.celExpressions[0]"
	digits := "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
	return map[string]mistake{
		"unknown-function": {spec: cel("managedCluster.nonsense()"), wrong: refused(celPath, "undeclared reference to 'nonsense'"), mend: emptied, right: configured},
		"costly-expression": {
			spec:  cel(strings.Repeat(digits+".all(a, ", 6) + "has(managedCluster.metadata)" + strings.Repeat(")", 6)),
			wrong: refused(celPath, "the limit"), mend: emptied, right: configured,
		},
		"failing-expression": {
			spec:  cel(`managedCluster.metadata.labels["zone"] == "a"`),
			wrong: refused(celPath, "cluster c0", "test for it with has()"), right: configured,
			mend: func(h hub, p *clusterv1beta1.Placement) {
				h.MustPatch(p, func() {
					p.Spec = cel(`has(managedCluster.metadata.labels.zone) && managedCluster.metadata.labels["zone"] == "a"`)
				})
			},
		},
		"invalid-selector": {
			spec: clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
				LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "not a value"}},
			}}}},
			wrong: refused("spec.predicates[0].requiredClusterSelector.labelSelector", "not a value"), mend: emptied, right: configured,
		},
		"unknown-prioritizer": {
			spec: clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Configurations: []clusterv1beta1.PrioritizerConfig{
				{Weight: 1, ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: "Spread"}},
			}}},
			wrong: refused("spec.prioritizerPolicy.configurations[0].scoreCoordinate.builtIn", `supported values: "Balance"`), mend: emptied, right: configured,
		},
		"unknown-mode": {
			spec:  clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Mode: "Most"}},
			wrong: refused("spec.prioritizerPolicy.mode", `supported values: "Additive", "Exact"`), mend: emptied, right: configured,
		},
		"no-score":      noScore("absent", nil),
		"expired-score": noScore("late", func(h hub, _ string) { h.score("late", time.Now().Add(-time.Hour)) }),
		"no-intersection": {
			spec:  clusterv1beta1.PlacementSpec{ClusterSets: []string{"other"}},
			wrong: state{satisfied, metav1.ConditionFalse, clusterv1beta1.PlacementReasonNoIntersection, []string{"spec.clusterSets", "create a ManagedClusterSetBinding"}},
			mend: func(h hub, p *clusterv1beta1.Placement) {
				h.MustCreate(fleetSet("other"))
				h.MustCreate(binding(p.Namespace, "other"))
			},
			right: chosen,
		},
		"no-set": {
			around: func(h hub, namespace string) {
				h.MustDelete(binding(namespace, "fleet"))
				h.MustCreate(binding(namespace, "missing"))
			},
			wrong: state{
				satisfied, metav1.ConditionFalse, clusterv1beta1.PlacementReasonNoManagedClusterSetBindings,
				[]string{"no ManagedClusterSet that exists", "create", "the ManagedClusterSet that a binding names"},
			},
			mend:  func(h hub, _ *clusterv1beta1.Placement) { h.MustCreate(fleetSet("missing")) },
			right: chosen,
		},
		"hard-topology": noTopology("zone-hard", clusterv1beta1.DoNotSchedule, metav1.ConditionFalse, clusterv1beta1.PlacementReasonNoManagedClusterMatched),
		"soft-topology": noTopology("zone-soft", clusterv1beta1.ScheduleAnyway, metav1.ConditionTrue, clusterv1beta1.PlacementReasonAllDecisionsScheduled),
	}
}

// noScore is a Placement that prefers clusters by a score which they do not
// have, until the add-on writes it.
func noScore(resource string, around func(hub, string)) mistake {
	return mistake{
		spec: clusterv1beta1.PlacementSpec{NumberOfClusters: new(int32(1)), PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{
			Configurations: []clusterv1beta1.PrioritizerConfig{{Weight: 1, ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{
				Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: resource, ScoreName: "heat"},
			}}},
		}},
		around: around,
		wrong: state{satisfied, metav1.ConditionTrue, clusterv1beta1.PlacementReasonAllDecisionsScheduled, []string{
			"spec.prioritizerPolicy.configurations[0]: 3 of 3 clusters have no valid score", fmt.Sprintf("keeps AddOnPlacementScore %q up to date", resource),
		}},
		mend: func(h hub, _ *clusterv1beta1.Placement) { h.score(resource, time.Now().Add(time.Hour)) },
		right: state{
			satisfied, metav1.ConditionTrue, clusterv1beta1.PlacementReasonAllDecisionsScheduled,
			[]string{"spec.prioritizerPolicy.configurations[0]: 2 of 3 clusters have no valid score"},
		},
	}
}

// noTopology is a Placement that spreads over a label that no cluster has, until
// they are labelled.
func noTopology(key string, when clusterv1beta1.UnsatisfiableMaxSkewAction, status metav1.ConditionStatus, reason string) mistake {
	return mistake{
		spec: clusterv1beta1.PlacementSpec{SpreadPolicy: clusterv1beta1.SpreadPolicy{SpreadConstraints: []clusterv1beta1.SpreadConstraintsTerm{
			{TopologyKey: key, TopologyKeyType: clusterv1beta1.TopologyKeyTypeLabel, MaxSkew: 1, WhenUnsatisfiable: when},
		}}},
		wrong: state{satisfied, status, reason, []string{
			"spec.spreadPolicy.spreadConstraints[0].topologyKey: none of 3 clusters has label " + key, "add it to the clusters or use another key",
		}},
		mend: func(h hub, _ *clusterv1beta1.Placement) {
			for _, name := range []string{"c0", "c1", "c2"} {
				mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
				h.MustPatch(mc, func() { mc.Labels[key] = name })
			}
		},
		right: state{satisfied, metav1.ConditionTrue, clusterv1beta1.PlacementReasonAllDecisionsScheduled, []string{"3 of 3 clusters chosen"}},
	}
}

// reconciles returns how often the controller has looked at a Placement.
func reconciles(t *testing.T) float64 {
	t.Helper()
	families, err := controllermetrics.Registry.Gather()
	expect.NoError(t, err)
	total := 0.0
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			total += metric.GetCounter().GetValue()
		}
	}
	return total
}

func TestTheDefinitionRefusesMistakes(t *testing.T) {
	h, _ := startCounted(t)
	refused := func(field string, spec clusterv1beta1.PlacementSpec) {
		t.Helper()
		err := h.Create(t.Context(), &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: spec})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want a refusal of %s", err, field)
		}
	}
	balance := &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: "Balance"}
	for _, weight := range []int32{-11, 11} {
		refused("spec.prioritizerPolicy.configurations[0].weight", clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{
			Configurations: []clusterv1beta1.PrioritizerConfig{{ScoreCoordinate: balance, Weight: weight}},
		}})
	}
	refused("spec.sortBy", clusterv1beta1.PlacementSpec{SortBy: "Age"})
	for _, size := range []intstr.IntOrString{intstr.FromString("101%"), intstr.FromString("0%"), intstr.FromString("some")} {
		refused("spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup", clusterv1beta1.PlacementSpec{DecisionStrategy: clusterv1beta1.DecisionStrategy{
			GroupStrategy: clusterv1beta1.GroupStrategy{ClustersPerDecisionGroup: size},
		}})
	}
}

// startCounted runs the controller against an API server of its own. The number
// is that of its writes.
func startCounted(t *testing.T) (hub, *atomic.Int64) {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	_, config := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../config/crd"} })
	scheme, err := placement.NewPlacementScheme()
	expect.NoError(t, err)
	expect.NoError(t, clientgoscheme.AddToScheme(scheme))
	writes := &atomic.Int64{}
	counted := rest.CopyConfig(config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				writes.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	mgr := cluster.NewManager(t, counted, ctrl.Options{Scheme: scheme})
	expect.NoError(t, placement.SetupPlacementController(t.Context(), mgr, placement.SetupOptions{}))
	cluster.RunManager(t, mgr)
	c, err := client.New(config, client.Options{Scheme: scheme})
	expect.NoError(t, err)
	return hub{cluster.AdminClient{TB: t, Client: c}}, writes
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fleetSet is a set of all clusters of the test.
func fleetSet(name string) *clusterv1beta2.ManagedClusterSet {
	return &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1beta2.ManagedClusterSetSpec{
		ClusterSelector: clusterv1beta2.ManagedClusterSelector{
			SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"fleet": "yes"}},
		},
	}}
}

func binding(namespace, set string) *clusterv1beta2.ManagedClusterSetBinding {
	return &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set},
	}
}

// score gives cluster c0 a score of an add-on.
func (h hub) score(resource string, until time.Time) {
	h.Helper()
	score := &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: "c0", Name: resource}}
	if err := h.Create(h.Context(), score); client.IgnoreAlreadyExists(err) != nil {
		h.Fatal(err)
	}
	h.MustPatchStatus(score, func() {
		score.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "heat", Value: 7}}
		score.Status.ValidUntil = &metav1.Time{Time: until}
	})
}

// reaches waits until the condition of a Placement is as it is to be.
func (h hub) reaches(p *clusterv1beta1.Placement, want state) {
	h.Helper()
	h.UntilRight(func() string {
		h.MustGet(p)
		c := meta.FindStatusCondition(p.Status.Conditions, want.conditionType)
		if c == nil || c.Status != want.status || c.Reason != want.reason || c.ObservedGeneration != p.Generation {
			return fmt.Sprintf("Placement %s: %s is %+v, want %s with reason %s", p.Namespace, want.conditionType, c, want.status, want.reason)
		}
		for _, text := range want.message {
			if !strings.Contains(c.Message, text) {
				return fmt.Sprintf("Placement %s: the message is %q, want %q in it", p.Namespace, c.Message, text)
			}
		}
		return ""
	})
}
