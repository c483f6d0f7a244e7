// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// deletes returns which of some works are deleted now; if asked to, these are gone then.
func (s *scene) deletes(gone bool, works ...*workv1.ManifestWork) ([]*workv1.ManifestWork, HeldWorks) {
	s.Helper()
	if len(works) == 0 {
		return nil, HeldWorks{}
	}
	var deletions []WorkDeletion
	for _, one := range works {
		deletions = append(deletions, WorkDeletion{Work: one, Writes: 1})
	}
	now, held := s.a.AdmitDeletions(OwnerOf(works[0]), deletions)
	for _, one := range now {
		if gone {
			s.a.ObserveWork(one, deleting(one))
			s.a.ObserveWork(deleting(one), nil)
		}
	}
	if held.AnyHeld() != (len(now) < len(works)) || held.AnyHeld() && (held.Reason != Throttled || held.Again <= 0) {
		s.Fatalf("%d of %d works are deleted, those of %d clusters are held back as %q, to be tried again in %s", len(now), len(works), len(held.Clusters), held.Reason, held.Again)
	}
	return now, held
}

// deleting is a work that its finalizer keeps.
func deleting(work *workv1.ManifestWork) *workv1.ManifestWork {
	work = work.DeepCopy()
	work.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_000_000, 0)}
	return work
}

// TestDeletionsOfANamespaceWaitForTheirTurn has a tenant delete all that he sends, and send it again, for
// an hour. Another one writes and deletes something now and then: it does not wait.
func TestDeletionsOfANamespaceWaitForTheirTurn(t *testing.T) {
	s := newScene(t, unlimited)
	stored, deleted, begun := 0, 0, s.clock.Now()
	for look := 0; s.clock.Now().Sub(begun) < time.Hour; look++ {
		works := many("shop", fmt.Sprint(look), 200, megabyte)
		admitted, _ := s.admits(make([]*workv1.ManifestWork, len(works)), works)
		for n, i := range admitted {
			s.a.ObserveWork(nil, works[i])
			works[n] = works[i]
		}
		stored += len(admitted)
		for works = works[:len(admitted)]; len(works) > 0; {
			now, held := s.deletes(true, works...)
			deleted += len(now)
			works = works[len(now):]
			if small, _ := s.creates(true, many("bank", fmt.Sprint(look), 2, 1)...); small != 2 {
				t.Fatal("a tenant who writes seldom waits for what another deletes")
			}
			if _, held := s.deletes(true, many("bank", fmt.Sprint(look), 2, 1)...); held.AnyHeld() {
				t.Fatalf("a tenant who deletes seldom waits for another: %s", held.ConditionMessage())
			}
			s.after(max(held.Again, time.Second))
		}
		s.after(time.Second)
	}
	most := (burstBytes(DefaultShared) + 3600*bytesPerSecond(DefaultShared)) / megabyte
	if sum := int64(stored + deleted); sum > most+64 || sum < most/2 || deleted < stored-200 {
		t.Errorf("%d megabytes are sent and %d deleted in an hour, want nearly %d together", stored, deleted, most)
	}
	if held := s.a.HeldBack(); held[Throttled] != 1 {
		t.Errorf("%d namespaces count as held back", held[Throttled])
	}
}

// TestWhatIsWrittenWithoutEndKeepsNothingFromGoing has a tenant change works all the time, so that there
// is never a time to write anything else, while others of the namespace are to go.
func TestWhatIsWrittenWithoutEndKeepsNothingFromGoing(t *testing.T) {
	s := newScene(t, unlimited)
	churn, gone := many("shop", "web", 200, megabyte), many("shop", "old", 100, megabyte)
	s.creates(true, churn...)
	for s.after(time.Hour); ; s.after(time.Hour) {
		if n, _ := s.creates(true, gone...); n == len(gone) {
			break
		}
	}
	begun, next := s.clock.Now(), s.clock.Now()
	for look := 0; len(gone) > 0; look++ {
		var wanted []*workv1.ManifestWork
		for _, is := range churn {
			wanted = append(wanted, work("shop", is.Namespace, "web", megabyte-look%2-1))
		}
		admitted, _ := s.admits(churn, wanted)
		for _, n := range admitted {
			s.a.ObserveWork(churn[n], wanted[n])
			s.a.ObserveWork(wanted[n], churn[n])
		}
		if s.after(time.Second); !s.clock.Now().Before(next) {
			now, held := s.deletes(true, gone...)
			gone, next = gone[len(now):], s.clock.Now().Add(held.Again)
		}
		if s.clock.Now().Sub(begun) > 10*time.Minute {
			t.Fatalf("%d works of 100 MiB are there after ten minutes", len(gone))
		}
	}
}

