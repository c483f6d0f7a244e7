// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

func TestAListWaitsOnlyWhileManyWorksDo(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	busy := true
	postponed := 0
	l := NewLedger(RecordLedgerOptions{
		Inventory: inventory.NewInventory(inventory.WatchOptions{}), Clock: clock, ListDelay: 10 * time.Second, Busy: func() bool { return busy },
		Postponed: func(string) { postponed++ },
	})
	record := &AppliedRecord{ledger: l, memory: &RecordMemory{}, object: &workv1.AppliedManifestWork{}}
	list := record.AppliedList(&plan.Plan{})
	after := record.object.DeepCopy()
	after.Status.AppliedResources = []workv1.AppliedManifestResourceMeta{metaOf(apply.ObjectRef{Resource: "configmaps", Name: "a"}, "v1", anyUID)}
	expect := func(what string, want time.Duration) {
		t.Helper()
		if got := list.writeDelay(after); got != want {
			t.Errorf("%s: it waits for %s, want %s", what, got, want)
		}
	}
	expect("many works wait", 10*time.Second)
	clock.SetTime(clock.Now().Add(4 * time.Second))
	expect("they wait still, and there is more to list", 6*time.Second)
	clock.SetTime(clock.Now().Add(6 * time.Second))
	expect("it has waited long enough", 0)
	expect("and there is more to list again", 10*time.Second)
	busy = false
	expect("few works wait", 0)
	busy = true
	expect("many works wait again", 10*time.Second)
	if postponed != 5 {
		t.Errorf("%d times it was told that the list comes later, want 5", postponed)
	}
	busy = false
	list.Heard = true
	expect("few works wait, and somebody may wait for the list of before", 0)
	expect("nobody waits for it", time.Second)
	clock.SetTime(clock.Now().Add(600 * time.Millisecond))
	expect("more happens to its objects meanwhile", 400*time.Millisecond)
	clock.SetTime(clock.Now().Add(400 * time.Millisecond))
	expect("that has lasted a second", 0)
	after = record.object
	expect("nothing is to be listed", 0)
}

func TestAListIsInTheOrderOfOtherAgents(t *testing.T) {
	texts := []string{
		"/v1/configmaps/a/b", "/v1/configmaps/b/a", "/v1/secrets/a/a", "apps/v1/deployments/a/a",
		"autoscaling/v1/horizontalpodautoscalers/b/b", "autoscaling/v2/horizontalpodautoscalers/a/a", "autoscaling/v2/others/a/a",
	}
	list := make([]workv1.AppliedManifestResourceMeta, 0, len(texts))
	for _, text := range texts {
		p := strings.Split(text, "/")
		list = append(list, metaOf(apply.ObjectRef{Group: p[0], Resource: p[2], Namespace: p[3], Name: p[4]}, p[1], anyUID))
	}
	slices.Reverse(list)
	slices.SortFunc(list, compareListed)
	got := make([]string, 0, len(list))
	for _, r := range list {
		got = append(got, fmt.Sprintf("%s/%s/%s/%s/%s", r.Group, r.Version, r.Resource, r.Namespace, r.Name))
	}
	if diff := cmp.Diff(texts, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestADeleteOptionIsNotedIfObjectsStay(t *testing.T) {
	rules := func(n int) *workv1.SelectivelyOrphan {
		s := &workv1.SelectivelyOrphan{}
		for i := range n {
			s.OrphaningRules = append(s.OrphaningRules, workv1.OrphaningRule{Resource: "configmaps", Name: fmt.Sprintf("c-%d", i)})
		}
		return s
	}
	some := &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicySelectivelyOrphan, SelectivelyOrphans: rules(2)}
	orphan := &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	for name, test := range map[string]struct{ option, want *workv1.DeleteOption }{
		"none":              {},
		"everything goes":   {option: &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyForeground}},
		"everything stays":  {option: orphan, want: orphan},
		"some objects stay": {option: some, want: some},
		"more are named than there is room for": {want: orphan, option: &workv1.DeleteOption{
			PropagationPolicy: workv1.DeletePropagationPolicySelectivelyOrphan, SelectivelyOrphans: rules(5000),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := formatOption(test.option)
			if err != nil {
				t.Fatal(err)
			}
			record := &AppliedRecord{object: &workv1.AppliedManifestWork{}}
			setOption(record.object, text)
			got, err := record.DeleteOption()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
