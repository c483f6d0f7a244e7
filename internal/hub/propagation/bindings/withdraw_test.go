// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// tenants are the bindings of namespaces on a hub, whose works count as large as the test says.
type tenants struct {
	*testing.T
	bindingFinalizer

	clock *clocktesting.FakePassiveClock
}

func newTenants(t *testing.T) tenants {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(workv1alpha2.AddToScheme(scheme), workv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&workv1alpha2.ResourceBinding{}).Build()
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	return tenants{T: t, clock: clk, bindingFinalizer: bindingFinalizer{BindingControllerDeps{Client: hub, Live: hub, Clock: clk, Allowance: allowance.NewAllowance(clk, allowance.DefaultShared, 1), Restless: send.NewRestlessWorks(clk)}}}
}

// sends creates a binding with works of so many bytes.
func (s tenants) sends(namespace string, works, bytes int) *workv1alpha2.ResourceBinding {
	s.Helper()
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	objects := []client.Object{b}
	for n := range works {
		objects = append(objects, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("member%d", n), Name: namespace + "-web", Finalizers: []string{workv1.FinalizerManifestWorkCleanup},
			Annotations: map[string]string{
				workv1alpha2.AnnotationResourceBindingNamespace: namespace, workv1alpha2.AnnotationResourceBindingName: "web",
				allowance.AnnotationBytes: fmt.Sprint(bytes),
			},
		}})
	}
	for _, object := range objects {
		if err := s.Client.Create(s.Context(), object); err != nil {
			s.Fatal(err)
		}
	}
	return b
}

// works returns those of a namespace, and how many of them are not being deleted.
func (s tenants) works(namespace string) (works []workv1.ManifestWork, left int) {
	s.Helper()
	list := &workv1.ManifestWorkList{}
	if err := s.Client.List(s.Context(), list); err != nil {
		s.Fatal(err)
	}
	for _, work := range list.Items {
		if work.Name == namespace+"-web" {
			works = append(works, work)
			if isAliveWork(work) {
				left++
			}
		}
	}
	return works, left
}

// deletes deletes the works of a binding that is being deleted, and returns how many are left.
func (s tenants) deletes(b *workv1alpha2.ResourceBinding) (left int, again time.Duration) {
	s.Helper()
	works, _ := s.works(b.Namespace)
	held, err := s.deleteWorks(s.Context(), b, works)
	if err != nil {
		s.Fatal(err)
	}
	if again, err = s.writeKeptStatus(s.Context(), b, works, held); err != nil {
		s.Fatal(err)
	}
	if err := s.Client.Get(s.Context(), client.ObjectKeyFromObject(b), b); err != nil {
		s.Fatal(err)
	}
	_, left = s.works(b.Namespace)
	return left, again
}

// TestDeletionsOfBindingsWaitForTheirTurn has a tenant delete more than may be written at once.
func TestDeletionsOfBindingsWaitForTheirTurn(t *testing.T) {
	const megabyte, works, burst = 1 << 20, 320, allowance.DefaultShared / 4 / (1 << 20)
	s := newTenants(t)
	shop, bank := s.sends("shop", works, megabyte), s.sends("bank", 2, 1)
	left, again := s.deletes(shop)
	if left != works-burst || again < time.Second {
		t.Errorf("%d of %d works are left, to be looked at in %s; want %d", left, works, again, works-burst)
	}
	applied := meta.FindStatusCondition(shop.Status.Conditions, workv1alpha2.BindingConditionFullyApplied)
	if applied == nil || applied.Status != metav1.ConditionFalse || applied.Reason != workv1alpha2.BindingReasonNamespaceThrottled ||
		!strings.Contains(applied.Message, fmt.Sprintf("%d clusters", left)) {
		t.Errorf("the binding says %+v", applied)
	}
	if held := s.Allowance.HeldBack(); held[allowance.Throttled] != 1 {
		t.Errorf("%d namespaces count as held back", held[allowance.Throttled])
	}
	if left, _ := s.deletes(bank); left != 0 {
		t.Errorf("%d works of another tenant wait", left)
	}
	if still, _ := s.deletes(shop); still != left {
		t.Errorf("%d works are left at once, of %d", still, left)
	}
	begun := s.clock.Now()
	for looks := 0; left > 0; looks++ {
		s.clock.SetTime(s.clock.Now().Add(again))
		if left, again = s.deletes(shop); looks > 10 {
			t.Fatalf("%d works are left", left)
		}
	}
	if took := s.clock.Now().Sub(begun); took > 3*time.Minute {
		t.Errorf("64 MiB take %s", took)
	}
}

// TestWhatIsPreservedIsStoredTwice has works deleted that do not say yet that clusters keep what they have.
func TestWhatIsPreservedIsStoredTwice(t *testing.T) {
	const megabyte, works, burst = 1 << 20, 320, allowance.DefaultShared / 4 / (1 << 20)
	s := newTenants(t)
	b := s.sends("shop", works, megabyte)
	b.Spec.PreserveResourcesOnDeletion = new(true)
	if left, _ := s.deletes(b); left != works-burst/2 {
		t.Errorf("%d of %d works are left, want %d", left, works, works-burst/2)
	}
}

// TestDeletionsOfAnAdministratorDoNotWait has a binding without a namespace.
func TestDeletionsOfAnAdministratorDoNotWait(t *testing.T) {
	s := newTenants(t)
	s.sends("shop", 320, 1<<20)
	works, _ := s.works("shop")
	gone, err := withdrawBindingWorks(t.Context(), s.BindingControllerDeps, "", works, false)
	if _, left := s.works("shop"); err != nil || left != 0 || gone.held.AnyHeld() {
		t.Errorf("%d works are left: %v", left, err)
	}
}

