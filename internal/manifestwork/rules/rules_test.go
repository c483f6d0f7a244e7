// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/expression"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
	"github.com/capstan-io/capstan/internal/testing/build"
)

const activeJob = `
apiVersion: batch/v1
kind: Job
metadata: {name: pi, namespace: math, labels: {app: π-rechner}}
spec: {parallelism: 2, template: {spec: {containers: [{name: a, image: x/y:1}, {name: b, image: z}]}}}
status:
  active: 1
  conditions: [{type: Ready, status: "True"}, {type: Odd, status: "False"}]
`

func celRule(condition string, expressions ...string) workv1.ConditionRule {
	return workv1.ConditionRule{Condition: condition, Type: workv1.ConditionRuleTypeCEL, CELExpressions: expressions}
}

func wellKnown(condition string) workv1.ConditionRule {
	return workv1.ConditionRule{Condition: condition, Type: workv1.ConditionRuleTypeWellKnownConditions}
}

// evaluate makes the conditions of an object, with a whole budget.
func evaluate(ctx context.Context, set *rules.ConditionRuleSet, o *unstructured.Unstructured) []metav1.Condition {
	return set.EvaluateRules(ctx, o, interpret.Chain{native.NewKubernetesKinds()}, budget.NewBudget(clock.RealClock{}))
}

// outcome is a condition as the tables below write it.
type outcome struct{ Type, Status, Reason, Message string }

func outcomes(list []metav1.Condition) []outcome {
	var short []outcome
	for _, c := range list {
		short = append(short, outcome{c.Type, string(c.Status), c.Reason, c.Message})
	}
	return short
}

func TestCELExpressionsGiveTrueFalseOrWhatIsWrong(t *testing.T) {
	t.Parallel()
	const evaluated, failed = workv1.ManifestReasonConditionRuleEvaluated, workv1.ManifestReasonConditionRuleExpressionError
	cases := map[string]struct {
		reason      string
		expressions []string
		want        outcome
	}{
		"one that is true": {
			reason: "the plain case", expressions: []string{"object.status.active == 1"},
			want: outcome{"Fine", "True", evaluated, "The object is Fine: the rule's expressions are all true."},
		},
		"one of two is false": {
			reason: "all have to be true", expressions: []string{"object.status.active == 1", "object.spec.parallelism == 1"},
			want: outcome{"Fine", "False", evaluated, "The object is not Fine: an expression of the rule is not true."},
		},
		"what comes after a false one is not looked at": {
			reason: "an error behind it does not count", expressions: []string{"false", "object.status.missing == 1"},
			want: outcome{"Fine", "False", evaluated, "The object is not Fine: an expression of the rule is not true."},
		},
		"a field that is missing": {
			reason: "the message tells how to ask for it", expressions: []string{"true", "object.status.missing == 1"},
			want: outcome{"Fine", "False", failed, "celExpressions[1]: the object has no field missing; test for it with has()."},
		},
		"a name that is not known": {
			reason: "compiling fails", expressions: []string{"true &&\n objekt.status == 1"},
			want: outcome{"Fine", "False", failed, "celExpressions[0] is not valid: line 2, column 2: undeclared reference to 'objekt' (in container '')"},
		},
		"a number, as the compiler sees": {
			reason: "only booleans count", expressions: []string{"1 + 1"},
			want: outcome{"Fine", "False", failed, "celExpressions[0] is not valid: it returns type int, not bool"},
		},
		"a text, as the evaluation shows": {
			reason: "only booleans count", expressions: []string{"object.kind"},
			want: outcome{"Fine", "False", failed, "celExpressions[0] returns type string, not a boolean."},
		},
		"result is for messages only": {
			reason: "it does not exist yet", expressions: []string{"result"},
			want: outcome{"Fine", "False", failed, "celExpressions[0] is not valid: line 1, column 1: undeclared reference to 'result' (in container '')"},
		},
		"the least of nothing": {
			reason: "there is none", expressions: []string{"[].min() == 1"},
			want: outcome{"Fine", "False", failed, "celExpressions[0]: min: the list is empty."},
		},
		"the sum of texts": {
			reason: "there is none", expressions: []string{`["a"].sum() == "a"`},
			want: outcome{"Fine", "False", failed, "celExpressions[0]: sum: an item is of type string, which is not a number or a duration."},
		},
		"the order of objects": {
			reason: "there is none", expressions: []string{`[object, object].isSorted()`},
			want: outcome{"Fine", "False", failed, "celExpressions[0]: items of type map(dyn, dyn) have no order."},
		},
		"a division by zero": {
			reason: "errors of the evaluation are told", expressions: []string{"object.status.active / 0 == 1"},
			want: outcome{"Fine", "False", failed, "celExpressions[0]: division by zero."},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := evaluate(t.Context(), rules.CompileConditionRules([]workv1.ConditionRule{celRule("Fine", c.expressions...)}), build.ParseObject(t, activeJob))
			if diff := cmp.Diff([]outcome{c.want}, outcomes(got)); diff != "" {
				t.Errorf("%s: %s", c.reason, diff)
			}
		})
	}
}

