// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
	"github.com/capstan-io/capstan/internal/testing/build"
)

func TestEqualRulesAreCompiledOnce(t *testing.T) {
	cache := &rules.RuleSetCache{}
	list := func(expression string) []workv1.ConditionRule {
		return []workv1.ConditionRule{celRule("Fine", expression)}
	}
	one := cache.CompileShared(list("object.a == 1"))
	if cache.CompileShared(list("object.a == 1")) != one {
		t.Error("equal rules have another set")
	}
	if cache.CompileShared(list("object.a == 2")) == one {
		t.Error("other rules have the same set")
	}
	var group sync.WaitGroup
	sets := make([]*rules.ConditionRuleSet, 8)
	for i := range sets {
		group.Go(func() { sets[i] = cache.CompileShared(list("object.b == 1")) })
	}
	group.Wait()
	for _, set := range sets {
		if set != sets[0] {
			t.Error("goroutines have different sets of equal rules")
		}
	}
	runtime.KeepAlive(one)
}

func TestACacheHoldsNothingThatNobodyUses(t *testing.T) {
	cache := &rules.RuleSetCache{}
	dropped := make(chan struct{})
	func() {
		set := cache.CompileShared([]workv1.ConditionRule{celRule("Fine", "object.a == 1")})
		runtime.AddCleanup(set, func(struct{}) { close(dropped) }, struct{}{})
	}()
	for {
		runtime.GC()
		select {
		case <-dropped:
			return
		case <-t.Context().Done():
			t.Fatal("the set is still there")
		default:
		}
	}
}

func TestACacheIsBounded(t *testing.T) {
	cache := &rules.RuleSetCache{}
	kept := make([]*rules.ConditionRuleSet, 0, rules.CacheMax+1)
	list := func(i int) []workv1.ConditionRule { return []workv1.ConditionRule{wellKnown(fmt.Sprintf("Fine%d", i))} }
	for i := range rules.CacheMax + 1 {
		kept = append(kept, cache.CompileShared(list(i)))
	}
	if cache.CompileShared(list(0)) != kept[0] {
		t.Error("the first set is not shared")
	}
	if cache.CompileShared(list(rules.CacheMax)) == kept[rules.CacheMax] {
		t.Error("there are more sets than the limit")
	}
	runtime.KeepAlive(kept)
}

func TestTooManyRulesAreNotFollowed(t *testing.T) {
	var list []workv1.ConditionRule
	for i := range rules.RulesMax + 5 {
		list = append(list, celRule(fmt.Sprintf("Fine%d", i), "true"))
	}
	set := rules.CompileConditionRules(list)
	if got := len(evaluate(t.Context(), set, build.ParseObject(t, activeJob))); got != rules.RulesMax {
		t.Errorf("%d conditions, want %d", got, rules.RulesMax)
	}
	if problems := set.RuleProblems(); len(problems) != 1 || !strings.Contains(problems[0], "69 condition rules, only the first 64 apply") {
		t.Errorf("the problems are %q", problems)
	}
}
