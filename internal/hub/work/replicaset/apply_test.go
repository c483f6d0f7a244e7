// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/selfconflict"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestLabelsOfWorksWaitForTheirTurn changes again and again what works of a megabyte have besides their
// spec, which stores each of them anew.
func TestLabelsOfWorksWaitForTheirTurn(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	c := NewWorkReplicaSetController(WorkReplicaSetDeps{Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Clock: clock, Allowance: allowance.NewAllowance(clock, allowance.DefaultShared, 1)})
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	set.Namespace, set.Name = "shop", "web"
	const megabyte, changes, works = 1 << 20, 10, 100
	written, held := 0, allowance.HeldWorks{}
	for change := range changes {
		var p rolloutPlan
		for n := range works {
			work := workOf(fmt.Sprintf("c%03d", n), "p", "template")
			work.Annotations[allowance.AnnotationBytes] = strconv.Itoa(megabyte)
			work.ResourceVersion = strconv.Itoa(change)
			p.Writes = append(p.Writes, workWrite{Cluster: work.Namespace, Placement: "p", Work: work, Meta: true})
		}
		now, late, err := c.limitPlan(t.Context(), set, p, megabyte)
		if err != nil {
			t.Fatal(err)
		}
		written, held = written+len(now.Writes), late
		if len(now.Writes)+len(late.Clusters) != works {
			t.Errorf("%d works are written and %d are held back, of %d", len(now.Writes), len(late.Clusters), works)
		}
	}
	if most := allowance.DefaultShared / 4 / megabyte; written > most+1 || written < works || held.Reason != allowance.Throttled {
		t.Errorf("%d megabytes are written at once, want %d; the rest is held back as %q", written, most, held.Reason)
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	work := workOf("c000", "p", "template")
	if now, late, err := c.limitPlan(t.Context(), set, rolloutPlan{Writes: []workWrite{{Cluster: "c000", Work: work, Meta: true}}}, megabyte); err != nil || late.AnyHeld() || len(now.Writes) != 1 {
		t.Errorf("an hour later %d works are written, held back is %v: %v", len(now.Writes), late.Clusters, err)
	}
}

// TestWhatAgentsUndoLeavesTimeForChanges has agents change works of a megabyte back that had the template.
func TestWhatAgentsUndoLeavesTimeForChanges(t *testing.T) {
	const megabyte, works = 1 << 20, 200
	scheme := runtime.NewScheme()
	expect.NoError(t, corev1.AddToScheme(scheme))
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	c := NewWorkReplicaSetController(WorkReplicaSetDeps{Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Clock: clock, Allowance: allowance.NewAllowance(clock, allowance.DefaultShared, 1)})
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	set.Namespace, set.Name = "shop", "web"
	writes := func(had bool) (p rolloutPlan) {
		f := planFacts{Template: "template", Bytes: megabyte, Works: map[string][]*workv1.ManifestWork{}, Turns: map[string]turn{}}
		for n := range works {
			work := workOf(fmt.Sprintf("c%03d", n), "p", "another")
			work.Annotations[allowance.AnnotationBytes] = strconv.Itoa(megabyte)
			work.ResourceVersion = fmt.Sprint(had)
			f.Works[work.Namespace] = []*workv1.ManifestWork{work}
			if had {
				f.Turns[work.Namespace] = turn{}
			}
			p.Writes = append(p.Writes, f.planWrite(work.Namespace, "p", true))
		}
		return p
	}
	undone, held, err := c.limitPlan(t.Context(), set, writes(true), megabyte)
	if most := allowance.DefaultShared / 8 / megabyte; err != nil || len(undone.Writes) != most || held.Reason != allowance.Throttled {
		t.Errorf("of what agents undid, %d MiB are written, want %d; the rest is held back as %q (%v)", len(undone.Writes), most, held.Reason, err)
	}
	set.Name = "api"
	if changed, _, err := c.limitPlan(t.Context(), set, rolloutPlan{Writes: writes(false).Writes[:100]}, megabyte); err != nil || len(changed.Writes) != 100 {
		t.Errorf("of what somebody has changed, %d MiB are written, want 100 (%v)", len(changed.Writes), err)
	}
}

// TestWorksGetLittleOfAnAnnotation has a long text as the annotation of a replica set that its works have, too:
// once for each cluster, and in etcd each character in six bytes.
func TestWorksGetLittleOfAnAnnotation(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := workv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	set.Namespace, set.Name = "shop", "web"
	set.Annotations = map[string]string{workv1.AnnotationReportHealth: strings.Repeat("<", 240<<10)}
	made := newWork(set, "c1", "p")
	if is := made.Annotations[workv1.AnnotationReportHealth]; len(is) != annotationMax {
		t.Errorf("a work is made with %d bytes of it", len(is))
	}
	present := newWork(&workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, "c1", "p")
	c := NewWorkReplicaSetController(WorkReplicaSetDeps{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(present).Build()})
	if err := c.labelWork(t.Context(), set, workWrite{Cluster: "c1", Placement: "p", Work: present, Meta: true}, workReference(present)); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(present), present); err != nil {
		t.Fatal(err)
	}
	if is := present.Annotations[workv1.AnnotationReportHealth]; len(is) != annotationMax {
		t.Errorf("a work has %d bytes of it afterwards", len(is))
	}
}

// TestAStatusThatWaitsHoldsUpNoWorks has the status of a replica set wait, as so much was written in its namespace.
func TestAStatusThatWaitsHoldsUpNoWorks(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), workv1.AddToScheme(scheme), workv1alpha1.AddToScheme(scheme), clusterv1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "p"}}
	chosen := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p-decision-1", Labels: map[string]string{clusterv1beta1.LabelPlacement: "p"}}}
	chosen.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: "absent"}}
	for after, want := range map[time.Duration]time.Duration{10 * time.Minute: blockedAgain, time.Second: time.Second} {
		hub := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&workv1.ManifestWork{}, indexOwner, indexByLabel(workv1.LabelManifestWorkReplicaSet)).
			WithIndex(&clusterv1beta1.PlacementDecision{}, indexPlacement, indexByLabel(clusterv1beta1.LabelPlacement)).
			WithObjects(set.DeepCopy(), chosen.DeepCopy(), &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}}).
			WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return fmt.Errorf("writing: %w", &selfconflict.HeldError{Space: "shop", After: after})
			}}).Build()
		clock := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
		c := NewWorkReplicaSetController(WorkReplicaSetDeps{
			Client: hub, Clock: clock, Allowance: allowance.NewAllowance(clock, allowance.DefaultShared, 1), Counted: func() bool { return true },
		})
		got, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		if err != nil || got.RequeueAfter != want {
			t.Errorf("its works are looked at again after %s, want %s: %v", got.RequeueAfter, want, err)
		}
	}
}
