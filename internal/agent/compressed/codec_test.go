// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package compressed

import (
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func codecOf(t testing.TB) *objectCodec {
	t.Helper()
	p, err := newObjectCodec()
	expect.NoError(t, err)
	return p
}

// fill gives each field of a value a content of its own.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(int64(*n), 0))))
		return
	case runtime.RawExtension:
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: fmt.Appendf(nil, `{"b" : "<%d>", "a":1}`, *n)}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text-", *n))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, n)
		fill(t, value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	default:
		t.Fatalf("this test does not know how to fill a %s", v.Type())
	}
}

func TestEveryFieldIsThereAgain(t *testing.T) {
	p, other := codecOf(t), codecOf(t)
	n := 0
	work, record := &workv1.ManifestWork{}, &workv1.AppliedManifestWork{}
	work.Name, record.Name = "a", "b"
	fill(t, reflect.ValueOf(&work.Spec).Elem(), &n)
	fill(t, reflect.ValueOf(&work.Status).Elem(), &n)
	fill(t, reflect.ValueOf(&record.Spec).Elem(), &n)
	fill(t, reflect.ValueOf(&record.Status).Elem(), &n)

	packedWork, packedRecord := work.DeepCopy(), record.DeepCopy()
	for range 2 { // the second does nothing
		expect.NoError(t, p.compressWork(packedWork))
		expect.NoError(t, p.compressRecord(packedRecord))
	}
	if len(packedWork.Spec.Workload.Manifests)+len(packedWork.Status.Conditions)+len(packedRecord.Status.AppliedResources) != 0 {
		t.Error("what is packed is there beside, too")
	}
	openWork, err := other.decompressWork(packedWork)
	if diff := cmp.Diff(work, openWork); err != nil || diff != "" {
		t.Errorf("%v, -before +after:\n%s", err, diff)
	}
	openRecord, err := other.decompressRecord(packedRecord)
	if diff := cmp.Diff(record, openRecord); err != nil || diff != "" {
		t.Errorf("%v, -before +after:\n%s", err, diff)
	}
}

func TestEmptyObjectsAndOpenOnesStayWhatTheyAre(t *testing.T) {
	p := codecOf(t)
	work, record := &workv1.ManifestWork{}, &workv1.AppliedManifestWork{}
	if same, err := p.decompressWork(work); same != work || err != nil {
		t.Errorf("an open work became %v, %v", same, err)
	}
	if same, err := p.decompressRecord(record); same != record || err != nil {
		t.Errorf("an open record became %v, %v", same, err)
	}
	expect.NoError(t, p.compressWork(work))
	expect.NoError(t, p.compressRecord(record))
	if again, err := p.decompressWork(work); err != nil || !cmp.Equal(again, &workv1.ManifestWork{}) {
		t.Errorf("an empty work became %v, %v", again, err)
	}
	if again, err := p.decompressRecord(record); err != nil || !cmp.Equal(again, &workv1.AppliedManifestWork{}) {
		t.Errorf("an empty record became %v, %v", again, err)
	}
}

func TestWhatWasNotPackedHereIsAnError(t *testing.T) {
	p := codecOf(t)
	for name, text := range map[string]string{"a link": contentMark + "/apis/v1/works/a", "nothing of ours": contentMark + "\x00\x01\x02", "cut off": cut(t, p)} {
		work, record := &workv1.ManifestWork{}, &workv1.AppliedManifestWork{}
		work.SetSelfLink(text)
		record.SetSelfLink(text)
		if _, err := p.decompressWork(work); err == nil {
			t.Errorf("%s was opened as a work", name)
		}
		if _, err := p.decompressRecord(record); err == nil {
			t.Errorf("%s was opened as a record", name)
		}
	}
}

func cut(t *testing.T, p *objectCodec) string {
	t.Helper()
	work := workOf(3)
	expect.NoError(t, p.compressWork(work))
	text := work.GetSelfLink()
	return text[:len(text)/2]
}

