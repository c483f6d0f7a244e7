// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/written"
)

const (
	megabyte = 1 << 20
	// unlimited is no limit of the namespace's own.
	unlimited = -1
)

// scene is an allowance whose works a cache shows when the test says so.
type scene struct {
	*testing.T

	a     *Allowance
	clock *clocktesting.FakePassiveClock
	limit int64
}

func newScene(t *testing.T, limit int64) *scene {
	t.Helper()
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	return &scene{T: t, a: NewAllowance(clk, DefaultShared, 1), clock: clk, limit: limit}
}

func (s *scene) after(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

// work is one of a binding, as a cache has it: with how many bytes it takes.
func work(namespace, cluster, name string, bytes int) *workv1.ManifestWork {
	return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name, Annotations: map[string]string{
		workv1alpha2.AnnotationResourceBindingNamespace: namespace, workv1alpha2.AnnotationResourceBindingName: name,
		"fleet.capstan.io/bytes": strconv.Itoa(bytes),
	}}}
}

// admits tells which of some works are admitted within the limit of the scene; present are nil for
// new ones.
func (s *scene) admits(present, wanted []*workv1.ManifestWork) (admitted []int, held HeldWorks) {
	s.Helper()
	var writes []WorkWrite
	for n := range wanted {
		writes = append(writes, WriteOf(wanted[n], present[n]))
	}
	owner := OwnerOf(wanted[0])
	if s.limit != unlimited {
		s.a.SetLimit(owner, &s.limit)
	}
	held = s.a.AdmitWrites(owner, writes)
	for n, one := range wanted {
		if held.Clusters[one.Namespace] == nil {
			admitted = append(admitted, n)
		}
	}
	return admitted, held
}

// creates tells how many of some new works are admitted, and shows them if asked to.
func (s *scene) creates(show bool, works ...*workv1.ManifestWork) (int, HeldWorks) {
	s.Helper()
	admitted, held := s.admits(make([]*workv1.ManifestWork, len(works)), works)
	for _, n := range admitted {
		if show {
			s.a.ObserveWork(nil, works[n])
		}
	}
	return len(admitted), held
}

func many(namespace, name string, clusters, bytes int) (all []*workv1.ManifestWork) {
	for n := range clusters {
		all = append(all, work(namespace, fmt.Sprintf("member%d", n), name, bytes))
	}
	return all
}

// TestTheWorksOfANamespaceAreBounded has a tenant send an object of a megabyte to a thousand
// clusters.
func TestTheWorksOfANamespaceAreBounded(t *testing.T) {
	for _, show := range []bool{true, false} {
		s := newScene(t, 16*megabyte)
		sum := 0
		for name := range 4 { // the cache may be behind meanwhile
			admitted, held := s.creates(show, many("shop", fmt.Sprint(name), 1000, megabyte)...)
			if sum += admitted; held.Reason != Full || !errors.Is(held.Clusters["member999"], errFull) || held.Again < fullWait {
				t.Errorf("held back is %s for %d clusters, to be tried again in %s", held.Reason, len(held.Clusters), held.Again)
			}
		}
		if sum != 16 {
			t.Errorf("the cache shows them: %t: %d megabytes are written of 16", show, sum)
		}
		if others, _ := s.creates(true, many("bank", "web", 2, megabyte)...); others != 2 {
			t.Errorf("another namespace has %d works", others)
		}
		if got := s.a.HeldBack(); got[Full] != 1 || got[Throttled] != 0 {
			t.Errorf("held back are %v namespaces", got)
		}
	}
}

func TestWhatBecomesSmallerIsWritten(t *testing.T) {
	s := newScene(t, 4*megabyte)
	large := many("shop", "web", 3, megabyte)
	if n, _ := s.creates(true, large...); n != 3 {
		t.Fatalf("%d works are written", n)
	}
	s.limit = 0
	change := func(of *workv1.ManifestWork, bytes int) (bool, HeldWorks) {
		wanted := work("shop", of.Namespace, "web", bytes)
		admitted, held := s.admits([]*workv1.ManifestWork{of}, []*workv1.ManifestWork{wanted})
		if len(admitted) == 1 {
			s.a.ObserveWork(of, wanted)
		}
		return len(admitted) == 1, held
	}
	if is, _ := change(large[0], megabyte/2); !is {
		t.Error("a work that becomes smaller is held back")
	}
	if is, held := change(large[1], megabyte+1); is || held.Reason != Full {
		t.Error("a work that grows is written")
	}
	s.limit = 3 * megabyte // half of which is free now
	if is, held := change(large[1], megabyte+megabyte/4); !is {
		t.Errorf("there is no room: %s", held.ConditionMessage())
	}
	s.a.ObserveWork(large[2], nil) // and 1 of 3 is free
	if n, held := s.creates(true, work("shop", "member9", "web", megabyte)); n != 1 {
		t.Errorf("what has gone leaves no room: %s", held.ConditionMessage())
	}
}