func TestFunctionsThatExpressionsMayUse(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		`hasConditions(object.status)`, `!hasConditions({})`, `!hasConditions("text")`,
		`!hasConditions({"conditions": []})`, `!hasConditions({"conditions": null})`, `!hasConditions({"conditions": {"a": 1}})`,
		`object.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`,
		`object.status.conditions.filter(c, c.status == "True").map(c, c.type) == ["Ready"]`,
		`has(object.status.active) && !has(object.status.failed)`,
		`object.?status.?failed.orValue(0) == 0`,
		`object.spec.parallelism > 1.5`,
		`"%d of %d are active".format([object.status.active, object.spec.parallelism]) == "1 of 2 are active"`,
		`["a", "b"].join("-") == "a-b"`, `["a", "b"].join() == "ab"`,
		`"a,b".split(",") == ["a", "b"]`, `" a ".trim().upperAscii() == "A"`, `"abc".substring(1) == "bc"`,
		`"abcb".replace("b", "xx") == "axxcxx"`, `"abcb".replace("b", "", 1) == "acb"`, `"abc".replace("", "-") == "-a-b-c-"`,
		`object.metadata.labels.app.indexOf("r") == 2`, `"äbäb".indexOf("b", 2) == 3`, `"äbäb".indexOf("x") == -1`,
		`"abc".indexOf("") == 0`, `"abc".indexOf("", 9) == 3`, `"abc".indexOf("c", 9) == -1`,
		`"äbäb".lastIndexOf("b") == 3`, `"äbäb".lastIndexOf("b", 2) == 1`, `"äbäb".lastIndexOf("ä", 2) == 2`,
		`"abc".lastIndexOf("") == 3`, `"abc".lastIndexOf("x", 1) == -1`, `"abc".lastIndexOf("c", 3) == -1`,
		`"y:1".matches("^[a-z]:[0-9]$")`, `matches("y", "y")`, `!"y".matches("z")`,
		`"a1b22".find("[0-9]+") == "1"`, `"a1b22".findAll("[0-9]+") == ["1", "22"]`, `"a1b22".findAll("[0-9]+", 1) == ["1"]`,
		`[1, 2, 2].isSorted() && ![2, 1].isSorted() && [].isSorted()`, `["a", "b"].max() == "b" && [2, 1, 3].min() == 1`,
		`[1, 2].sum() == 3 && [1.5, 2.5].sum() == 4.0 && [].sum() == 0 && [duration("1s"), duration("2s")].sum() == duration("3s")`,
		`[dyn(1.5), dyn(2.5)].sum() == 4.0 && [dyn(duration("1s"))].sum() == duration("1s") && [dyn("b"), dyn("a")].min() == "a"`,
		`object.spec.template.spec.containers.map(c, c.name).indexOf("b") == 1`, `[1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(2) == -1`,
		`timestamp("2024-01-02T03:04:05Z").getFullYear() == 2024`,
		`quantity("500m").isLessThan(quantity("1")) && quantity("2Gi").isGreaterThan(quantity("2G"))`,
		`quantity("1Ki").asInteger() == 1024 && quantity("1Ki").isInteger() && !quantity("1500m").isInteger()`,
		`quantity("1500m").asApproximateFloat() == 1.5 && quantity("-1").sign() == -1`,
		`quantity("1k") == quantity("1000") && quantity("1") != quantity("2") && quantity("1").compareTo(quantity("2")) == -1`,
		`quantity("1").add(quantity("500m")) == quantity("1500m") && quantity("1").sub(2) == quantity("-1") && quantity("1").add(1) == quantity("2")`,
		`isQuantity("1e3") && !isQuantity("1e999") && !isQuantity("one") && !isQuantity("")`,
		`object.spec.template.spec.containers.all(c, quantity(c.?resources.?limits.?cpu.orValue("1")).sign() == 1)`,
		`ip("10.0.0.1").family() == 4 && ip("::1").family() == 6 && ip("::1").isLoopback() && string(ip("10.0.0.1")) == "10.0.0.1"`,
		`isIP("10.0.0.1") && !isIP("10.0.0.256") && !isIP("::ffff:1.2.3.4") && !isIP("fe80::1%eth0")`,
		`ip.isCanonical("::1") && !ip.isCanonical("0:0::1") && ip("0.0.0.0").isUnspecified() && ip("8.8.8.8").isGlobalUnicast()`,
		`ip("169.254.1.1").isLinkLocalUnicast() && ip("224.0.0.1").isLinkLocalMulticast() && ip("0:0::1") == ip("::1")`,
		`cidr("10.0.0.0/8").containsIP("10.1.2.3") && !cidr("10.0.0.0/8").containsIP(ip("11.1.2.3"))`,
		`cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && !cidr("10.1.0.0/16").containsCIDR(cidr("10.0.0.0/8"))`,
		`cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8") && cidr("10.1.2.3/8").ip() == ip("10.1.2.3") && cidr("10.0.0.0/8").prefixLength() == 8`,
		`isCIDR("::/0") && !isCIDR("10.0.0.0") && !isCIDR("10.0.0.0/33") && string(cidr("::/0")) == "::/0"`,
		`url("https://a.b:80/c%20d?e=f&e=g").getHost() == "a.b:80" && url("https://a.b:80").getHostname() == "a.b" && url("/a").getScheme() == ""`,
		`url("https://a.b:80/c%20d?e=f&e=g").getEscapedPath() == "/c%20d" && url("https://a:80").getPort() == "80"`,
		`url("https://a/?e=f&e=g").getQuery() == {"e": ["f", "g"]} && url("https://a/?e=f").getQuery()["e"][0] == "f"`,
		`isURL("https://a") && isURL("/a") && !isURL("a") && !isURL("") && url("https://a") == url("https://a")`,
		`!format.dns1123Label().validate("web").hasValue() && format.dns1123Label().validate("Web").value().size() == 1`,
		`format.named("uuid").value().validate("x") == optional.of(["does not match the UUID format"]) && !format.named("nothing").hasValue()`,
		`!format.dns1123LabelPrefix().validate("web-").hasValue() && !format.date().validate("2026-11-20").hasValue()`,
		`!format.datetime().validate("2026-11-20T10:00:00Z").hasValue() && format.datetime().validate("today").hasValue()`,
		`!format.byte().validate("YQ==").hasValue() && !format.uri().validate("https://a").hasValue() && !format.labelValue().validate("").hasValue()`,
		`!format.uuid().validate("123e4567-e89b-12d3-a456-426614174000").hasValue() && !format.qualifiedName().validate("a/b").hasValue()`,
		`sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects(["a"], ["b"])`,
		`sets.contains(object.spec.template.spec.containers.map(c, c.name), ["a"])`,
		`math.greatest(object.spec.parallelism, 1) == 2 && math.least([1, 2.5]) == 1 && math.ceil(1.2) == 2.0 && math.abs(-3) == 3`,
		`math.bitAnd(6, 3) == 2 && math.isNaN(0.0 / 0.0) && math.sqrt(4) == 2.0`,
		`semver("1.2.3").isLessThan(semver("1.10.0")) && semver("1.2.3").major() == 1 && !isSemver("v1") && isSemver("v1.2", true)`,
		`object.spec.template.spec.containers.map(c, c.name).includes("a") && !object.kind.includes("Pod")`,
		`sign(quantity("-1")) == -1`,
		`object == object`, `!(object.status == object.spec)`, `"a" in object.spec.template.spec.containers.map(c, c.name)`,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			got := evaluate(t.Context(), rules.CompileConditionRules([]workv1.ConditionRule{celRule("Fine", expression)}), build.ParseObject(t, activeJob))
			if len(got) != 1 || got[0].Status != metav1.ConditionTrue {
				t.Errorf("want it to be true, got %+v", outcomes(got))
			}
		})
	}
}

