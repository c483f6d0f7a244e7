// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package compressed

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
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
	expect.NoError(t, json.Unmarshal([]byte(text), object))
	return object
}

func shrinkerOf(t testing.TB) *shrinker {
	t.Helper()
	c, err := newShrinker()
	expect.NoError(t, err)
	return c
}

func TestCompactObjectsSayTheSame(t *testing.T) {
	c := shrinkerOf(t)
	work, record := decoded[workv1.ManifestWork](t, workJSON), decoded[workv1.AppliedManifestWork](t, recordJSON)
	for range 2 { // caches may show an object again to their transform
		if _, err := c.slimWork(work); err != nil {
			t.Fatal(err)
		}
		if _, err := c.slimRecord(record); err != nil {
			t.Fatal(err)
		}
	}
	wantWork := decoded[workv1.ManifestWork](t, workJSON)
	wantWork.ManagedFields = nil
	gotWork, err := c.codec.decompressWork(work)
	if diff := cmp.Diff(wantWork, gotWork); err != nil || diff != "" {
		t.Errorf("work: %v, -want +got:\n%s", err, diff)
	}
	gotRecord, err := c.codec.decompressRecord(record)
	if diff := cmp.Diff(decoded[workv1.AppliedManifestWork](t, recordJSON), gotRecord); err != nil || diff != "" {
		t.Errorf("record: %v, -want +got:\n%s", err, diff)
	}
	if got, err := c.slimWork("something else"); got != "something else" || err != nil {
		t.Errorf("something else became %v, %v", got, err)
	}
}

func TestCompactObjectsShareWhatAllHave(t *testing.T) {
	c := shrinkerOf(t)
	finalizers, labels := map[*byte]bool{}, map[uintptr]bool{}
	for range 3 {
		work := decoded[workv1.ManifestWork](t, workJSON)
		if _, err := c.slimWork(work); err != nil {
			t.Fatal(err)
		}
		finalizers[unsafe.StringData(work.Finalizers[0])] = true
		labels[reflect.ValueOf(work.Labels).Pointer()] = true
	}
	if len(finalizers) != 1 || len(labels) != 1 {
		t.Errorf("the same finalizer is there %d times, the same labels %d times", len(finalizers), len(labels))
	}
}

func TestTheShrinkerForgets(t *testing.T) {
	c := shrinkerOf(t)
	for i := range 3 * textsMax {
		text := fmt.Sprint(i)
		labels := c.internMap(map[string]string{"number": text})
		if c.internTexts(&text); text != fmt.Sprint(i) || labels["number"] != text {
			t.Fatalf("%d became %q, with %v", i, text, labels)
		}
	}
	if len(c.texts) > textsMax || len(c.maps) > mapsMax {
		t.Errorf("it remembers %d texts and %d maps", len(c.texts), len(c.maps))
	}
}

// TestWhatAServerPutsInOurPlaceIsDropped: a server that fills the field of the compressed
// content would have each pass decompress it, to millions of values.
func TestWhatAServerPutsInOurPlaceIsDropped(t *testing.T) {
	c := shrinkerOf(t)
	for name, link := range map[string]string{
		"a link": "/apis/a", "our mark": contentMark + "a", "our mark, escaped": `\u00ffa`, "half a pair": `\udcffa`, "an empty block of flate": `\u0001\u0000`,
	} {
		t.Run(name, func(t *testing.T) {
			filled := `{"metadata":{"selfLink":"` + link + `",` + strings.TrimPrefix(recordJSON, `{"metadata":{`)
			record := decoded[workv1.AppliedManifestWork](t, filled)
			work := decoded[workv1.ManifestWork](t, `{"metadata":{"selfLink":"`+link+`",`+strings.TrimPrefix(workJSON, `{"metadata":{`))
			if record.GetSelfLink() == "" || work.GetSelfLink() == "" {
				t.Fatal("the server's text did not arrive")
			}
			if _, err := c.slimRecord(record); err != nil {
				t.Fatal(err)
			}
			if _, err := c.slimWork(work); err != nil {
				t.Fatal(err)
			}
			gotRecord, err := c.codec.decompressRecord(record)
			if diff := cmp.Diff(decoded[workv1.AppliedManifestWork](t, recordJSON), gotRecord); err != nil || diff != "" {
				t.Errorf("record: %v, -want +got:\n%s", err, diff)
			}
			wantWork := decoded[workv1.ManifestWork](t, workJSON)
			wantWork.ManagedFields = nil
			gotWork, err := c.codec.decompressWork(work)
			if diff := cmp.Diff(wantWork, gotWork); err != nil || diff != "" {
				t.Errorf("work: %v, -want +got:\n%s", err, diff)
			}
		})
	}
}

