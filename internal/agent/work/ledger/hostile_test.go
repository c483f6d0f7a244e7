// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// TestManyTypesOfARecordAreLookedAtOnce takes minutes if each is compared with all others.
func TestManyTypesOfARecordAreLookedAtOnce(t *testing.T) {
	const listed, noted = 400_000, 40_000
	record := &workv1.AppliedManifestWork{}
	var types []string
	for i := range noted {
		types = append(types, fmt.Sprintf("/v1/t%d", i))
	}
	record.Annotations = map[string]string{workv1.AnnotationResourceTypes: strings.Join(append(types, "a/b/c/d", "e"), ",")}
	for i := range listed {
		record.Status.AppliedResources = append(record.Status.AppliedResources, metaOf(apply.ObjectRef{Resource: fmt.Sprint("t", i), Name: "n"}, "v2", ""))
	}
	got := TypesOf(record)
	if len(got) != listed {
		t.Errorf("the record has %d types, want %d", len(got), listed)
	}
	for _, resource := range got {
		if isNoted := resource.Version == "v1"; isNoted != (len(resource.Resource) <= len("t9999") || resource.Resource < "t40000" && len(resource.Resource) == len("t40000")) {
			t.Fatalf("type %s has another version than it was noted with, or listed if it was not", resource)
		}
	}
}

// TestLargeAnswersToWritesAreForgotten: a member answers each write with a large record,
// which its cache never tells of.
func TestLargeAnswersToWritesAreForgotten(t *testing.T) {
	l := &Ledger{}
	answered := func(bytes int) *RecordMemory {
		record := &AppliedRecord{ledger: l, memory: &RecordMemory{}}
		record.setObject(&workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{"a": strings.Repeat("a", bytes)}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		}})
		if record.Object() == nil || record.Object().ManagedFields != nil {
			t.Error("the record is not what was answered, without the managed fields")
		}
		return record.memory
	}
	remembered := func(memories []*RecordMemory) (n int) {
		for _, m := range memories {
			if m.written.Load() != nil {
				n++
			}
		}
		return n
	}
	var large, small []*RecordMemory
	for range 10 * largeRecordsMax {
		large = append(large, answered(largeRecordBytes))
		small = append(small, answered(1))
	}
	if got := remembered(large); got != largeRecordsMax {
		t.Errorf("%d large records are remembered, want %d", got, largeRecordsMax)
	}
	if got := remembered(large[len(large)-largeRecordsMax:]); got != largeRecordsMax {
		t.Errorf("%d of the latest are, want all %d", got, largeRecordsMax)
	}
	if got := remembered(small); got != len(small) {
		t.Errorf("%d small ones are, want all %d", got, len(small))
	}
}

func TestALongDeleteOptionIsNotRead(t *testing.T) {
	rules := strings.Repeat("{},", optionBytesMax/3) + "{}"
	record := &AppliedRecord{object: &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "r", Annotations: map[string]string{
		workv1.AnnotationDeleteOption: `{"propagationPolicy":"SelectivelyOrphan","selectivelyOrphans":{"orphaningRules":[` + rules + `]}}`,
	}}}}
	if option, err := record.DeleteOption(); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got an option: %t, and error %v", option != nil, err)
	}
}
