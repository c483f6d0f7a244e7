// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

var (
	robot = Subject{"team", "robot"}
	inWeb = Access{Verb: "get", Resource: "configmaps", Namespace: "web"}
	inAll = Access{Verb: "get", Resource: "nodes"}
)

// seeing returns a keeper that hears of all changes, the last of which is long
// over.
func seeing(l *law, size int) (*decisionCache, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1, 0))
	k := newDecisionCache(l, clock, size)
	for _, resource := range permissionResources() {
		k.markWatched(resource.Resource, true)
	}
	clock.SetTime(clock.Now().Add(settleTime))
	return k, clock
}

func TestDecisionsAreKept(t *testing.T) {
	change := func(namespace string) func(*decisionCache, *clocktesting.FakePassiveClock) {
		return func(k *decisionCache, clock *clocktesting.FakePassiveClock) {
			h := &permissionHandler{keeper: k, resource: "rolebindings"}
			h.Update(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}})
			clock.SetTime(clock.Now().Add(settleTime))
		}
	}
	wait := func(d time.Duration) func(*decisionCache, *clocktesting.FakePassiveClock) {
		return func(_ *decisionCache, clock *clocktesting.FakePassiveClock) { clock.SetTime(clock.Now().Add(d)) }
	}
	cases := map[string]struct {
		reason  string
		access  Access
		may     bool
		happens func(*decisionCache, *clocktesting.FakePassiveClock)
		again   bool // it is asked again
	}{
		"a permission is kept":                             {access: inWeb, may: true, happens: wait(keepYes - settleTime)},
		"but not for ever":                                 {access: inWeb, may: true, happens: wait(keepYes + time.Second), again: true},
		"a refusal is kept for a moment":                   {access: inWeb, happens: wait(keepNo - time.Second)},
		"which is shorter":                                 {access: inWeb, happens: wait(keepNo + time.Second), again: true},
		"a change in the namespace ends it":                {access: inWeb, may: true, happens: change("web"), again: true},
		"a change in another does not":                     {access: inWeb, may: true, happens: change("other")},
		"a change of the whole cluster ends it":            {access: inWeb, may: true, happens: change(""), again: true},
		"a change in a namespace is not about the cluster": {access: inAll, may: true, happens: change("web")},
		"but one of the cluster is":                        {access: inAll, may: true, happens: change(""), again: true},
		"not hearing of a resource ends it": {
			access: inWeb, may: true, again: true,
			happens: func(k *decisionCache, _ *clocktesting.FakePassiveClock) { k.markWatched("roles", false) },
		},
		"a new list ends it": {
			reason: "what happened before it may have been missed",
			access: inWeb, may: true, again: true,
			happens: func(k *decisionCache, _ *clocktesting.FakePassiveClock) {
				(&permissionHandler{keeper: k, resource: "roles"}).Replace(nil, "")
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := &law{allowed: map[Access]bool{tc.access: tc.may}}
			k, clock := seeing(l, 10)
			for range 2 {
				if may, err := k.May(t.Context(), robot, tc.access); may != tc.may || err != nil {
					t.Fatalf("got %t, %v", may, err)
				}
			}
			if len(l.asked) != 1 {
				t.Fatalf("asked %d times at first", len(l.asked))
			}
			tc.happens(k, clock)
			l.allowed[tc.access] = !tc.may
			may, _ := k.May(t.Context(), robot, tc.access)
			if asked := len(l.asked) == 2; asked != tc.again || may != (tc.may != tc.again) {
				t.Errorf("%s\nasked again: %t, got %t", tc.reason, asked, may)
			}
		})
	}
}

