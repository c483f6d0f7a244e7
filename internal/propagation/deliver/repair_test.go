// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// TestWhatOthersUndoIsARepair has an agent change what the hub wrote, the hub want something else, and a work from
// before that does not say what was written.
func TestWhatOthersUndoIsARepair(t *testing.T) {
	const silent, preserved = "{clusters: [{name: a}]}", "{clusters: [{name: a}], preserveResourcesOnDeletion: true}"
	isMadeAgain := func(*workv1.ManifestWork) bool { return false }
	undo := func(work *workv1.ManifestWork) {
		work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	}
	for name, test := range map[string]struct {
		others         func(*workv1.ManifestWork)
		wants          string
		changes, alike bool
	}{
		"nothing":                    {func(*workv1.ManifestWork) {}, silent, false, false},
		"the agent":                  {undo, silent, true, true},
		"the hub":                    {func(*workv1.ManifestWork) {}, preserved, true, false},
		"both":                       {func(work *workv1.ManifestWork) { work.Spec.Workload.Manifests = nil }, preserved, true, false},
		"the agent, of an older hub": {func(work *workv1.ManifestWork) { undo(work); delete(work.Annotations, annotationWritten) }, silent, true, false},
		"an older hub":               {func(work *workv1.ManifestWork) { delete(work.Annotations, annotationWritten) }, silent, false, false},
	} {
		made, err := CompareWorks(map[string]*workv1.ManifestWork{"a": rendered(t, silent)}, nil, nil)
		if err != nil || len(made.New) != 1 {
			t.Fatal(made, err)
		}
		for _, again := range []bool{false, true} {
			if write := made.AllowanceWrites(func(*workv1.ManifestWork) bool { return again })[0]; write.Repairs != again {
				t.Errorf("%s: a new work that is made again, %t, counts as a repair: %t", name, again, write.Repairs)
			}
		}
		work := made.New[0].DeepCopy()
		test.others(work)
		slim, err := SlimWork(work)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := CompareWorks(map[string]*workv1.ManifestWork{"a": rendered(t, test.wants)}, []workv1.ManifestWork{*slim.(*workv1.ManifestWork)}, nil) //nolint:forcetypeassert // it is one
		if err != nil || len(changes.Changed) > 0 != test.changes {
			t.Fatalf("%s: %d works are written (%v)", name, len(changes.Changed), err)
		}
		for n, change := range changes.Changed {
			if is := change.IsRepair(); is != test.alike || changes.AllowanceWrites(isMadeAgain)[n].Repairs != is {
				t.Errorf("%s: it counts as a repair: %t, want %t", name, is, test.alike)
			}
			patch(t, work, change)
			if work.Annotations[annotationWritten] != change.Wanted.Annotations[annotationWritten] || work.Annotations[annotationWritten] == "" {
				t.Errorf("%s: the work does not say what is written", name)
			}
		}
	}
}
