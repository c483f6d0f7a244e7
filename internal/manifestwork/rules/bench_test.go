// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
	"github.com/capstan-io/capstan/internal/testing/build"
)

func BenchmarkEvaluateOneCELRule(b *testing.B) {
	set := rules.CompileConditionRules([]workv1.ConditionRule{celRule("Fine",
		`hasConditions(object.status) && object.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`)})
	object := build.ParseObject(b, activeJob)
	b.ReportAllocs()
	for b.Loop() {
		if got := evaluate(b.Context(), set, object); len(got) != 1 || got[0].Status != "True" {
			b.Fatal(got)
		}
	}
}

func BenchmarkEvaluateOneWellKnownRule(b *testing.B) {
	set := rules.CompileConditionRules([]workv1.ConditionRule{wellKnown("Complete")})
	object := build.ParseObject(b, activeJob)
	b.ReportAllocs()
	for b.Loop() {
		if got := evaluate(b.Context(), set, object); len(got) != 1 {
			b.Fatal(got)
		}
	}
}

func BenchmarkCompileOneCELRule(b *testing.B) {
	list := []workv1.ConditionRule{celRule("Fine", `object.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`)}
	b.ReportAllocs()
	for b.Loop() {
		if rules.CompileConditionRules(list).IsEmpty() {
			b.Fatal("no rule")
		}
	}
}
