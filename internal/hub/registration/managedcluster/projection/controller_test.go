// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/projection"
)

func TestEveryManagedClusterHasACluster(t *testing.T) {
	l := newLab(t)
	l.make(t, "new")
	connection, mc := l.connection(t, "new"), l.cluster(t, "new")
	c := connection.Cluster
	if c == nil || c.UID != mc.UID || c.Generation != 1 || !cmp.Equal(connection.Labels, mc.Labels) || connection.Spec.SyncMode != fleetv1alpha1.SyncModePull {
		t.Fatalf("the Cluster is %+v of %+v", c, connection)
	}
	for _, field := range connection.ManagedFields {
		if strings.Contains(field.FieldsV1.GetRawString(), "f:syncMode") {
			t.Errorf("%s owns the mode, which is for an administrator to apply", field.Manager)
		}
	}
	// One that somebody made before stays, and becomes a Cluster.
	push := &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: "push", Labels: map[string]string{"own": "yes"}},
		Spec:       fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: "https://member"},
	}
	if err := l.Create(t.Context(), push); err != nil {
		t.Fatal(err)
	}
	l.make(t, "push")
	if have := l.connection(t, "push"); have.Spec.APIEndpoint != "https://member" || have.Cluster == nil || have.Labels["own"] != "" {
		t.Errorf("the ClusterConnection is %+v", have)
	}
	// No ClusterConnection can have such a name.
	l.make(t, "a.b")
	// One that is on its way out gets none.
	leaving := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "leaving", Finalizers: []string{"example.com/hold"}}}
	if err := errors.Join(l.Create(t.Context(), leaving), l.Delete(t.Context(), leaving)); err != nil {
		t.Fatal(err)
	}
	if writes := l.settle(t, "leaving"); writes != 0 {
		t.Errorf("%d writes for a ManagedCluster that is being deleted", writes)
	}
}

func TestWhatShowsInAClusterIsOneWrite(t *testing.T) {
	l := newLab(t)
	const name = "mirrored"
	l.make(t, name)
	costs := func(what string, want int, change func()) {
		t.Helper()
		l.live = 0
		change()
		if got := l.settle(t, name); got != want {
			t.Errorf("%s is %d writes, want %d", what, got, want)
		}
		if want == 0 && l.live != 0 {
			t.Errorf("%s is %d reads that are not from memory", what, l.live)
		}
	}
	costs("nothing", 0, func() {})
	costs("a report of the agent", 0, func() {
		mc := l.cluster(t, name)
		mc.Status.Version.Kubernetes, mc.Status.Conditions = "v1.99.0", []metav1.Condition{}
		if err := l.Status().Update(t.Context(), mc); err != nil {
			t.Fatal(err)
		}
		connection := l.connection(t, name)
		connection.Status.NodeSummary = &fleetv1alpha1.NodeSummary{TotalNum: 3, ReadyNum: 3}
		if err := l.Status().Update(t.Context(), connection); err != nil {
			t.Fatal(err)
		}
	})
	costs("the configuration of heartbeats", 0, func() {
		l.changes(t, name, func(mc *clusterv1.ManagedCluster) { mc.Spec.LeaseDurationSeconds = 30 })
	})
	costs("a condition", 1, func() {
		mc := l.cluster(t, name)
		meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
			Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue, Reason: "Test",
		})
		if err := l.Status().Update(t.Context(), mc); err != nil {
			t.Fatal(err)
		}
	})
	if got := l.connection(t, name).Cluster.Generation; got != 1 {
		t.Errorf("the generation is %d, and the spec did not change", got)
	}
	costs("a taint", 1, func() {
		l.changes(t, name, func(mc *clusterv1.ManagedCluster) { mc.Spec.Taints = nil })
	})
	if got := l.connection(t, name).Cluster.Generation; got != 2 {
		t.Errorf("the generation is %d after the taints changed", got)
	}
	costs("a label that somebody puts on the mirror", 1, func() {
		l.serves(t, name, func(c *fleetv1alpha1.ClusterConnection) { c.Labels["foreign"] = "yes" })
	})
	costs("who the cluster is", 1, func() {
		l.serves(t, name, func(c *fleetv1alpha1.ClusterConnection) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, fleetv1alpha1.AnnotationClusterID, "id")
		})
	})
	if got := l.connection(t, name).Cluster.ID; got != "id" {
		t.Errorf("the cluster is %q", got)
	}
}

