// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
)

const (
	// heavyItems and heavyText make an object of about 1.5 MB, the most that etcd
	// takes.
	heavyItems = 100_000
	heavyText  = 1 << 20
	// allocatedMax is what an evaluation may allocate, in bytes, all in all.
	allocatedMax = 600 << 20
)

// heavy is an object that makes expressions expensive.
func heavy() *unstructured.Unstructured {
	list := make([]any, heavyItems)
	for i := range list {
		list[i] = int64(i)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "list": list, "text": strings.Repeat("a", heavyText),
	}}
}

// numbers writes a list of n zeros.
func numbers(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("0,", n), ",") + "]" }

func TestBombsEndWithinTheirBudget(t *testing.T) {
	nested := func(depth int, list string) string {
		text := "x0 >= 0"
		for i := range depth {
			text = fmt.Sprintf("%s.all(x%d, %s)", list, i, text)
		}
		return text
	}
	bombs := map[string]string{
		"loops in loops":                   nested(4, "object.list"),
		"loops over what is written":       nested(8, numbers(60)),
		"loops that make lists":            `object.list.map(a, object.list.map(b, object.list.map(c, [a, b, c]))).size() > 0`,
		"comparing long texts in a loop":   `object.list.all(i, object.text == object.text)`,
		"comparing objects in a loop":      `object.list.all(i, object == object)`,
		"looking for an object in a list":  `object.list.all(i, object in [object, object, object])`,
		"counting letters in a loop":       `object.list.all(i, size(object.text) > 0)`,
		"converting a text in a loop":      `object.list.all(i, bytes(object.text) != b"")`,
		"a text that doubles":              `["a"].` + strings.Repeat("map(a, a + a).", 30) + `all(a, true)`,
		"a list that doubles":              `[[0]].` + strings.Repeat("map(a, a + a).", 30) + `all(a, a == a)`,
		"replace":                          `object.text.replace("a", object.text) != ""`,
		"replace nothing":                  `object.text.replace("", object.text) != ""`,
		"join":                             `object.list.map(i, object.text).join() != ""`,
		"join with something long":         `object.list.map(i, "").join(object.text) != ""`,
		"format":                           `"` + strings.Repeat("%s", 200) + `".format([` + strings.TrimSuffix(strings.Repeat("object,", 200), ",") + `]) != ""`,
		"format in a loop":                 `object.list.all(i, "%s".format([object.list]) != "")`,
		"quote in a loop":                  `object.list.all(i, strings.quote(object.text) != "")`,
		"split in a loop":                  `object.list.map(i, object.text.split("")).size() > 0`,
		"looking for what almost matches":  `object.list.all(i, (object.text + "b").indexOf(object.text.substring(524288) + "c") < 0)`,
		"the same from the end":            `object.list.all(i, ("b" + object.text).lastIndexOf("c" + object.text.substring(524288)) < 0)`,
		"a heavy regular expression":       `object.list.all(i, object.text.matches("(a*)*(a{300}){3}b"))`,
		"a regular expression in a loop":   `object.list.all(i, "aaaa".matches("^(a?){500}a{500}$") || true)`,
		"findAll":                          `object.list.all(i, object.text.findAll("a").size() > 0)`,
		"a regular expression that grows":  `object.text.matches("((a{1,30}){1,30})")`,
		"a long one that grows":            `object.list.all(i, object.text.matches("(` + strings.Repeat("abc", 300) + `){1000}") || true)`,
		"a heavy one in a loop":            `object.list.all(i, "aaaa".matches("(a?){200}a{200}") || true)`,
		"time zones":                       `object.list.all(i, timestamp("2024-01-01T00:00:00Z").getHours("Europe/Berlin") > -1)`,
		"long lists in a loop":             `object.list.map(i, ` + numbers(4000) + `).size() > 0`,
		"long maps in a loop":              `object.list.map(i, {` + strings.TrimSuffix(strings.Repeat(`"a": 1,`, 500), ",") + `}).size() > 0`,
		"lists in a loop":                  `object.list.map(i, ` + numbers(64) + `).size() > 0`,
		"quantities in a loop":             `object.list.all(i, quantity("1234567890123456789012345678901234567890e99").add(quantity("1e-99")).sign() == 1) && isQuantity("1e999999999")`,
		"the exponent of a quantity":       `quantity("1e999999999").sign() == 1`,
		"a quantity of a million digits":   `quantity(object.text.replace("a", "1")).sign() == 1`,
		"a quantity that grows":            `object.list.all(i, quantity("1e99").add(quantity("1e99")).isGreaterThan(quantity("1e-99")))`,
		"queries of URLs in a loop":        `[url("/?" + object.text.substring(0, 4000).replace("a", "a&"))].all(u, object.list.all(i, u.getQuery().size() == 1))`,
		"URLs in a loop":                   `object.list.all(i, isURL("/" + object.text.substring(0, 8000)))`,
		"a long URL":                       `url("/" + object.text).getHost() == ""`,
		"a long address":                   `ip(object.text).family() == 4 || cidr(object.text).prefixLength() == 4`,
		"formats in a loop":                `object.list.all(i, !format.qualifiedName().validate(object.text.substring(0, 8000)).hasValue() || true)`,
		"long texts for formats in a loop": `object.list.all(i, format.dns1123Subdomain().validate(object.text).hasValue())`,
		"sets of what is large":            `sets.contains([object], [object]) && sets.equivalent(object.list, object.list)`,
		"sets in a loop":                   `object.list.all(i, sets.contains([object.text], ["b", object.text]))`,
		"sets of sets":                     `sets.intersects(object.list.map(i, i + 1000000), object.list)`,
		"includes in a loop":               `object.list.all(i, object.list.includes(0))`,
		"the greatest in a loop":           `object.list.all(i, math.greatest(object.list) > 0)`,
		"a long version":                   `semver("1.0.0-" + object.text).major() == 1`,
		"versions in a loop":               `object.list.all(i, semver("1.0.0-" + object.text.substring(0, 200)).isLessThan(semver("2.0.0")))`,
		"CIDRs in a loop":                  `object.list.all(i, cidr("10.0.0.0/8").containsIP("10.0.0.1"))`,
		"brackets":                         strings.Repeat("(", 5000) + "true" + strings.Repeat(")", 5000),
		"negations":                        strings.Repeat("!", 9000) + "true",
		"a long chain":                     "object" + strings.Repeat(".a", 5000),
		"a long sum":                       "0" + strings.Repeat("+1", 5000) + " > 0",
		"conditions in conditions":         strings.Repeat("true ? true : ", 700) + "true",
		"wrong in many ways":               strings.Repeat("a+", 5000),
	}
	// These look worse than they are.
	harmless := map[string]bool{"negations": true}
	object := heavy()
	for name, expression := range bombs {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := evaluate(t.Context(), rules.CompileConditionRules([]workv1.ConditionRule{celRule("Fine", expression)}), object)
			runtime.ReadMemStats(&after)
			if len(got) != 1 {
				t.Fatalf("want a condition, got %+v", outcomes(got))
			}
			c := outcomes(got)[0]
			if c.Status == "True" != harmless[name] {
				t.Errorf("got %+v", c)
			}
			if len(c.Message) > rules.MessageBytesMax || c.Message == "" {
				t.Errorf("a message of %d bytes", len(c.Message))
			}
			t.Logf("%s %s %.150s", c.Status, c.Reason, c.Message)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > allocatedMax {
				t.Errorf("it allocated %d MiB, more than %d", allocated>>20, allocatedMax>>20)
			}
		})
	}
}

