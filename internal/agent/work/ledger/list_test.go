// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

func jsonBytes(t testing.TB, value any) int {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

// TestListedSizesAreNotSmallerThanTheJSON goes with TestSizesAreNotSmallerThanTheJSON
// of package report, which has the texts of all kinds.
func TestListedSizesAreNotSmallerThanTheJSON(t *testing.T) {
	for reason, text := range map[string]string{
		"plain":         "abc",
		"quotes":        `{"a":"b\\"}` + "\n\t\r\b\f",
		"control":       "\x00\x01\x1f\x7f",
		"html":          "<a&b>",
		"other scripts": "日本語 \u2028\u2029 é",
		"broken":        "\xff\xfe" + "\xe3\x81",
	} {
		t.Run(reason, func(t *testing.T) {
			text := strings.Repeat(text, 50)
			listed := metaOf(apply.ObjectRef{Group: text, Resource: text, Namespace: text, Name: text}, "v1", anyUID)
			if got, want := listedSize(&listed), jsonBytes(t, listed)+1; got < want || got > want*5/4 {
				t.Errorf("the entry has %d bytes, counted as %d", want, got)
			}
		})
	}
}

func TestAListLeavesOutWhatIsFoundWithoutIt(t *testing.T) {
	var all []workv1.AppliedManifestResourceMeta
	for i := range 3000 {
		resource := "secrets"
		if i%3 == 0 {
			resource = "blinds"
		}
		all = append(all, metaOf(apply.ObjectRef{Resource: resource, Namespace: "shop", Name: fmt.Sprintf("object-%04d", i)}, "v1", anyUID))
	}
	needed := func(r *workv1.AppliedManifestResourceMeta) bool { return r.Resource == "blinds" }
	for reason, test := range map[string]struct {
		room       int
		left, lost bool
	}{
		"all fit":                           {room: 8 << 20},
		"all fit, as is found by counting":  {room: 1 << 20},
		"some are found without the list":   {room: 300 << 10, left: true},
		"what needs the list alone is more": {room: 100 << 10, left: true, lost: true},
	} {
		t.Run(reason, func(t *testing.T) {
			got := fitList(all, test.room, needed)
			if len(got.list)+got.left != len(all) || (got.left > 0) != test.left || (got.lost > 0) != test.lost {
				t.Errorf("%d listed, %d left out, lost %d", len(got.list), got.left, got.lost)
			}
			blinds := 0
			for i := range got.list {
				if needed(&got.list[i]) {
					blinds++
				}
			}
			if blinds != 1000 {
				t.Errorf("%d of 1000 objects are listed that are not found otherwise", blinds)
			}
			if size := jsonBytes(t, got.list); size > test.room && !test.lost {
				t.Errorf("the list has %d bytes, and there is room for %d", size, test.room)
			}
		})
	}
}

// TestAFewLongEntriesAreMeasured: a member that says that its objects have UIDs of a megabyte had
// the agent write a list of a gigabyte, as there were so few entries that none was measured.
func TestAFewLongEntriesAreMeasured(t *testing.T) {
	var all []workv1.AppliedManifestResourceMeta
	for i := range 10 {
		entry := metaOf(apply.ObjectRef{Resource: "configmaps", Namespace: "n", Name: fmt.Sprint(i)}, "v1", anyUID)
		entry.UID = strings.Repeat("u", 1<<20)
		all = append(all, entry)
	}
	got := fitList(all, listBytesMax, func(*workv1.AppliedManifestResourceMeta) bool { return false })
	if size := jsonBytes(t, got.list); size > listBytesMax || got.left != len(all) {
		t.Errorf("the list has %d bytes, and %d of %d entries are left out", size, got.left, len(all))
	}
}