func TestManyPackAtTheSameTime(t *testing.T) {
	p := codecOf(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 5 {
				work := workOf(i)
				if err := p.compressWork(work); err != nil {
					t.Error(err)
				}
				if got, err := p.decompressWork(work); err != nil || !cmp.Equal(got, workOf(i)) {
					t.Errorf("a work with %d manifests is another one now: %v", i, err)
				}
			}
		})
	}
	all.Wait()
}

// manifestBytesMax is how many bytes a manifest of 1 KiB, whose half cannot be
// compressed, and its status may take.
const manifestBytesMax = 700

func TestAPackedWorkIsSmall(t *testing.T) {
	p := codecOf(t)
	for _, manifests := range []int{1, 100} {
		work := workOf(manifests)
		expect.NoError(t, p.compressWork(work))
		if size := len(work.GetSelfLink()) / manifests; size > manifestBytesMax {
			t.Errorf("%d bytes for each of %d manifests", size, manifests)
		}
	}
}

// workOf returns a work with ConfigMaps of 1 KiB, all of which are applied.
func workOf(manifests int) *workv1.ManifestWork {
	work := &workv1.ManifestWork{}
	now := metav1.NewTime(time.Unix(1700000000, 0))
	work.Name, work.Namespace, work.UID, work.ResourceVersion = "n", "c", "uid", "17"
	for i := range manifests {
		payload := ""
		for j := range 16 {
			sum := sha256.Sum256(fmt.Append(nil, i, "/", j))
			payload += hex.EncodeToString(sum[:])
		}
		name := fmt.Sprint("c-", i)
		raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"},"data":{"v":%q}}`, name, payload)
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}})
		m := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Ordinal: int32(i), Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "default", Name: name}}
		m.Conditions = []metav1.Condition{
			usualCondition(workv1.ManifestConditionApplied, workv1.ManifestReasonAppliedManifestComplete, "The object matches the manifest."),
			usualCondition(workv1.ManifestConditionAvailable, workv1.ManifestReasonResourceAvailable, "The object exists on the cluster."),
		}
		for j := range m.Conditions {
			m.Conditions[j].LastTransitionTime = now
		}
		work.Status.ResourceStatus.Manifests = append(work.Status.ResourceStatus.Manifests, m)
	}
	return work
}

func BenchmarkWork(b *testing.B) {
	p := codecOf(b)
	for _, manifests := range []int{1, 100} {
		work := workOf(manifests)
		packed := work.DeepCopy()
		expect.NoError(b, p.compressWork(packed))
		b.Run(fmt.Sprintf("pack/%d", manifests), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				copied := *work
				expect.NoError(b, p.compressWork(&copied))
			}
			b.ReportMetric(float64(len(packed.GetSelfLink()))/float64(manifests), "B/manifest")
		})
		b.Run(fmt.Sprintf("open/%d", manifests), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.decompressWork(packed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestABombIsNotOpened: what a cache has comes from a hub, which may lie.
func TestABombIsNotOpened(t *testing.T) {
	p := codecOf(t)
	var bomb strings.Builder
	writer, err := flate.NewWriterDict(&bomb, level, p.dictionary)
	expect.NoError(t, err)
	zeros := make([]byte, 1<<20)
	for range 2 * contentMax / len(zeros) {
		if _, err := writer.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	expect.NoError(t, writer.Close())
	work := &workv1.ManifestWork{}
	work.SetSelfLink(contentMark + bomb.String())
	if _, err := p.decompressWork(work); !errors.Is(err, errTooLarge) {
		t.Errorf("a bomb of %d bytes: got error %v, want %v", bomb.Len(), err, errTooLarge)
	}
}

func TestWhatIsTooLargeStaysOpen(t *testing.T) {
	work := &workv1.ManifestWork{}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: make([]byte, contentMax+1)}}}
	if err := codecOf(t).compressWork(work); err != nil || work.GetSelfLink() != "" || len(work.Spec.Workload.Manifests) != 1 {
		t.Errorf("got error %v and %d manifests, want the work as it was", err, len(work.Spec.Workload.Manifests))
	}
}