// intent is what a user wants of a ManagedCluster that make made.
func intent(c *fleetv1alpha1.ClusterConnection) {
	c.Labels = map[string]string{"zone": "b", "new": "1"}
	c.Cluster.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoExecute}}
	c.Cluster.Generation++
	c.Cluster.Intent = &fleetv1alpha1.ClusterIntent{
		ID: "1", Labels: map[string]string{"zone": "b", "new": "1"}, RemovedLabels: []string{"old"}, Accept: true,
		Taints:        []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoExecute}},
		RemovedTaints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}},
	}
}

// TestACrashBetweenAnyTwoWritesEndsAtTheSameState has the program crash at each of its writes, before or after that is
// stored, and another client change the ManagedCluster before it is back.
func TestACrashBetweenAnyTwoWritesEndsAtTheSameState(t *testing.T) {
	l := newLab(t)
	for _, stored := range []bool{false, true} {
		for at := 1; at <= 3; at++ {
			name := fmt.Sprintf("crash-%d-%t", at, stored)
			l.make(t, name)
			l.serves(t, name, intent)
			l.writes, l.fail = 0, func(write int) (bool, error) {
				if write == at {
					return stored, errCrash
				}
				return false, nil
			}
			_, err := l.reconcile(t, name)
			l.fail = nil
			if crashed := errors.Is(err, errCrash); crashed != (at < 3) {
				t.Fatalf("%s: the second reconcile ended with %v", name, err)
			}
			done := l.cluster(t, name).Labels["zone"] == "b"
			l.changes(t, name, func(mc *clusterv1.ManagedCluster) { mc.Labels["zone"], mc.Labels["other"] = "c", "1" })
			l.settle(t, name)

			zone := "b"
			if done {
				zone = "c" // that came later
			}
			want := map[string]string{"zone": zone, "new": "1", "other": "1"}
			l.completed(t, name, want)
		}
	}
}

// completed checks that the intent is, with the labels on both sides.
func (l *lab) completed(t *testing.T, name string, want map[string]string) {
	t.Helper()
	mc, connection := l.cluster(t, name), l.connection(t, name)
	if diff := cmp.Diff(want, mc.Labels); diff != "" {
		t.Errorf("%s: the labels of the ManagedCluster (-want +got):\n%s", name, diff)
	}
	if diff := cmp.Diff(want, connection.Labels); diff != "" {
		t.Errorf("%s: the labels of the Cluster (-want +got):\n%s", name, diff)
	}
	if taints := mc.Spec.Taints; len(taints) != 1 || taints[0].Effect != clusterv1.TaintEffectNoSelect || !mc.Spec.HubAcceptsClient {
		t.Errorf("%s: the spec of the ManagedCluster is %+v", name, mc.Spec)
	}
	if c := connection.Cluster; c.Intent != nil || c.Generation != 2 || !c.Accepted || len(c.Taints) != 1 || c.Taints[0].Effect != corev1.TaintEffectNoExecute {
		t.Errorf("%s: the Cluster is %+v", name, c)
	}
}

