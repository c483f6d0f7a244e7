// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"testing"
)

// TestNamesOfRecordsAreNotThoseOfReports: what is remembered of reports outlives the
// connection, and a member may invent records without number in each.
func TestNamesOfRecordsAreNotThoseOfReports(t *testing.T) {
	s := &engagedCluster{memories: map[string]*passMemory{}} // without reports: it panics if one is looked for
	for i := range 3 {
		request := Request{Cluster: "m", Work: fmt.Sprint("invented-", i)}
		if m := s.memoryOf(request); m == nil || m != s.existingMemory(request) {
			t.Errorf("%s has no memory of the connection", request.Work)
		}
	}
}