// TestAWorkIsDeletedOnce has one looked at again before the cache shows that it is being deleted, whatever
// its agent writes meanwhile. It has its room until it is gone.
func TestAWorkIsDeletedOnce(t *testing.T) {
	s := newScene(t, 4*megabyte)
	is := work("shop", "member1", "web", 4*megabyte)
	s.creates(true, is)
	for look := range 1000 {
		reported := is.DeepCopy()
		reported.ResourceVersion = fmt.Sprint(look)
		s.a.ObserveWork(is, reported)
		is = reported
		s.deletes(false, is)
	}
	if n, _ := s.creates(false, work("shop", "member2", "web", 1)); n != 0 {
		t.Error("there is room before the work is deleted")
	}
	s.a.ObserveWork(is, deleting(is))
	if n, _ := s.creates(false, work("shop", "member2", "web", 1)); n != 0 {
		t.Error("there is room before the work is gone")
	}
	s.a.ObserveWork(deleting(is), nil)
	if n, held := s.creates(true, work("shop", "member2", "web", 1)); n != 1 {
		t.Errorf("there is no room when the work is gone: %s", held.ConditionMessage())
	}
	if written := s.a.of[WorkOwner{Namespace: "shop"}].meter.bytes / megabyte; written > 9 {
		t.Errorf("a work of 4 MiB that is written and deleted once counts as %.0f MiB", written)
	}
}

// TestEtcdHasRoomForWhatIsDeleted has tenants and an administrator send all that they may, wait until they
// may write much at once, and change and delete all of it then, again and again. What is overwritten or
// deleted is stored for ten minutes more.
func TestEtcdHasRoomForWhatIsDeleted(t *testing.T) {
	etcd := &history{scene: newScene(t, unlimited), forgotten: map[int]int64{}}
	owners := make([][]*workv1.ManifestWork, 4)
	for range 4 * int(time.Hour/historyStep) {
		for n, works := range owners {
			switch minute := int(time.Duration(etcd.step)*historyStep/time.Minute) % 60; {
			case minute < 36:
				owners[n] = append(works, etcd.sends(ownedBy(n, many(fmt.Sprint(n), fmt.Sprint(etcd.step), 100, megabyte)))...)
			case minute < 46:
			case minute < 48:
				etcd.changes(works, ownedBy(n, again(works)))
			default:
				owners[n] = etcd.withdraws(works)
			}
		}
		etcd.passes()
	}
	if etcd.most > 2<<30 || etcd.most < 3<<29 {
		t.Errorf("etcd has %d MiB at most, of 2048 that there are", etcd.most/megabyte)
	}
}

// TestProgramsShareWhatIsWritten has one of two programs write as much as it may at once.
func TestProgramsShareWhatIsWritten(t *testing.T) {
	const programs = 2
	s := newScene(t, unlimited)
	s.a = NewAllowance(s.clock, DefaultShared, programs)
	written, held := s.creates(true, many("shop", "web", 400, megabyte)...)
	if most := int(burstBytes(DefaultShared) / programs / megabyte); written > most+1 || written < most/2 || held.Reason != Throttled {
		t.Errorf("%d MiB are written at once (%s), want at most %d", written, held.Reason, most)
	}
}

// history is an etcd that forgets what was overwritten or deleted after a while.
type history struct {
	*scene
	has, most int64
	step      int
	forgotten map[int]int64 // how much, by the step
}

// A step of a history, and how long etcd keeps what was overwritten.
const historyStep, historyKept = 30 * time.Second, 10 * time.Minute

// passes has the time of a step pass.
func (h *history) passes() {
	h.most = max(h.most, h.has)
	h.after(historyStep)
	h.step++
	h.has -= h.forgotten[h.step]
}

func (h *history) store(before, after *workv1.ManifestWork) {
	h.a.ObserveWork(before, after)
	if after != nil {
		h.has += WorkBytes(after)
	}
	if before != nil {
		h.forgotten[h.step+int(historyKept/historyStep)] += WorkBytes(before)
	}
}

// ownedBy returns works as those of an owner, the first of which is an administrator.
func ownedBy(owner int, works []*workv1.ManifestWork) []*workv1.ManifestWork {
	if owner == 0 {
		return ofAdministrator(works...)
	}
	return works
}

// again returns works with other contents.
func again(works []*workv1.ManifestWork) (all []*workv1.ManifestWork) {
	for _, is := range works {
		all = append(all, work(is.Annotations[workv1alpha2.AnnotationResourceBindingNamespace], is.Namespace, is.Name, int(WorkBytes(is))^1))
	}
	return all
}

func (h *history) sends(wanted []*workv1.ManifestWork) (sent []*workv1.ManifestWork) {
	admitted, _ := h.admits(make([]*workv1.ManifestWork, len(wanted)), wanted)
	for _, i := range admitted {
		h.store(nil, wanted[i])
		sent = append(sent, wanted[i])
	}
	return sent
}

func (h *history) changes(works, wanted []*workv1.ManifestWork) {
	if len(works) == 0 {
		return
	}
	admitted, _ := h.admits(works, wanted)
	for _, i := range admitted {
		h.store(works[i], wanted[i])
		works[i] = wanted[i]
	}
}

// withdraws deletes those of some works whose turn it is, and returns the others.
func (h *history) withdraws(works []*workv1.ManifestWork) []*workv1.ManifestWork {
	now, _ := h.deletes(false, works...)
	for _, is := range now {
		h.store(is, deleting(is))
		h.store(deleting(is), nil)
	}
	return works[len(now):]
}
