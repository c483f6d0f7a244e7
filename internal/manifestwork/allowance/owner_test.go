// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// ofAdministrator gives works the mark of a ClusterPropagationPolicy.
func ofAdministrator(works ...*workv1.ManifestWork) []*workv1.ManifestWork {
	for _, one := range works {
		one.Labels = map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "wide"}
	}
	return works
}

func TestOwnerOf(t *testing.T) {
	marked := func(work *workv1.ManifestWork) *workv1.ManifestWork { return ofAdministrator(work)[0] }
	wide := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{workv1alpha2.AnnotationClusterResourceBindingName: "viewer-clusterrole"}}}
	set := marked(&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "web-12345"}})
	set.Labels[workv1.LabelManifestWorkReplicaSet] = "shop.web"
	for name, c := range map[string]struct {
		work *workv1.ManifestWork
		want WorkOwner
	}{
		"of a PropagationPolicy":           {work("shop", "member1", "web", 1), WorkOwner{Namespace: "shop"}},
		"of a ClusterPropagationPolicy":    {marked(work("shop", "member1", "web", 1)), WorkOwner{Namespace: "shop", ClusterWide: true}},
		"of a ClusterResourceBinding":      {marked(wide), WorkOwner{}},
		"of a replica set, with the mark":  {set, WorkOwner{Namespace: "shop"}},
		"of somebody else, with the mark":  {marked(&workv1.ManifestWork{}), WorkOwner{}},
		"of somebody else, without a mark": {&workv1.ManifestWork{}, WorkOwner{}},
	} {
		if got := OwnerOf(c.work); got != c.want {
			t.Errorf("%s: it counts for %+v, want %+v", name, got, c.want)
		}
		kept := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: c.work.Name}}
		if label := c.work.Labels[workv1.LabelManifestWorkReplicaSet]; label != "" {
			kept.Labels = map[string]string{workv1.LabelManifestWorkReplicaSet: label}
		}
		if AnnotateSlimWork(c.work, kept); OwnerOf(kept) != c.want {
			t.Errorf("%s: what a cache keeps of it counts for %+v, want %+v", name, OwnerOf(kept), c.want)
		}
	}
}

// TestATenantKeepsNoRoomOfAnAdministrator has tenants send all that they may, with a limit of their own
// and without, one after the other, before an administrator sends something from the first namespace.
func TestATenantKeepsNoRoomOfAnAdministrator(t *testing.T) {
	s := newScene(t, 0)
	if n, _ := s.creates(true, many("limited", "web", 1, megabyte)...); n != 0 {
		t.Fatal("a tenant sends more than the limit of the namespace")
	}
	s.limit = unlimited
	if n, held := s.creates(true, ofAdministrator(many("limited", "quota", 3, megabyte)...)...); n != 3 {
		t.Errorf("what an administrator sends from a namespace with a limit is held back: %s", held.ConditionMessage())
	}
	for n := range 20 {
		s.fills(fmt.Sprint(n))
	}
	if n, held := s.creates(true, ofAdministrator(many("0", "quota", 40, megabyte)...)...); n != 40 {
		t.Errorf("what an administrator sends from a full namespace of a full hub is held back: %s", held.ConditionMessage())
	}
	sum := 0
	for n := range 1000 { // what tenants have a ClusterPropagationPolicy send does not fill the hub either
		admitted, _ := s.creates(true, ofAdministrator(many("0", fmt.Sprint(n), 1, megabyte)...)...)
		sum += admitted
	}
	if all := s.a.pool.bytes; all > DefaultShared+DefaultShared/reservedPart {
		t.Errorf("all have %d MiB, %d of them in what is reserved", all/megabyte, sum)
	}
	if held := s.a.HeldBack(); held[HubFull] != 20 {
		t.Errorf("%d of 20 namespaces count as held back by others", held[HubFull])
	}
}