func TestMessagesComeFromTheRule(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason              string
		message, expression string
		want                string
	}{
		"a message": {reason: "it is taken as it is", message: "All is well.", want: "All is well."},
		"both": {
			reason: "the expression goes first", message: "All is well.",
			expression: `result ? object.kind + " is fine" : "not"`, want: "Job is fine",
		},
		"an expression that gives nothing": {reason: "the message is the next", message: "All is well.", expression: `""`, want: "All is well."},
		"an expression that is not valid": {
			reason: "the user has to see it", message: "All is well.", expression: `bad`,
			want: "The rule's messageExpression is not valid: line 1, column 1: undeclared reference to 'bad' (in container '')",
		},
		"an expression that fails": {
			reason: "the user has to see it", expression: `object.missing`,
			want: "The rule's messageExpression failed: the object has no field missing; test for it with has().",
		},
		"an expression that gives a number": {
			reason: "the user has to see it", expression: `object.status.active`,
			want: "The rule's messageExpression returns type int, not a string.",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := celRule("Fine", "true")
			r.Message, r.MessageExpression = c.message, c.expression
			got := evaluate(t.Context(), rules.CompileConditionRules([]workv1.ConditionRule{r}), build.ParseObject(t, activeJob))
			want := []outcome{{"Fine", "True", workv1.ManifestReasonConditionRuleEvaluated, c.want}}
			if diff := cmp.Diff(want, outcomes(got)); diff != "" {
				t.Errorf("%s: %s", c.reason, diff)
			}
		})
	}
}