// TestChangesOfANamespaceWaitForTheirTurn has a tenant change all works again and again.
func TestChangesOfANamespaceWaitForTheirTurn(t *testing.T) {
	s := newScene(t, unlimited)
	works := many("shop", "web", 200, megabyte)
	if n, held := s.creates(true, works...); n != len(works) || held.AnyHeld() {
		t.Fatalf("%d works are written in a first roll-out", n)
	}
	written, begun := 0, s.clock.Now()
	for look := 0; s.clock.Now().Sub(begun) < time.Hour; look++ {
		var wanted []*workv1.ManifestWork
		for _, is := range works {
			wanted = append(wanted, work("shop", is.Namespace, "web", megabyte-look%2-1))
		}
		admitted, held := s.admits(works, wanted)
		for _, n := range admitted {
			s.a.ObserveWork(works[n], wanted[n])
			s.a.ObserveWork(wanted[n], works[n]) // it is as it was
		}
		written += len(admitted)
		if held.AnyHeld() && (held.Reason != Throttled || held.Again <= 0) {
			t.Fatalf("held back is %s, to be tried again in %s", held.Reason, held.Again)
		}
		s.after(max(held.Again, time.Second))
	}
	if most := 56 + 3600*bytesPerSecond(DefaultShared)/megabyte + 64; int64(written) > most || int64(written) < most/2 {
		t.Errorf("%d megabytes are written in an hour, want nearly %d", written, most)
	}
}

// TestWhatIsStoredOtherwiseIsMetered has an API server store works in fewer bytes than were sent, so
// that the cache never shows what was written. A tenant changes them again and again, to contents of
// the same length.
func TestWhatIsStoredOtherwiseIsMetered(t *testing.T) {
	s := newScene(t, unlimited)
	works := many("shop", "web", 200, megabyte-1)
	if n, held := s.creates(true, works...); n != len(works) || held.AnyHeld() {
		t.Fatalf("%d works are written in a first roll-out", n)
	}
	written, begun := 0, s.clock.Now()
	for look := 0; s.clock.Now().Sub(begun) < time.Hour; look++ {
		admitted, _ := s.admits(works, many("shop", "web", len(works), megabyte))
		for _, n := range admitted {
			before, stored := works[n], work("shop", works[n].Namespace, "web", megabyte-1)
			stored.ResourceVersion = fmt.Sprint(look)
			s.a.ObserveWork(before, stored)
			works[n] = stored
		}
		written += len(admitted)
		s.after(time.Second)
	}
	if most := 56 + 3600*bytesPerSecond(DefaultShared)/megabyte + 64; int64(written) > most || int64(written) < most/2 {
		t.Errorf("%d megabytes are written in an hour, want nearly %d", written, most)
	}
}

// TestAWorkCountsOnce has it looked at again before the cache shows it, and fail.
func TestAWorkCountsOnce(t *testing.T) {
	s := newScene(t, 2*megabyte-1)
	one := work("shop", "member1", "web", megabyte)
	for range 1000 {
		if n, held := s.creates(false, one); n != 1 {
			t.Fatalf("it is held back: %s", held.ConditionMessage())
		}
	}
	other := work("shop", "member2", "web", megabyte)
	if n, _ := s.creates(false, other); n != 0 {
		t.Error("there is room beside a work that is being written")
	}
	s.a.ReportFailedWrites(WorkOwner{Namespace: "shop"}, "web", map[string]error{"member1": errors.New("refused")})
	if n, _ := s.creates(false, other); n != 1 {
		t.Error("a work that could not be written takes room")
	}
	s.after(written.BehindMax)
	if n, _ := s.creates(false, one); n != 1 {
		t.Error("a work that nobody has seen takes room for ever")
	}
}

