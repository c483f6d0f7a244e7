// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// FuzzExpressions looks for expressions and objects that make an evaluation
// fail in another way than by its condition.
func FuzzExpressions(f *testing.F) {
	seeds := []string{
		"object.status.active == 1", "hasConditions(object.status)", "object.a.map(x, x.b).exists(y, y)",
		`"a".matches("(a+)+$")`, "object.?a[?0].orValue(1) == 1", "[1, 2, 3].all(x, x in object.a)", `object.a.replace("", "xx") != ""`,
		`"%s".format([object]) == ""`, `object.a.lastIndexOf("é", 3) > -1`, "true ? object : 1", `{"a": object}["a"] == object`,
		`timestamp(object.a).getHours("UTC") == 1`, "object.a[-1]", `b"a" + bytes(object.a) == b""`,
		"quantity(object.a).add(1).isLessThan(quantity('1e3'))", "cidr(object.a).containsIP(ip(object.a))", "url(object.a).getQuery()['a'] == []",
		"format.named(object.a).value().validate(object.a).hasValue()", "string(ip(object.a)) == string(cidr('::/0'))", "isQuantity(object.a) || isURL(object.a)",
	}
	for _, s := range seeds {
		f.Add(s, `{"a": [1, "é", {"b": true}], "status": {"active": 1, "conditions": [{}]}}`)
		f.Add(s, `{"a": "text", "status": []}`)
	}
	f.Fuzz(func(t *testing.T, expression, content string) {
		u := &unstructured.Unstructured{}
		expect.NoError(t, u.UnmarshalJSON([]byte(`{"apiVersion": "v1", "kind": "Thing"}`)))
		o := &unstructured.Unstructured{}
		if o.UnmarshalJSON([]byte(content)) == nil || o.Object != nil {
			u = o
		}
		r := celRule("Fine", expression)
		r.MessageExpression = expression
		for _, c := range evaluate(t.Context(), rules.CompileConditionRules([]workv1.ConditionRule{r, wellKnown("Progressing")}), u) {
			if c.Type == "" || c.Status == "" || c.Reason == "" || len(c.Message) > rules.MessageBytesMax {
				t.Errorf("not a condition: %+v", c)
			}
			if c.Reason == workv1.ManifestReasonConditionRuleInternalError {
				t.Errorf("the user can do nothing about it: %s", c.Message)
			}
		}
	})
}