// TestARecordHasNoMoreThanAServerStores: what a server answers beyond that is not kept, and
// what it may store is, whoever wrote it.
func TestARecordHasNoMoreThanAServerStores(t *testing.T) {
	c := shrinkerOf(t)
	entry := workv1.AppliedManifestResourceMeta{Version: "v1"}
	entry.Resource, entry.Name = "configmaps", strings.Repeat("n", 1000)
	for name, test := range map[string]struct {
		annotation, entries             int
		wantAnnotations, wantEntriesMax int
	}{
		"stored":               {annotation: annotationBytesMax - len("types"), entries: 2900, wantAnnotations: 1, wantEntriesMax: 2900},
		"too many annotations": {annotation: annotationBytesMax, entries: 1, wantEntriesMax: 1},
		"too long a list":      {annotation: 1, entries: 8000, wantAnnotations: 1, wantEntriesMax: listedBytesMax / 1000},
	} {
		t.Run(name, func(t *testing.T) {
			record := &workv1.AppliedManifestWork{}
			record.Annotations = map[string]string{"types": strings.Repeat("t", test.annotation)}
			record.Status.AppliedResources = slices.Repeat([]workv1.AppliedManifestResourceMeta{entry}, test.entries)
			if _, err := c.slimRecord(record); err != nil {
				t.Fatal(err)
			}
			got, err := c.codec.decompressRecord(record)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Annotations) != test.wantAnnotations {
				t.Errorf("%d annotations are kept, want %d", len(got.Annotations), test.wantAnnotations)
			}
			listed := len(got.Status.AppliedResources)
			if listed > test.wantEntriesMax || listed < min(test.entries, test.wantEntriesMax*9/10) {
				t.Errorf("%d entries of %d are kept, want about %d", listed, test.entries, test.wantEntriesMax)
			}
		})
	}
}

// TestARecordKeepsFewMarks: a server tells as many labels and annotations of a record as it likes,
// which the agent of all members kept at five times their bytes.
func TestARecordKeepsFewMarks(t *testing.T) {
	c := shrinkerOf(t)
	read := map[string]string{workv1.AnnotationResourceTypes: "v1/configmaps", workv1.AnnotationClaimedBy: "a"}
	for others, want := range map[int]int{annotationsMax - len(read): annotationsMax, 10_000: len(read)} {
		record := decoded[workv1.AppliedManifestWork](t, recordJSON)
		record.GenerateName, record.OwnerReferences = "a-", make([]metav1.OwnerReference, 3)
		record.Annotations, record.Labels = maps.Clone(read), map[string]string{}
		for i := range others {
			record.Annotations[fmt.Sprint(i)], record.Labels[fmt.Sprint(i)] = "", ""
		}
		if _, err := c.slimRecord(record); err != nil {
			t.Fatal(err)
		}
		if len(record.Labels) > 0 || record.GenerateName != "" || len(record.OwnerReferences) > 0 || len(record.Annotations) != want {
			t.Errorf("of %d others it keeps %d labels, %d annotations (want %d), %d owners and the generateName %q",
				others, len(record.Labels), len(record.Annotations), want, len(record.OwnerReferences), record.GenerateName)
		}
		for key, value := range read {
			if record.Annotations[key] != value {
				t.Errorf("of %d others the annotation %s became %q", others, key, record.Annotations[key])
			}
		}
	}
}