func TestBindingsThatWaitAreLookedAtOneAfterTheOther(t *testing.T) {
	s := newScene(t, 0)
	var last time.Duration
	for n := range 100 {
		_, held := s.creates(false, work("shop", "member1", fmt.Sprint(n), 1))
		if n > 0 && held.Again != last+lookEvery {
			t.Fatalf("the next is looked at in %s, after %s", held.Again, last)
		}
		last = held.Again
	}
	for n := range 10_000 {
		if _, held := s.creates(false, work("shop", "member1", fmt.Sprint(n), 1)); held.Again > lookMax {
			t.Fatalf("it is looked at in %s", held.Again)
		}
	}
}

func TestNamespacesThatHaveNothingAreForgotten(t *testing.T) {
	s := newScene(t, unlimited)
	for n := range 100 * sweepMin {
		one := work(fmt.Sprint(n), "member1", "web", 1)
		s.creates(true, one)
		s.a.ObserveWork(one, nil)
		s.after(time.Minute)
	}
	if len(s.a.of) > 2*sweepMin {
		t.Errorf("%d namespaces are remembered", len(s.a.of))
	}
}

func TestParseShared(t *testing.T) {
	for text, want := range map[string]int64{"4Gi": 4 << 30, "1": 1, "0": 0, "-4Gi": 0, "much": 0, "": 0, "1e30": 0, "2Pi": 0} {
		if got, err := ParseShared(text); got != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %d (%v), want %d", text, got, err, want)
		}
	}
}

func TestLimitOf(t *testing.T) {
	for text, want := range map[string]int64{"4Gi": 4 << 30, "0": 0, "1M": 1_000_000, "-1": -1, "much": -1, "1e2000000000": -1, "": -1, "1Pi": 1 << 50, "1e30": -1} {
		namespace := &metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{fleetv1alpha1.AnnotationWorkBytesMax: text}}
		got, err := LimitOf(namespace, WorkOwner{Namespace: "shop"})
		if wrong := want < 0; (got == nil) != wrong || got != nil && *got != want || (err != nil) != wrong {
			t.Errorf("%q: %v (%v), want %d", text, got, err, want)
		}
	}
	if got, err := LimitOf(&metav1.ObjectMeta{}, WorkOwner{}); got != nil || err != nil {
		t.Errorf("without an annotation: %d (%v)", got, err)
	}
}

// TestNamespacesShareTheHub has tenants fill what there is one after the other: all of them
// together do not fill etcd, and none takes the room of those that come later.
func TestNamespacesShareTheHub(t *testing.T) {
	s := newScene(t, unlimited)
	got := map[string]int{}
	fills := func(namespace string) (held HeldWorks) {
		got[namespace], held = s.fills(namespace)
		return held
	}
	if held := fills("first"); got["first"] != 768 || held.Reason != Full {
		t.Errorf("one alone has %d MiB, held back as %s", got["first"], held.Reason)
	}
	held := fills("second")
	if got["second"] != 192 || held.Reason != HubFull {
		t.Errorf("the second has %d MiB, held back as %s", got["second"], held.Reason)
	}
	for _, says := range []string{`"second"`, "1024 MiB", fleetv1alpha1.AnnotationWorkBytesMax, fleetv1alpha1.AnnotationSharedWorkBytesMax, "--shared-work-bytes-max"} {
		if message := held.ConditionMessage(); !strings.Contains(message, says) {
			t.Errorf("%q does not say %s", message, says)
		}
	}
	sum := 0
	for n := range 20 {
		name := fmt.Sprint(n)
		fills(name)
		if n == 0 && got[name] == 0 {
			t.Error("whoever comes later has no room")
		}
	}
	for _, each := range got {
		sum += each
	}
	if sum > DefaultShared/megabyte {
		t.Errorf("all have %d MiB", sum)
	}
	s.a.SetLimit(WorkOwner{Namespace: "bank"}, new(int64(DefaultShared)))
	if n, _ := s.creates(true, many("bank", "web", 100, megabyte)...); n != 100 {
		t.Errorf("an administrator has given a namespace 1 GiB, and it gets %d of 100 MiB", n)
	}
	if got := s.a.HeldBack()[HubFull]; got == 0 {
		t.Error("no namespace counts as held back by others")
	}
}

// fills has a tenant send objects of a megabyte until there is no room for one more.
func (s *scene) fills(namespace string) (got int, held HeldWorks) {
	s.Helper()
	for range 1000 {
		var admitted int
		admitted, held = s.creates(true, many(namespace, fmt.Sprintf("web-%d", got), 100, megabyte)...)
		if got += admitted; held.NeedsAction() {
			return got, held
		}
		s.after(10 * time.Minute)
	}
	s.Fatalf("there is always room, for %d works so far", got)
	return got, held
}

