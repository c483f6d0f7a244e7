// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/users"
)

// example is a customization of a kind of its own, as a hub sends it.
func example(i int, verdict string) *customization {
	rule := func(text string) *configv1alpha1.LuaRule {
		const long = 2048
		return &configv1alpha1.LuaRule{LuaScript: text + fmt.Sprintf("\n-- %d", i) + strings.Repeat(" and why it is so", long/16)}
	}
	c := &customization{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("customization-", i), ResourceVersion: "1",
			Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 20000)},
		},
	}
	c.Spec.Target = configv1alpha1.CustomizationTarget{APIVersion: "example.com/v1", Kind: fmt.Sprint("Kind", i)}
	c.Spec.Customizations = configv1alpha1.CustomizationRules{
		Retention: rule("function Retain(d, o) return d end"), StatusReflection: rule("function ReflectStatus(o) return o.status end"),
		HealthInterpretation: rule("function InterpretHealth(o) return " + verdict + " end"),
		ReplicaResource:      rule("function GetReplicas(o) return 1 end"), StatusAggregation: rule("function AggregateStatus(d, i) return d end"),
	}
	return c
}

func kindOf(i int) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: fmt.Sprint("Kind", i)}
}

// TestFiftyCustomizationsCostLittle compares what is kept of 50 customizations,
// however many clusters there are, with what an agent may spend on them.
func TestFiftyCustomizationsCostLittle(t *testing.T) {
	const customizations, clusters, most = 50, 100, 2 << 20
	hubs := NewHubRegistry(logr.Discard(), clock.RealClock{}, nil)
	var hub *InterpreterHub
	for range clusters {
		hub = hubs.JoinHub(&fleet.Connection{HubHost: "https://hub"}, func([]schema.GroupVersionKind) {})
	}
	before := heap()
	take := func() {
		all := make([]*customization, 0, customizations)
		for i := range customizations {
			all = append(all, slimCustomization(example(i, "true")))
		}
		hub.followCustomizations(func() {}).Replace(all, "1")
	}
	take()
	after := heap()
	t.Logf("%d customizations with scripts of 6 KiB each cost %d KiB", customizations, (after-before)>>10)
	if after > before+most {
		t.Errorf("%d customizations cost %d bytes, more than %d", customizations, after-before, most)
	}
	runtime.KeepAlive(hubs)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestClustersOfAHubShareWhatItsUsersSay(t *testing.T) {
	t.Parallel()
	hubs := NewHubRegistry(logr.Discard(), clock.RealClock{}, nil)
	var told [2][]string
	one, two, other := &fleet.Connection{HubHost: "https://a"}, &fleet.Connection{HubHost: "https://a"}, &fleet.Connection{HubHost: "https://b"}
	hear := func(i int) func([]schema.GroupVersionKind) {
		return func(changed []schema.GroupVersionKind) {
			text := "known"
			for _, kind := range changed {
				text = kind.Kind
			}
			told[i] = append(told[i], text)
		}
	}
	a, b := hubs.JoinHub(one, hear(0)), hubs.JoinHub(other, func([]schema.GroupVersionKind) { t.Error("another hub was told") })
	if again := hubs.JoinHub(two, hear(1)); again != a || a == b {
		t.Fatal("clusters of one hub do not share what is known of it, or those of two hubs do")
	}
	if a.IsInterpretationKnown() {
		t.Error("something is known before the hub was asked")
	}
	f := a.followCustomizations(func() {})
	f.Replace(nil, "1")
	f.Update(slimCustomization(example(1, "true")))
	f.Update(slimCustomization(example(1, "true"))) // which says the same
	chain := a.InterpreterChain(interpret.Chain{})
	if said := a.RevisionOf(kindOf(1)); said.Report == 0 || said.Retention == 0 || a.RevisionOf(kindOf(2)) != (users.KindRevision{}) || !chain.CustomizesRetention(kindOf(1)) {
		t.Errorf("said is %+v", said)
	}
	if chain.Operations(kindOf(1)).Custom.Replicas != nil {
		t.Error("the agent keeps what is for the hub")
	}
	a.LeaveHub(two)
	f.Delete(example(1, "true"))
	if chain.CustomizesRetention(kindOf(1)) {
		t.Error("what is deleted is still said")
	}
	if a.IsInterpretationKnown() {
		t.Error("all is known before the hub said which webhooks there are")
	}
	a.takeIn(&a.heard, nil)
	if !a.IsInterpretationKnown() {
		t.Error("the hub said all, and it is not known")
	}
	want := [2][]string{{"Kind1", "Kind1", "known"}, {"Kind1"}}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	a.LeaveHub(one)
	if c := hubs.JoinHub(one, hear(0)); c == a {
		t.Error("what nobody used any more was kept")
	}
}
