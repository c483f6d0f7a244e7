// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
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

// TestManifestsWaitForRoom has others have all the room: of the works of a tenant those wait that take some, and no others.
func TestManifestsWaitForRoom(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	part := s.start(agentOptions{}).part
	var ends []func()
	for i := range 2 {
		ctx, end := part.manifests.BeginReservation(t.Context(), fmt.Sprint("others ", i))
		expect.NoError(t, decoding.TakeMemory(ctx, 192<<20))
		ends = append(ends, end)
	}
	values := strings.Builder{}
	for i := range 20_000 {
		fmt.Fprintf(&values, `"%x":"",`, i)
	}
	dense := strings.Replace(s.configMap("dense", "there"), `"data":{`, `"data":{`+values.String(), 1)
	s.create(ofBinding(s.work("dense", dense)))
	for i := range 20 {
		name := fmt.Sprint("small-", i)
		s.create(ofBinding(s.work(name, s.configMap(name, "there"))))
		s.has(name, "there")
	}
	if _, _, err := s.value("dense"); !apierrors.IsNotFound(err) {
		t.Errorf("an object of 5 MB is applied while there is no room to decode it: %v", err)
	}
	for _, end := range ends {
		end()
	}
	s.has("dense", "there")
	s.condition("dense", workv1.ManifestWorkConditionApplied, metav1.ConditionTrue)
}