// TestAnAdministratorWritesAtAPace has a binding without a namespace that is sent to many clusters, as a bootstrap token may
// make them.
func TestAnAdministratorWritesAtAPace(t *testing.T) {
	const megabyte, burst = 1 << 20, allowance.DefaultShared / 4 / (1 << 20)
	s := newTenants(t)
	d := &delivery{by: &BindingController{BindingControllerDeps: s.BindingControllerDeps}, binding: &workv1alpha2.ClusterResourceBinding{}}
	var changes deliver.WorkChanges
	for n := range 2 * burst {
		changes.New = append(changes.New, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("member%d", n), Name: "definition", Annotations: map[string]string{allowance.AnnotationBytes: fmt.Sprint(megabyte)},
		}})
	}
	changes, err := d.limitChanges(t.Context(), changes)
	if err != nil || len(changes.New) != burst || d.limited.Reason != allowance.Throttled || !d.arriving {
		t.Errorf("%d works of a megabyte are written at once, want %d (%s): %v", len(changes.New), burst, d.limited.Reason, err)
	}
}

// TestNothingIsSentWhereAnEarlierObjectWaitsToGo has the works of an earlier object of the name wait for
// their turn to be deleted: a new one could not be created, however often it is tried.
func TestNothingIsSentWhereAnEarlierObjectWaitsToGo(t *testing.T) {
	s := newTenants(t)
	b := s.sends("shop", 320, 1<<20)
	d := &delivery{by: &BindingController{BindingControllerDeps: s.BindingControllerDeps}, binding: b, owner: allowance.WorkOwner{Namespace: "shop"}, failed: map[string]error{}}
	earlier, _ := s.works("shop")
	if err := d.withdrawWorks(t.Context(), earlier, false); err != nil {
		t.Fatal(err)
	}
	var changes deliver.WorkChanges
	for n := range 320 {
		changes.New = append(changes.New, &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("member%d", n), Name: "new"}})
	}
	s.clock.SetTime(s.clock.Now().Add(time.Hour)) // there is time to write all of them
	changes, err := d.limitChanges(t.Context(), changes)
	_, left := s.works("shop")
	if err != nil || left == 0 || len(changes.New) != 320-left {
		t.Errorf("%d works are created, while %d of earlier objects are not deleted: %v", len(changes.New), left, err)
	}
	told := limitedCondition(metav1.Condition{Status: metav1.ConditionTrue, Reason: workv1alpha2.BindingReasonFullyAppliedSuccess}, d.limited)
	if told.Status != metav1.ConditionFalse || told.Reason != workv1alpha2.BindingReasonNamespaceThrottled {
		t.Errorf("the binding says %+v", told)
	}
}

// TestAnObjectStaysUntilItIsItsTurnElsewhere has an object move whose owner has written so much that its next
// cluster has to wait for it, or as much as he may have at all.
func TestAnObjectStaysUntilItIsItsTurnElsewhere(t *testing.T) {
	const burst = allowance.DefaultShared / 4
	for name, test := range map[string]struct {
		limit  string
		spends int64
		passes time.Duration
		leaves bool
	}{
		"nothing is in the way":          {leaves: true},
		"it waits for its turn":          {spends: 2 * burst},
		"its turn has come":              {spends: 2 * burst, passes: time.Hour, leaves: true},
		"what goes makes room for it":    {limit: "1Ki", leaves: true},
		"there is neither room nor time": {limit: "1Ki", spends: 2 * burst, leaves: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTenants(t)
			if test.limit != "" {
				space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{fleetv1alpha1.AnnotationWorkBytesMax: test.limit}}}
				if err := s.Client.Create(t.Context(), space); err != nil {
					t.Fatal(err)
				}
			}
			b := s.sends("shop", 1, 1<<20)
			owner := allowance.WorkOwner{Namespace: "shop"}
			s.Allowance.AdmitDeletions(owner, []allowance.WorkDeletion{{Work: &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
				Namespace: "elsewhere", Name: "large", Annotations: map[string]string{allowance.AnnotationBytes: fmt.Sprint(1 << 20)},
			}}, Writes: test.spends >> 20}})
			s.Fleet = fleet.NewFleet(s.clock)
			s.Fleet.SetCluster("member0", &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "member0"}})
			s.clock.SetTime(s.clock.Now().Add(fleet.Settling + test.passes))
			present, _ := s.works("shop")
			d := &delivery{
				by: &BindingController{BindingControllerDeps: s.BindingControllerDeps}, binding: b, owner: owner, failed: map[string]error{},
				left: map[string][]workv1.ManifestWork{"member0": present},
			}
			next := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "member1", Name: "shop-web"}}
			if _, err := d.limitChanges(t.Context(), deliver.WorkChanges{New: []*workv1.ManifestWork{next}}); err != nil {
				t.Fatal(err)
			}
			if current, err := d.removeLeavingWorks(t.Context()); err != nil || !current {
				t.Fatalf("the works are not looked at: %v", err)
			}
			_, left := s.works("shop")
			if _, waits := d.limited.Clusters["member0"]; (left == 0 || waits) != test.leaves {
				t.Errorf("of its works %d are left, which wait to be deleted: %t; want that it leaves: %t", left, waits, test.leaves)
			}
		})
	}
}
