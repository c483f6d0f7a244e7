// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package customized

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret/lua"
)

func TestKindsTellWhatChanged(t *testing.T) {
	t.Parallel()
	a, b := schema.GroupVersionKind{Version: "v1", Kind: "A"}, schema.GroupVersionKind{Version: "v1", Kind: "B"}
	said := func(name string, kind schema.GroupVersionKind, verdict string) lua.Customization {
		return lua.Customization{Name: name, Kind: kind, Scripts: map[lua.Operation]string{
			lua.HealthInterpretation: "function InterpretHealth(o) return " + verdict + " end",
		}}
	}
	retained := said("a", a, "true")
	retained.Scripts[lua.Retention] = "function Retain(d, o) return d end"
	kinds := NewDynamicKinds(lua.NewMachine(time.Now))
	changes := func() [3]uint64 {
		return [3]uint64{kinds.ChangeRevision(a, lua.HealthInterpretation), kinds.ChangeRevision(a, lua.Retention), kinds.ChangeRevision(b, lua.HealthInterpretation, lua.Retention)}
	}
	for i, step := range []struct {
		reason string
		set    []lua.Customization
		kinds  int
		want   [3]uint64
		health string // what A is, "" if nobody says
	}{
		{"nobody says anything", nil, 0, [3]uint64{}, ""},
		{"one is new", []lua.Customization{said("a", a, "true")}, 1, [3]uint64{1, 0, 0}, "Healthy"},
		{"another kind is", []lua.Customization{said("b", b, "true"), said("a", a, "true")}, 1, [3]uint64{1, 0, 2}, "Healthy"},
		{"nothing changes", []lua.Customization{said("a", a, "true"), said("b", b, "true")}, 0, [3]uint64{1, 0, 2}, "Healthy"},
		{"a script is added", []lua.Customization{retained, said("b", b, "true")}, 1, [3]uint64{1, 3, 2}, "Healthy"},
		{"a script changes", []lua.Customization{said("a", a, "false"), said("b", b, "true")}, 1, [3]uint64{5, 4, 2}, "Unhealthy"},
		{"another says the same, and errors would name it", []lua.Customization{said("c", a, "false"), said("b", b, "true")}, 1, [3]uint64{6, 4, 2}, "Unhealthy"},
		{"one is gone", []lua.Customization{said("b", b, "true")}, 1, [3]uint64{7, 4, 2}, ""},
		{"and stays so", []lua.Customization{said("b", b, "true")}, 0, [3]uint64{7, 4, 2}, ""},
	} {
		changed := kinds.SetCustomizations(step.set)
		if len(changed) != step.kinds {
			t.Errorf("%d, %s: changed are %v", i, step.reason, changed)
		}
		if diff := cmp.Diff(step.want, changes()); diff != "" {
			t.Errorf("%d, %s: %s", i, step.reason, diff)
		}
		verdict := kinds.Operations(a).Custom.Verdict
		if (verdict != nil) != (step.health != "") {
			t.Errorf("%d, %s: somebody judges: %t", i, step.reason, verdict != nil)
		}
		if verdict != nil {
			if got, err := verdict(map[string]any{"kind": "A"}); got != step.health || err != nil {
				t.Errorf("%d, %s: got %s, %v", i, step.reason, got, err)
			}
		}
	}
}