func TestAClusterIsDeletedWheneverTheProgramCrashes(t *testing.T) {
	l := newLab(t)
	for _, stored := range []bool{false, true} {
		for at := 1; at <= 2; at++ {
			name := fmt.Sprintf("deleted-%d-%t", at, stored)
			l.make(t, name, "example.com/hold")
			l.serves(t, name, func(c *fleetv1alpha1.ClusterConnection) {
				c.Cluster.Intent = &fleetv1alpha1.ClusterIntent{ID: "1", Delete: true}
			})
			l.writes, l.fail = 0, func(write int) (bool, error) {
				if write == at {
					return stored, errCrash
				}
				return false, nil
			}
			if _, err := l.reconcile(t, name); !errors.Is(err, errCrash) {
				t.Fatalf("%s: %v", name, err)
			}
			l.fail = nil
			l.settle(t, name)
			mc, c := l.cluster(t, name), l.connection(t, name).Cluster
			if mc.DeletionTimestamp.IsZero() || !c.DeletionTimestamp.Equal(mc.DeletionTimestamp) || c.Intent != nil || c.Generation != 1 {
				t.Errorf("%s: the Cluster is %+v", name, c)
			}
			// And once more, as users do; now without its agent.
			l.serves(t, name, func(c *fleetv1alpha1.ClusterConnection) {
				c.Cluster.Intent = &fleetv1alpha1.ClusterIntent{ID: "2", Delete: true, Force: true}
			})
			l.settle(t, name)
			if mc := l.cluster(t, name); mc.Annotations[fleetv1alpha1.AnnotationForceDetach] != "true" || l.connection(t, name).Cluster.Intent != nil {
				t.Errorf("%s: the deletion is not forced: %v", name, mc.Annotations)
			}
		}
	}
	l.make(t, "unheld")
	l.serves(t, "unheld", func(c *fleetv1alpha1.ClusterConnection) {
		c.Cluster.Intent = &fleetv1alpha1.ClusterIntent{Delete: true}
	})
	if _, err := l.reconcile(t, "unheld"); err != nil {
		t.Fatal(err)
	}
	if err := l.Get(t.Context(), client.ObjectKey{Name: "unheld"}, &clusterv1.ManagedCluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ManagedCluster that nothing holds is there: %v", err)
	}
}

// TestAWriteToAClusterIsNotLostByOneThatIsCompleted has a user write to the Cluster, and a client of OCM to the
// ManagedCluster, at each write of the controller.
func TestAWriteToAClusterIsNotLostByOneThatIsCompleted(t *testing.T) {
	l := newLab(t)
	const name = "busy"
	l.make(t, name)
	l.serves(t, name, intent)
	l.writes, l.fail = 0, func(write int) (bool, error) {
		switch write {
		case 1: // before the ManagedCluster is changed
			l.changes(t, name, func(mc *clusterv1.ManagedCluster) {
				mc.Spec.Taints = append(mc.Spec.Taints, clusterv1.Taint{Key: "theirs", Effect: clusterv1.TaintEffectNoSelect})
			})
		case 3: // after that, before the intent is removed
			l.serves(t, name, func(c *fleetv1alpha1.ClusterConnection) {
				c.Spec.Region, c.Labels["late"] = "eu", "1"
				c.Cluster.Intent = &fleetv1alpha1.ClusterIntent{ID: "2", Labels: map[string]string{"late": "1"}}
			})
		}
		return false, nil
	}
	l.settle(t, name)
	l.fail = nil
	mc, connection := l.cluster(t, name), l.connection(t, name)
	want := map[string]string{"zone": "b", "new": "1", "late": "1"}
	if !cmp.Equal(mc.Labels, want) || !cmp.Equal(connection.Labels, want) || connection.Spec.Region != "eu" || connection.Cluster.Intent != nil {
		t.Errorf("the labels are %v and %v, the Cluster is %+v", mc.Labels, connection.Labels, connection.Cluster)
	}
	if len(mc.Spec.Taints) != 2 || len(connection.Cluster.Taints) != 2 {
		t.Errorf("the taints are %+v", mc.Spec.Taints)
	}
}

func TestAnEarlierStateIsNotMirroredOverALaterOne(t *testing.T) {
	l := newLab(t)
	const name = "behind"
	l.make(t, name)
	past := l.cluster(t, name)
	l.serves(t, name, intent)
	l.settle(t, name)
	want := l.connection(t, name)
	l.past = past
	writes := l.settle(t, name)
	l.past = nil
	if got := l.connection(t, name); writes != 0 || !cmp.Equal(want, got) {
		t.Errorf("%d writes by what was before:\n%s", writes, cmp.Diff(want, got))
	}
}

func TestAnIntentForAnEarlierManagedClusterIsDropped(t *testing.T) {
	l := newLab(t)
	const name = "reborn"
	l.make(t, name)
	past := l.cluster(t, name)
	l.serves(t, name, func(c *fleetv1alpha1.ClusterConnection) {
		c.Cluster.Annotations, c.Cluster.Intent = map[string]string{"mine": "yes"}, &fleetv1alpha1.ClusterIntent{Delete: true}
	})
	if err := l.Delete(t.Context(), past); err != nil {
		t.Fatal(err)
	}
	l.past = past // the controller does not know yet
	l.make(t, name)
	l.past = nil
	l.settle(t, name)
	mc, c := l.cluster(t, name), l.connection(t, name).Cluster
	if !mc.DeletionTimestamp.IsZero() || c.UID != mc.UID || c.Intent != nil || len(c.Annotations) > 0 {
		t.Errorf("the new Cluster is %+v", c)
	}
}

