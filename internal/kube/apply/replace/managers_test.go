// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// texts returns managers with what they own.
func texts(managers []metav1.ManagedFieldsEntry) map[string]string {
	all := map[string]string{}
	for i := range managers {
		all[managers[i].Manager+" "+string(managers[i].Operation)+" "+managers[i].APIVersion+managers[i].Subresource] = managers[i].FieldsV1.GetRawString()
	}
	return all
}

func TestSettle(t *testing.T) {
	t.Parallel()
	managers := []metav1.ManagedFieldsEntry{
		entry("ours", applied, `{"f:a":{},"f:gone":{}}`), entry("theirs", updated, `{"f:d":{}}`),
		entry("ours", updated, `{"f:b":{},"f:default":{},"f:l":{"k:{\"name\":\"x\"}":{}}}`),
	}
	manifest := decode(t, `{"a":1,"b":2,"l":[{"name":"x","v":1},{"name":"x","v":2}]}`)
	got, changed, err := SettleManagers(managers, "ours", manifest)
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	want := map[string]string{"ours Apply v1": `{"f:a":{},"f:b":{},"f:l":{"k:{\"name\":\"x\"}":{}}}`, "theirs Update v1": `{"f:d":{}}`}
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("managers (-want +got):\n%s", diff)
	}
	if _, changed, err = SettleManagers(got, "ours", manifest); err != nil || changed {
		t.Errorf("settled again: %t, %v", changed, err)
	}
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	other := entry("kubectl", updated, `{"f:z":{}}`)
	other.APIVersion = "v2"
	status, scale := entry("kubectl", updated, `{"f:status":{"f:s":{}}}`), entry("kubectl", updated, `{"f:spec":{"f:replicas":{}}}`)
	status.Subresource, scale.Subresource = "status", "scale"
	managers := []metav1.ManagedFieldsEntry{
		entry("ours", applied, `{"f:a":{}}`), entry("kubectl", updated, `{"f:b":{},"f:left":{}}`), status, scale, entry("theirs", updated, `{"f:d":{}}`), other,
	}
	fromKubectl := func(entry *metav1.ManagedFieldsEntry, set *fieldpath.Set) *fieldpath.Set {
		if entry.Manager != "kubectl" {
			return fieldpath.NewSet()
		}
		return set.Difference(fieldpath.NewSet(fieldpath.MakePathOrDie("left")))
	}
	got, taken, err := TakeOver(managers, fromKubectl, "ours", "v1")
	expect.NoError(t, err)
	want := map[string]string{
		"ours Apply v1": `{"f:a":{},"f:b":{}}`, "theirs Update v1": `{"f:d":{}}`, "kubectl Update v1": `{"f:left":{}}`, "kubectl Update v2": `{"f:z":{}}`,
		"kubectl Update v1status": `{"f:status":{"f:s":{}}}`, "kubectl Update v1scale": `{"f:spec":{"f:replicas":{}}}`,
	}
	if diff := cmp.Diff(want, texts(got)); diff != "" || taken.String() != ".b" {
		t.Errorf("taken %q, managers (-want +got):\n%s", taken, diff)
	}
	if _, taken, err = TakeOver(got, fromKubectl, "ours", "v1"); err != nil || !taken.Empty() {
		t.Errorf("taken again: %v, %v", taken, err)
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	draft := draftOf(t, `{"spec":{"a":1,"b":2,"l":[{"name":"x","v":1},{"name":"y","v":2}],"c":{"d":3}}}`, `{"spec":{"a":1,"b":9,"l":[{"name":"x","v":7}]}}`,
		`{"f:spec":{"f:c":{"f:d":{}}}}`, `{}`)
	set := entry("work", applied, `{"f:spec":{"f:a":{},"f:b":{},"f:gone":{},"f:c":{"f:d":{}},"f:l":{"k:{\"name\":\"x\"}":{".":{},"f:v":{}},"k:{\"name\":\"y\"}":{".":{},"f:v":{}}}}}`)
	got, err := draft.OverriddenPaths(&set, 10)
	want := []string{".spec.b", ".spec.c", `.spec.l[name="x"].v`, `.spec.l[name="y"]`}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err = draft.OverriddenPaths(&set, 2); err != nil || len(got) != 2 {
		t.Errorf("at most two are %v, %v", got, err)
	}
}
