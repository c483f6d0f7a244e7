// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// drop deletes the record of the scene, as a user does.
func (s *scene) drop(n int) {
	s.t.Helper()
	if err := s.client.Delete(s.t.Context(), s.record(n)); err != nil {
		s.t.Fatal(err)
	}
}

// same waits until the object has one owner, which is the record, and fails if
// it is not the object it was.
func (s *scene) same(before *corev1.ConfigMap, record *workv1.AppliedManifestWork) {
	s.t.Helper()
	s.eventually("the record alone owns "+before.Name, func() error {
		now, _, err := s.value(before.Name)
		if err == nil && now.UID != before.UID {
			s.t.Fatalf("%s was deleted and made again", before.Name)
		}
		if err == nil && (len(now.OwnerReferences) != 1 || now.OwnerReferences[0].UID != record.UID) {
			err = fmt.Errorf("owners are %+v", now.OwnerReferences)
		}
		return err
	})
}

func TestARecordDeletedWhileNoAgentRanIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1"), s.configMap("b", "1")))
	a, b := s.has("a", "1"), s.has("b", "1")
	old := s.record(2)
	first.stop()
	s.drop(2)
	s.start(agentOptions{})
	record := s.record(2)
	if record.UID == old.UID || record.Name != old.Name {
		t.Errorf("the record is %+v", record)
	}
	s.same(a, record)
	s.same(b, record)
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestAWorkDeletedAfterItsRecordLeavesItsOrphans(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	work := s.work("w", s.configMap("a", "1"))
	work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	s.create(work)
	a := s.has("a", "1")
	s.record(1)
	first.stop()
	s.drop(1)
	s.delete("w")
	s.start(agentOptions{})
	s.gone("w")
	if now := s.has("a", "1"); now.UID != a.UID || len(now.OwnerReferences) != 0 {
		t.Errorf("the orphan is %+v", now.ObjectMeta)
	}
	s.nothingLeft()
}

func TestEverythingOfARecordThatWasDeletedIsFoundToTheLast(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1"), s.configMap("b", "1")))
	s.create(s.work("v", s.configMap("c", "1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.condition("v", "Applied", metav1.ConditionTrue)
	a := s.has("a", "1")
	first.stop()
	records, err := s.records()
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if err := s.client.Delete(t.Context(), &records[i]); err != nil {
			t.Fatal(err)
		}
	}
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("a", "2")) })
	s.delete("v")
	s.start(agentOptions{})
	s.gone("v")
	s.hasNot("c")
	s.hasNot("b")
	s.has("a", "2")
	s.same(a, s.record(1))
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestObjectsThatMayNotBeWatchedAreMovedToo(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	config, _ := s.user(records, configMaps("get", "create", "patch", "delete"))
	s.start(agentOptions{spoke: config})
	s.create(s.work("w", s.configMap("a", "1"), s.configMap("b", "1")))
	old := s.record(2)
	a := s.has("a", "1")
	s.drop(2)
	s.eventually("there is another record", func() error {
		if record := s.record(2); record.UID == old.UID {
			return errors.New("there is not")
		}
		return nil
	})
	s.same(a, s.record(2))
	s.delete("w")
	s.gone("w")
	s.hasNot("a")
	s.nothingLeft()
}

func TestARecordWhoseObjectsCannotBeMovedSaysSo(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	maps := configMaps("get", "list", "watch", "create", "patch", "delete")
	config, role := s.user(records, maps)
	s.start(agentOptions{spoke: config})
	s.create(s.work("w", s.configMap("a", "1")))
	a := s.has("a", "1")
	s.record(1)
	s.allow(role, records, configMaps("get", "list", "watch", "create", "delete"))
	s.drop(1)
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(meta.FindStatusCondition(work.Status.Conditions, "Applied").Message,
		"was deleted on the cluster", "configmaps "+s.ns()+"/a", "may not patch configmaps")
	s.allow(role, records, maps)
	s.nudge("w")
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.same(a, s.record(1))
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestAMoveToAnotherHubDoesNotTouchTheObjects(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	deployment := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":%q},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, s.ns())
	s.create(s.work("w", s.configMap("a", "1"), deployment))
	s.record(2)
	d := unstructuredOf(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, s.ns(), "d")
	a := s.has("a", "1")
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	uid, generation := d.GetUID(), d.GetGeneration()
	first.stop()
	s.start(agentOptions{hub: "https://elsewhere", part: PartOptions{EvictionGracePeriod: time.Second}})
	record := s.record(2) // the old one goes
	s.same(a, record)
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	if d.GetUID() != uid || d.GetGeneration() != generation {
		t.Errorf("the deployment was touched: uid %s generation %d", d.GetUID(), d.GetGeneration())
	}
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestAHubThatComesBackEndsTheGracePeriod(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1")))
	a := s.has("a", "1")
	record := s.record(1)
	first.stop()
	other := s.start(agentOptions{hub: "https://elsewhere-with-nothing", part: PartOptions{EvictionGracePeriod: time.Hour}, cluster: "none"})
	s.eventually("the grace period begins", func() error {
		if s.record(1).Status.EvictionStartTime == nil {
			return errors.New("it has not begun")
		}
		return nil
	})
	other.stop()
	s.start(agentOptions{})
	s.eventually("the grace period is over", func() error {
		if s.record(1).Status.EvictionStartTime != nil {
			return errors.New("it is not")
		}
		return nil
	})
	s.same(a, record)
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

// twin is a second cluster that the same member is registered as.
func (s *scene) twin() *scene {
	other := *s
	other.cluster = s.cluster + "-twin"
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other.cluster}})
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other.ns()}})
	return &other
}

func TestTwoAgentsDoNotFightForARecord(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	twin := s.twin()
	s.start(agentOptions{hub: "https://same-" + s.cluster})
	s.create(s.work("w", s.configMap("a", "1")))
	a, record := s.has("a", "1"), s.record(1)
	twin.start(agentOptions{hub: "https://same-" + s.cluster})
	twin.create(twin.work("w", twin.configMap("b", "1")))
	work := twin.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(meta.FindStatusCondition(work.Status.Conditions, "Applied").Message, record.Name, "agent-of-"+s.cluster, "registered with this hub twice")
	twin.create(twin.work("v", twin.configMap("c", "1")))
	twin.condition("v", "Applied", metav1.ConditionTrue)
	twin.hasNot("b")
	twin.delete("w")
	twin.gone("w")
	s.same(a, s.record(1))
	s.condition("w", "Applied", metav1.ConditionTrue)
	for name, each := range map[string]*scene{"v": twin, "w": s} {
		each.delete(name)
		each.gone(name)
		each.nothingLeft()
	}
}

func TestTheRecordOfAnAgentThatIsGoneIsTakenOver(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "1")))
	a := s.has("a", "1")
	record := s.record(1)
	first.stop()
	s.start(agentOptions{agentID: "another"})
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("a", "2")) })
	s.has("a", "2")
	s.same(a, record)
	now := &workv1.AppliedManifestWork{}
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(record), now); err != nil || now.Spec.AgentID != "another" {
		t.Errorf("the record is %+v, %v", now, err)
	}
	s.delete("w")
	s.gone("w")
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(record), now); !apierrors.IsNotFound(err) {
		t.Errorf("the record is still there: %v", err)
	}
}