func TestBrokenRulesSaySo(t *testing.T) {
	t.Parallel()
	const invalid = workv1.ManifestReasonConditionRuleInvalid
	cases := map[string]struct {
		reason   string
		rules    []workv1.ConditionRule
		want     []outcome
		problems []string
	}{
		"no expressions": {
			reason: "nothing would always be true", rules: []workv1.ConditionRule{celRule("Fine")},
			want: []outcome{{"Fine", "Unknown", invalid, "The rule has type CEL and no celExpressions."}},
		},
		"an unknown type": {
			reason: "a later version may know it", rules: []workv1.ConditionRule{{Condition: "Fine", Type: "Guess"}},
			want: []outcome{{"Fine", "Unknown", invalid, `The rule has an unknown type "Guess"; use CEL or WellKnownConditions.`}},
		},
		"a long expression": {
			reason: "the limit is told", rules: []workv1.ConditionRule{celRule("Fine", "true", "true"+strings.Repeat(" ", expression.BytesMax))},
			want: []outcome{{"Fine", "Unknown", invalid, "celExpressions[1] has 10244 bytes; the limit is 10240."}},
		},
		"a type that no condition can have": {
			reason: "the API server would refuse the whole status", rules: []workv1.ConditionRule{celRule("not good", "true"), celRule("Fine", "true")},
			want:     []outcome{{"Fine", "True", workv1.ManifestReasonConditionRuleEvaluated, "The object is Fine: the rule's expressions are all true."}},
			problems: []string{`condition rule 0: "not good" cannot be the type of a condition; use a word in CamelCase`},
		},
		"a condition of the agent": {
			reason: "nobody else writes it", rules: []workv1.ConditionRule{celRule("Applied", "true")},
			problems: []string{`condition rule 0: condition "Applied" is reserved by the agent; choose another name`},
		},
		"the same condition twice": {
			reason: "a condition has one author", rules: []workv1.ConditionRule{celRule("Fine", "true"), celRule("Fine", "false")},
			want:     []outcome{{"Fine", "True", workv1.ManifestReasonConditionRuleEvaluated, "The object is Fine: the rule's expressions are all true."}},
			problems: []string{`condition rule 1: there is another rule for condition "Fine"; the first one applies`},
		},
		"an error of Progressing": {
			reason: "False would mean that the object has arrived", rules: []workv1.ConditionRule{celRule("Progressing", "object.x")},
			want: []outcome{{
				"Progressing", "Unknown", workv1.ManifestReasonConditionRuleExpressionError,
				"celExpressions[0]: the object has no field x; test for it with has().",
			}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := rules.CompileConditionRules(c.rules)
			if diff := cmp.Diff(c.want, outcomes(evaluate(t.Context(), set, build.ParseObject(t, activeJob)))); diff != "" {
				t.Errorf("%s: %s", c.reason, diff)
			}
			if diff := cmp.Diff(c.problems, set.RuleProblems()); diff != "" {
				t.Errorf("%s: problems: %s", c.reason, diff)
			}
		})
	}
}

func TestACancelledContextEndsTheEvaluation(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := evaluate(ctx, rules.CompileConditionRules([]workv1.ConditionRule{celRule("Fine", "true")}), build.ParseObject(t, activeJob))
	want := []outcome{{
		"Fine", "Unknown", workv1.ManifestReasonConditionRuleInternalError,
		"celExpressions[0]: the evaluation was interrupted: context canceled.",
	}}
	if diff := cmp.Diff(want, outcomes(got)); diff != "" {
		t.Error(diff)
	}
}