func TestNothingIsKeptThatMayBeOld(t *testing.T) {
	twice := func(k *decisionCache, l *law) int {
		for range 2 {
			_, _ = k.May(t.Context(), robot, inWeb)
		}
		return len(l.asked)
	}
	t.Run("while changes are not heard of", func(t *testing.T) {
		l := &law{}
		clock := clocktesting.NewFakePassiveClock(time.Unix(1, 0))
		k := newDecisionCache(l, clock, 10)
		for _, resource := range permissionResources()[1:] {
			k.markWatched(resource.Resource, true)
		}
		clock.SetTime(clock.Now().Add(settleTime))
		if asked := twice(k, l); asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
	t.Run("right after a change", func(t *testing.T) {
		l := &law{}
		k, clock := seeing(l, 10)
		k.forgetNamespace("web") // an API server may not know of it yet
		clock.SetTime(clock.Now().Add(settleTime - time.Millisecond))
		if asked := twice(k, l); asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
	t.Run("right after a change of the whole cluster", func(t *testing.T) {
		l := &law{}
		k, clock := seeing(l, 10)
		k.forgetNamespace("")
		clock.SetTime(clock.Now().Add(settleTime - time.Millisecond))
		if asked := twice(k, l); asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
	t.Run("but what the change is not about is", func(t *testing.T) {
		l := &law{}
		k, _ := seeing(l, 10)
		k.forgetNamespace("other")
		if asked := twice(k, l); asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
	t.Run("if something changed since the question", func(t *testing.T) {
		l := &law{}
		k, clock := seeing(l, 10)
		l.during = func() {
			k.forgetNamespace("web")
			clock.SetTime(clock.Now().Add(settleTime))
		}
		if asked := twice(k, l); asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
	t.Run("for another subject", func(t *testing.T) {
		l := &law{allowed: map[Access]bool{inWeb: true}}
		k, _ := seeing(l, 10)
		for _, subject := range []Subject{robot, {"team", "other"}, {"other", "robot"}} {
			_, _ = k.May(t.Context(), subject, inWeb)
		}
		if len(l.asked) != 3 {
			t.Errorf("asked %d times", len(l.asked))
		}
	})
}

func TestThereIsAnEndToWhatIsKept(t *testing.T) {
	const size = 3
	l := &law{}
	k, _ := seeing(l, size)
	ask := func(name string) bool {
		before := len(l.asked)
		_, _ = k.May(t.Context(), robot, Access{Verb: "get", Resource: "nodes", Name: name})
		return len(l.asked) > before
	}
	for _, name := range []string{"a", "b", "c", "a", "d"} { // b was used least recently
		ask(name)
	}
	if len(k.decisions) != size || k.recent.Len() != size {
		t.Errorf("%d and %d are kept", len(k.decisions), k.recent.Len())
	}
	if ask("a") || ask("d") || ask("c") || !ask("b") {
		t.Error("the wrong one went")
	}
}

func TestNamespacesThatHaveSettledAreForgotten(t *testing.T) {
	k, clock := seeing(&law{}, 1)
	for i := range 3 * settlingMax {
		k.forgetNamespace(fmt.Sprint("ns-", i))
		clock.SetTime(clock.Now().Add(settleTime))
	}
	if len(k.settling) > settlingMax {
		t.Errorf("%d are known", len(k.settling))
	}
}

func BenchmarkKeptDecision(b *testing.B) {
	l := &law{allowed: map[Access]bool{}}
	clock := clocktesting.NewFakePassiveClock(time.Unix(1, 0))
	k := newDecisionCache(l, clock, keptMax)
	for _, resource := range permissionResources() {
		k.markWatched(resource.Resource, true)
	}
	clock.SetTime(clock.Now().Add(settleTime))
	var accesses []Access
	for i := range keptMax {
		accesses = append(accesses, Access{Verb: "patch", Group: "apps", Resource: "deployments", Namespace: "web", Name: fmt.Sprint("front-", i)})
	}
	for _, access := range accesses {
		_, _ = k.May(b.Context(), robot, access)
	}
	asked := len(l.asked)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := k.May(b.Context(), robot, accesses[i%len(accesses)]); err != nil {
			b.Fatal(err)
		}
	}
	if len(l.asked) != asked {
		b.Fatalf("asked %d times", len(l.asked)-asked)
	}
}
