// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

// TestWhole has servers refuse fields, some as a whole.
func TestWhole(t *testing.T) {
	t.Parallel()
	draft := draftOf(t, `{"spec":{"a":1},"data":{"k":"v"},"type":"x","status":{"s":1},"list":[1]}`, `{"spec":{"a":2}}`, `{}`, `{}`)
	for field, want := range map[string][]string{
		"spec": {"spec"}, "data": {"data"}, "<nil>": {"spec"}, "spec.a": nil, "type": nil, "status": nil, "list": nil, "metadata": nil, "": nil, "nowhere": nil,
	} {
		causes := []metav1.StatusCause{{Field: field}, {Field: field}}
		if got := draft.WholeFields(causes); !slices.Equal(got, want) {
			t.Errorf("%q names %q as a whole, want %q", field, got, want)
		}
	}
}

// TestParts keeps one part and drops another one, where the refusal names what is around them.
func TestParts(t *testing.T) {
	t.Parallel()
	draft := draftOf(t, `{"spec":{"ours":1,"fixed":2,"default":3,"theirs":{"x":4},"same":5,"retained":6}}`, `{"spec":{"ours":9,"same":5,"new":7}}`,
		`{"f:spec":{"f:ours":{},"f:fixed":{},"f:same":{},"f:gone":{}}}`, `{"f:spec":{"f:theirs":{"f:x":{}},"f:retained":{},"f:same":{}}}`, ignore.Path{"spec", "retained"})
	if !draft.HandleRefusal([]metav1.StatusCause{{Field: "spec"}}) {
		t.Fatal("what nobody owns is not tried")
	}
	same(t, draft, `{"spec":{"ours":9,"default":3,"theirs":{"x":4},"same":5,"new":7,"retained":6}}`)
	if draft.HandleRefusal([]metav1.StatusCause{{Field: "spec"}}) {
		t.Error("all of a field is kept, or dropped, for what of it is refused")
	}
	if diff := cmp.Diff([]FieldPart{{"spec", "fixed"}, {"spec", "new"}, {"spec", "ours"}}, draft.ChangedParts("spec")); diff != "" {
		t.Errorf("what changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]FieldPart{{"spec", "theirs"}}, draft.ForeignParts("spec")); diff != "" {
		t.Errorf("what is there for others (-want +got):\n%s", diff)
	}
	patch, err := draft.RenderPartPatch(FieldPart{"spec", "fixed"})
	want := `[{"op":"add","path":"/metadata","value":{}},{"op":"add","path":"/spec","value":{"default":3,"ours":1,"retained":6,"same":5,"theirs":{"x":4}}}]`
	if err != nil || !slices.Contains([]string{want, `[` + want[len(`[{"op":"add","path":"/metadata","value":{}},`):]}, string(patch)) {
		t.Errorf("one change alone is %s, error %v", patch, err)
	}
	if draft.KeepPart(FieldPart{"spec", "ours"}) || draft.DropPart(FieldPart{"spec", "ours"}) {
		t.Error("what the manifest has is kept or dropped")
	}
	if !draft.KeepPart(FieldPart{"spec", "fixed"}) || !draft.DropPart(FieldPart{"spec", "theirs"}) {
		t.Error("what the manifest does not have is not kept or dropped")
	}
	same(t, draft, `{"spec":{"ours":9,"fixed":2,"default":3,"same":5,"new":7,"retained":6}}`)
	if diff := cmp.Diff("[.spec.fixed]", fmt.Sprint(draft.StuckFields())); diff != "" {
		t.Errorf("what is stuck (-want +got):\n%s", diff)
	}
}