func TestMessagesHaveABudgetToo(t *testing.T) {
	t.Parallel()
	r := celRule("Fine", "true")
	r.MessageExpression = `object.text + object.text + object.text + object.text + object.text`
	got := outcomes(evaluate(t.Context(), rules.CompileConditionRules([]workv1.ConditionRule{r}), heavy()))
	want := []outcome{{
		"Fine", "True", workv1.ManifestReasonConditionRuleEvaluated,
		"The rule's messageExpression failed: it costs more than 1000000 units, the limit; visit fewer items.",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r.MessageExpression = `object.text`
	got = outcomes(evaluate(t.Context(), rules.CompileConditionRules([]workv1.ConditionRule{r}), heavy()))
	if len(got) != 1 || len(got[0].Message) != rules.MessageBytesMax {
		t.Errorf("want a message that is cut, got %d bytes", len(got[0].Message))
	}
}

func TestALoopOverAnOrdinaryListIsCheap(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{Object: map[string]any{"list": heavy().Object["list"].([]any)[:4000]}}
	got := evaluate(t.Context(), rules.CompileConditionRules([]workv1.ConditionRule{celRule("Fine", `object.list.map(i, i + 1).filter(i, i > 10).size() == 3990`)}), object)
	if len(got) != 1 || got[0].Status != "True" {
		t.Errorf("want it to be true, got %+v", outcomes(got))
	}
}

func TestRulesShareABudget(t *testing.T) {
	t.Parallel()
	var list []workv1.ConditionRule
	for i := range 12 {
		// Each costs nearly what one may cost.
		list = append(list, celRule(fmt.Sprintf("C%d", i), `(object.text + object.text + object.text + object.text) != ""`))
	}
	got := evaluate(t.Context(), rules.CompileConditionRules(list), heavy())
	if got[0].Status != "True" {
		t.Errorf("want the first to be within the budget, got %+v", outcomes(got[:1]))
	}
	last := outcomes(got[len(got)-1:])[0]
	if last.Reason != workv1.ManifestReasonConditionRuleExpressionError || !strings.Contains(last.Message, "exceed the cost limit of 10000000 units") {
		t.Errorf("want the last to be beyond the budget, got %+v", last)
	}
}

func TestTheObjectsOfAWorkShareABudget(t *testing.T) {
	t.Parallel()
	set := rules.CompileConditionRules([]workv1.ConditionRule{celRule("Fine", `(object.text + object.text + object.text + object.text) != ""`)})
	left := budget.NewBudget(clock.RealClock{})
	object := heavy()
	const most = 100
	var last outcome
	for n := 0; n <= most && last.Status != "False"; n++ {
		last = outcomes(set.EvaluateRules(t.Context(), object, nil, left))[0]
	}
	want := outcome{
		"Fine", "False", workv1.ManifestReasonConditionRuleExpressionError,
		"celExpressions[0]: the rules of this work, for all of its objects, exceed the cost limit of 20000000 units.",
	}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Error(diff)
	}
	if got := evaluate(t.Context(), set, object); got[0].Status != "True" {
		t.Errorf("want another work to have a budget of its own, got %+v", outcomes(got))
	}
}

func TestTheWorksOfAnOwnerShareATime(t *testing.T) {
	t.Parallel()
	set := rules.CompileConditionRules([]workv1.ConditionRule{celRule("Fine", `object.text != ""`)})
	times := budget.NewOwnerTimes(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	for n := 0; n < 1000 && !times.NewBudget("shop").IsOwnerSpent(); n++ {
		times.NewBudget("shop").SpendCEL(budget.CELCostMax)
	}
	for owner, status := range map[string]metav1.ConditionStatus{"shop": "False", "bank": "True", "": "True"} {
		got := set.EvaluateRules(t.Context(), heavy(), nil, times.NewBudget(owner))[0]
		if got.Status != status || status == "False" && (got.Reason != workv1.ManifestReasonConditionRuleExpressionError || !strings.Contains(got.Message, "all works of this namespace")) {
			t.Errorf("a work of %q: %+v", owner, got)
		}
	}
}