// TestAWorkThatChangesHandsCounts has a tenant get works in as an administrator's, and then have them as
// his own: he has no more than he may for that.
func TestAWorkThatChangesHandsCounts(t *testing.T) {
	s := newScene(t, 2*megabyte+megabyte/2)
	wide := ofAdministrator(many("shop", "web", 5, megabyte)...)
	s.limit = unlimited
	if n, held := s.creates(true, wide...); n != 5 {
		t.Fatalf("an administrator sends %d: %s", n, held.ConditionMessage())
	}
	s.limit = 2*megabyte + megabyte/2
	own := many("shop", "web", 5, megabyte)
	admitted, held := s.admits(wide, own)
	if len(admitted) != 2 || held.Reason != Full {
		t.Errorf("%d works have become a tenant's, of which 2 have room: %s", len(admitted), held.ConditionMessage())
	}
	for _, n := range admitted {
		s.a.ObserveWork(wide[n], own[n])
	}
	tenant, administrator := s.a.of[WorkOwner{Namespace: "shop"}].bytes, s.a.of[WorkOwner{Namespace: "shop", ClusterWide: true}].bytes
	if tenant != 2*megabyte || administrator != 3*megabyte {
		t.Errorf("the tenant has %d bytes and the administrator %d", tenant, administrator)
	}
	s.limit = unlimited
	if admitted, held := s.admits(own[:2], ofAdministrator(many("shop", "web", 2, megabyte)...)); len(admitted) != 2 {
		t.Errorf("what a ClusterPropagationPolicy takes over has no room: %s", held.ConditionMessage())
	}
}

func TestAnAdministratorHasALimitOfHisOwn(t *testing.T) {
	s := newScene(t, 4*megabyte)
	_, held := s.creates(true, ofAdministrator(many("shop", "web", 6, megabyte)...)...)
	if len(held.Clusters) != 2 || held.Reason != Full {
		t.Errorf("%d works are held back as %s", len(held.Clusters), held.Reason)
	}
	for _, says := range []string{`"shop"`, "ClusterPropagationPolicies", "4 MiB", fleetv1alpha1.AnnotationClusterPolicyWorkBytesMax} {
		if message := held.ConditionMessage(); !strings.Contains(message, says) {
			t.Errorf("%q does not say %s", message, says)
		}
	}
	namespace := &metav1.ObjectMeta{Annotations: map[string]string{
		fleetv1alpha1.AnnotationWorkBytesMax: "1Ki", fleetv1alpha1.AnnotationClusterPolicyWorkBytesMax: "4Gi",
	}}
	for _, owner := range OwnersIn("shop") {
		want := map[bool]int64{false: 1 << 10, true: 4 << 30}[owner.ClusterWide]
		if limit, err := LimitOf(namespace, owner); err != nil || limit == nil || *limit != want {
			t.Errorf("%+v has limit %v (%v), want %d", owner, limit, err, want)
		}
	}
}

// TestMetadataOfWorksCounts has texts of a tenant in the annotations of works, and others in what agents may have
// written there.
func TestMetadataOfWorksCounts(t *testing.T) {
	const long = 200 << 10
	plain := WorkBytes(&workv1.ManifestWork{})
	for text, most := range map[string]int64{"": 0, "true": 0, strings.Repeat("a", 1024): 0, strings.Repeat("a", long): long, strings.Repeat("<", long): 6 * long} {
		if more := WorkBytes(&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{workv1.AnnotationReportHealth: text}}}) - plain; more < most-freeBytes || more > most {
			t.Errorf("%d characters of a replica set count as %d bytes, want about %d", len(text), more, most)
		}
		agents := metav1.ObjectMeta{Annotations: map[string]string{"any": text}, Labels: map[string]string{"any": text}}
		if more := WorkBytes(&workv1.ManifestWork{ObjectMeta: agents}) - plain; more != 0 {
			t.Errorf("%d characters of an agent count as %d bytes", len(text), more)
		}
	}
}
