// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/replace"
)

// TestWorksAreNamedInAConflict has names of works and managers that are like each other, as a member can choose them.
func TestWorksAreNamedInAConflict(t *testing.T) {
	const advice = " Works do not overwrite each other: keep the fields in one of them only."
	d := &disagreement{works: map[string]string{"m1": `ManifestWork "a(m2)"`, "m2": `ManifestWork "b(m1)"`}}
	for range 20 { // the order of a map is another each time
		if got, want := d.explainMessage(".a (m1), .b (m2), .c (m3)."), `.a (ManifestWork "a(m2)"), .b (ManifestWork "b(m1)"), .c (m3).`+advice; got != want {
			t.Fatalf("the message is %q, want %q", got, want)
		}
	}
	d.works = map[string]string{
		"m1": strings.Repeat("(m2)", 250), "m2": strings.Repeat("x", 1000), "": strings.Repeat("y", 1000), strings.Repeat("m", 1<<20): "",
	}
	if got := d.explainMessage(strings.Repeat("(m1)()", apply.MessageBytesMax/6)); len(got) > apply.MessageBytesMax+len(advice) || !strings.HasSuffix(got, advice) {
		t.Errorf("the message has %d bytes: %.100q", len(got), got)
	}
}

// TestFieldsOfOtherWorksAreFoundOnce has an object with many owners that each of many managers applied it for, and ten fields
// of each that the draft changes.
func TestFieldsOfOtherWorksAreFoundOnce(t *testing.T) {
	const many = 40
	live, manifest := map[string]any{}, map[string]any{}
	var fields, owners []string
	others := map[types.UID]string{}
	for i := range 10 {
		name := fmt.Sprintf("a%d", i)
		live[name], manifest[name] = "theirs", "ours"
		fields = append(fields, fmt.Sprintf(`"f:%s":{}`, name))
	}
	for i := range many {
		uid := fmt.Sprintf("uid-%02d", i)
		owners = append(owners, fmt.Sprintf(`"k:{\"uid\":\"%s\"}":{}`, uid))
		others[types.UID(uid)] = "record-of-" + uid
	}
	raw := `{"f:data":{` + strings.Join(fields, ",") + `},"f:metadata":{"f:ownerReferences":{` + strings.Join(owners, ",") + `}}}`
	entry := func(name, raw string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: name, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(raw)}
	}
	// A manager that has the UID of an owner as the name of a field did not apply the object for it.
	managers := []metav1.ManagedFieldsEntry{entry("alike", `{"f:data":{"f:a0":{},"f:uid-00":{}}}`)}
	for i := range many {
		managers = append(managers, entry(fmt.Sprintf("m%02d", i), raw))
	}
	asked := 0
	ours := func(*metav1.ManagedFieldsEntry) bool { asked++; return false }
	object := func(data map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": data}
	}
	draft, err := replace.NewDraft(object(live), object(manifest), replace.FieldOwners{Managers: managers, Ours: ours}, nil)
	if err != nil {
		t.Fatal(err)
	}
	asked = 0
	records, causes, err := overruledFields(t.Context(), draft, managers, others, ours)
	if err != nil || len(causes) != overruledMax || asked != 2 { // which have 20 fields
		t.Errorf("%d causes are found, error %v; %d entries are looked at", len(causes), err, asked)
	}
	if len(records) != 2 || records["m00"] != "record-of-uid-00" || records["m01"] != "record-of-uid-00" {
		t.Errorf("the records are %v", records)
	}
}
