// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"encoding/json"
	"fmt"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

const (
	workJSON = `{"metadata":{"name":"a","namespace":"n","labels":{"app":"web"},"finalizers":["f"],"managedFields":[{"manager":"m"}]},
		"spec":{"workload":{"manifests":[{"kind":"ConfigMap"}]}},
		"status":{"conditions":[{"type":"Applied","status":"True","reason":"Good","message":"All is well.","lastTransitionTime":"2026-01-01T00:00:00Z"}],
		"resourceStatus":{"manifests":[{"resourceMeta":{"ordinal":0,"kind":"ConfigMap","name":"c"},
		"conditions":[{"type":"Applied","status":"True","reason":"Good","message":"It is well.","lastTransitionTime":"2026-01-01T00:00:00Z"}]}]}}}`
	recordJSON = `{"metadata":{"name":"hash-work","annotations":{"types":"/v1/configmaps"}},"spec":{"hubHash":"hash","agentID":"agent","manifestWorkName":"work"},
		"status":{"appliedResources":[{"group":"","resource":"configmaps","name":"c","namespace":"n","version":"v1","uid":"u"}]}}`
)

func decoded[T any](t testing.TB, text string) *T {
	t.Helper()
	object := new(T)
	if err := json.Unmarshal([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestCompactObjectsSayTheSame(t *testing.T) {
	c := newCompactor()
	want := decoded[workv1.ManifestWork](t, workJSON)
	want.ManagedFields = nil
	got, err := c.work(decoded[workv1.ManifestWork](t, workJSON))
	if diff := cmp.Diff(any(want), got); err != nil || diff != "" {
		t.Errorf("work: %v, -want +got:\n%s", err, diff)
	}
	got, err = c.record(decoded[workv1.AppliedManifestWork](t, recordJSON))
	if diff := cmp.Diff(any(decoded[workv1.AppliedManifestWork](t, recordJSON)), got); err != nil || diff != "" {
		t.Errorf("record: %v, -want +got:\n%s", err, diff)
	}
	if got, err := c.work("something else"); got != "something else" || err != nil {
		t.Errorf("something else became %v, %v", got, err)
	}
}

func TestCompactObjectsShareTheirTexts(t *testing.T) {
	c := newCompactor()
	reasons := map[*byte]bool{}
	for range 3 {
		work := decoded[workv1.ManifestWork](t, workJSON)
		if _, err := c.work(work); err != nil {
			t.Fatal(err)
		}
		reasons[unsafe.StringData(work.Status.Conditions[0].Reason)] = true
		reasons[unsafe.StringData(work.Status.ResourceStatus.Manifests[0].Conditions[0].Reason)] = true
	}
	if len(reasons) != 1 {
		t.Errorf("the same text is there %d times", len(reasons))
	}
}

func TestTheCompactorForgets(t *testing.T) {
	c := newCompactor()
	for i := range 3 * textsMax {
		text := fmt.Sprint(i)
		if c.share(&text); text != fmt.Sprint(i) {
			t.Fatalf("%d became %q", i, text)
		}
	}
	if len(c.texts) > textsMax {
		t.Errorf("it remembers %d texts", len(c.texts))
	}
}
