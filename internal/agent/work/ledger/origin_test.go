// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestARecordKnowsTheFirstVersionOfItsWork(t *testing.T) {
	work := func(uid types.UID, version string) *workv1.ManifestWork {
		return &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
	}
	record := &workv1.AppliedManifestWork{}
	if renewedBy(record, work("a", "7")) {
		t.Error("a record of an earlier release is written for the version alone")
	}
	for _, step := range []struct {
		what    string
		work    *workv1.ManifestWork
		renewed bool
		want    string
	}{
		{what: "the first", work: work("a", "7"), want: "7"},
		{what: "it changes", work: work("a", "9"), want: "7"},
		{what: "another of that name", work: work("b", "12"), renewed: true, want: "12"},
	} {
		if got := renewedBy(record, step.work); got != step.renewed {
			t.Errorf("%s: the record is written for it: %t, want %t", step.what, got, step.renewed)
		}
		setOrigin(record, originOf(step.work))
		if got := FirstVersion(record); got != step.want {
			t.Errorf("%s: the record says %q, want %q", step.what, got, step.want)
		}
	}
}