func TestAWriteThatIsInvalidIsDroppedAndTold(t *testing.T) {
	l := newLab(t)
	const name = "invalid"
	l.completes(t, "valid")
	l.make(t, name)
	l.serves(t, name, func(c *fleetv1alpha1.ClusterConnection) {
		c.Labels["bad"] = "shown"
		c.Cluster.Intent = &fleetv1alpha1.ClusterIntent{ID: "1", Labels: map[string]string{"bad": "not a label !"}}
	})
	l.settle(t, name)
	if c := l.connection(t, name); c.Cluster.Intent != nil || c.Labels["bad"] != "" {
		t.Errorf("the Cluster goes on to show %v, the intent is %+v", c.Labels, c.Cluster.Intent)
	}
	l.told(t, "Dropped")
}

// TestAWriteThatIsRefusedForAnEarlierStateIsNotLost has a webhook refuse what was made of an earlier state, as that of
// ManagedClusters refuses a taint which somebody else has removed meanwhile.
func TestAWriteThatIsRefusedForAnEarlierStateIsNotLost(t *testing.T) {
	l := newLab(t)
	const name = "raced"
	l.make(t, name)
	l.serves(t, name, intent)
	l.writes, l.fail = 0, func(write int) (bool, error) {
		if write > 1 {
			return false, nil
		}
		l.changes(t, name, func(mc *clusterv1.ManagedCluster) { mc.Labels["theirs"] = "1" })
		return false, apierrors.NewBadRequest("by the test")
	}
	l.settle(t, name)
	l.fail = nil
	l.completed(t, name, map[string]string{"zone": "b", "new": "1", "theirs": "1"})
	if counted := l.counted(t); counted["Dropped"] != 0 {
		t.Errorf("counted are %v", counted)
	}
}

func TestAWriteThatIsForbiddenWaitsAndIsTold(t *testing.T) {
	l := newLab(t)
	const name = "forbidden"
	l.completes(t, "allowed")
	l.make(t, name)
	l.serves(t, name, intent)
	l.fail = func(write int) (bool, error) {
		return false, apierrors.NewForbidden(schema.GroupResource{Resource: "managedclusters"}, name, errors.New("by the test"))
	}
	if _, err := l.reconcile(t, name); !apierrors.IsForbidden(err) {
		t.Fatalf("got %v", err)
	}
	l.fail = nil
	if c := l.connection(t, name); c.Cluster.Intent == nil || c.Labels["zone"] != "b" {
		t.Errorf("the Cluster shows %v, the intent is %+v", c.Labels, c.Cluster.Intent)
	}
	l.told(t, "Forbidden")
	l.settle(t, name)
	if mc := l.cluster(t, name); mc.Labels["zone"] != "b" {
		t.Errorf("what was forbidden for a while is not done: %v", mc.Labels)
	}
}

// completes has the controller complete what a user wants of another ManagedCluster.
func (l *lab) completes(t *testing.T, name string) {
	t.Helper()
	l.make(t, name)
	l.serves(t, name, intent)
	l.settle(t, name)
}

// told checks that there is one event about a write that was not completed, and
// that it was counted.
func (l *lab) told(t *testing.T, result string) {
	t.Helper()
	select {
	case event := <-l.events.Events:
		if !strings.Contains(event, projection.ReasonWriteRefused) {
			t.Errorf("the event is %s", event)
		}
	default:
		t.Error("nobody is told")
	}
	if counted := l.counted(t); counted[result] != 1 || counted["Completed"] == 0 {
		t.Errorf("counted are %v, want one that is %s", counted, result)
	}
}

// counted returns how many writes to Clusters had which result.
func (l *lab) counted(t *testing.T) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(l.controller.MetricCollector()); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "capstan_cluster_writes_total" {
		t.Fatalf("the metrics are %v: %v", families, err)
	}
	counted := map[string]float64{}
	for _, metric := range families[0].GetMetric() {
		counted[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
	}
	return counted
}