// TestNamespacesShareTheTime has two tenants change all of their works again and again, and a third
// one change something now and then: it does not wait.
func TestNamespacesShareTheTime(t *testing.T) {
	s := newScene(t, unlimited)
	churn := map[string][]*workv1.ManifestWork{"one": many("one", "web", 100, megabyte), "two": many("two", "web", 100, megabyte)}
	for _, works := range churn {
		if n, _ := s.creates(true, works...); n != len(works) {
			t.Fatalf("%d works are written in a first roll-out", n)
		}
	}
	written, begun, rare := 0, s.clock.Now(), many("rare", "web", 1, megabyte)
	s.creates(true, rare...)
	for look := 0; s.clock.Now().Sub(begun) < time.Hour; look++ {
		for namespace, works := range churn {
			var wanted []*workv1.ManifestWork
			for _, is := range works {
				wanted = append(wanted, work(namespace, is.Namespace, "web", megabyte-look%2-1))
			}
			admitted, _ := s.admits(works, wanted)
			for _, n := range admitted {
				s.a.ObserveWork(works[n], wanted[n])
				s.a.ObserveWork(wanted[n], works[n])
			}
			written += len(admitted)
		}
		if look%60 == 0 {
			wanted := many("rare", "web", 1, megabyte-look%7-1)
			if admitted, held := s.admits(rare, wanted); len(admitted) == 0 {
				t.Fatalf("a tenant that writes seldom waits for others: %s", held.ConditionMessage())
			}
			s.a.ObserveWork(rare[0], wanted[0])
			rare = wanted
		}
		s.after(time.Second)
	}
	if most := (burstBytes(DefaultShared)*sharesMade/shareOf + 3600*bytesPerSecond(DefaultShared)) / megabyte; int64(written) > most || int64(written) < most/2 {
		t.Errorf("%d megabytes are written in an hour, want nearly %d", written, most)
	}
}

// TestWorksOfReplicaSetsCount has those of a replica set and of a binding share what their
// namespace may have, as two caches keep them.
func TestWorksOfReplicaSetsCount(t *testing.T) {
	of := func(name, label string) *workv1.ManifestWork {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "member1", Name: name, Labels: map[string]string{workv1.LabelManifestWorkReplicaSet: label}}}
		w.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{ConditionRules: []workv1.ConditionRule{{CELExpressions: []string{strings.Repeat("x", megabyte)}}}}}
		return w
	}
	set, kept := of("web-12345", "shop.web"), &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "web-12345", Labels: map[string]string{workv1.LabelManifestWorkReplicaSet: "shop.web"}}}
	if got := WorkBytes(set); got < megabyte {
		t.Errorf("it counts as %d bytes, whatever it has besides manifests", got)
	}
	AnnotateSlimWork(set, kept)
	if WorkBytes(kept) != WorkBytes(set) || OwnerOf(kept) != (WorkOwner{Namespace: "shop"}) {
		t.Errorf("what a cache keeps of it counts as %d bytes of %q", WorkBytes(kept), OwnerOf(kept).Namespace)
	}
	if other := OwnerOf(of("mine", "shop.web")); other != (WorkOwner{}) {
		t.Errorf("an agent has labelled a work, and it counts for %s", other.Namespace)
	}
	binding, kept := work("shop", "member1", "api", megabyte), &workv1.ManifestWork{}
	AnnotateSlimWork(binding, kept)
	if WorkBytes(kept) != WorkBytes(binding) || OwnerOf(kept) != (WorkOwner{Namespace: "shop"}) {
		t.Errorf("what a cache keeps of a binding's counts as %d bytes of %q", WorkBytes(kept), OwnerOf(kept).Namespace)
	}
	s := newScene(t, 2*megabyte+megabyte/2)
	s.a.ObserveWork(nil, set)
	if n, _ := s.creates(true, many("shop", "api", 3, megabyte)...); n != 1 {
		t.Errorf("beside the work of a replica set there is room for %d", n)
	}
}

func TestTheMessageSaysWhatToDo(t *testing.T) {
	s := newScene(t, 16*megabyte)
	_, held := s.creates(true, many("shop", "web", 20, megabyte)...)
	for _, says := range []string{`"shop"`, "16 MiB", "4 clusters", fleetv1alpha1.AnnotationWorkBytesMax} {
		if message := held.ConditionMessage(); !strings.Contains(message, says) {
			t.Errorf("%q does not say %s", message, says)
		}
	}
}
