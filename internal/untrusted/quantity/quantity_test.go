// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestParse compares with Kubernetes what it takes.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"0", "1", "-1", "+2", "500m", "2Gi", "1.5", ".5", "5.", "100n", "3u", "7k", "1E", "1e3", "1E-3", "12e6", "1e18", "1e99", "0.000000001",
		"9223372036854775807", "9223372036854775808", "1Ei",
	} {
		want, err := resource.ParseQuantity(text)
		expect.NoError(t, err)
		if got, err := ParseChecked(text); err != nil || got.Cmp(want) != 0 {
			t.Errorf("%q is read as %s, %v", text, got.String(), err)
		}
	}
}

// TestHostileQuantitiesAreNotParsed would not end if one of them was.
func TestHostileQuantitiesAreNotParsed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"1e-2000000000", "1E2000000000", "1e100", "1e+100", "0.1e-999", strings.Repeat("9", 1<<20), "0." + strings.Repeat("0", 1<<20) + "1",
		"", "one", "1x", "1e", "1e1.5", " 1", "1\n",
	} {
		if got, err := ParseChecked(text); err == nil || len(err.Error()) > 200 {
			t.Errorf("a text of %d characters is read as %s, %v", len(text), got.String(), err)
		}
	}
}

// TestCheck finds quantities by the types that texts are read into, and nowhere else.
func TestCheck(t *testing.T) {
	t.Parallel()
	const hostile = "1e-2000000000"
	for name, c := range map[string]struct {
		text, wants string
		like        any
	}{
		"a cluster":         {`{"status":{"allocatable":{"cpu":"4","memory":"16Gi"},"capacity":{"cpu":4}}}`, "", clusterv1.ManagedCluster{}},
		"in a cluster":      {`{"status":{"allocatable":{"cpu":"` + hostile + `"}}}`, "status.allocatable[cpu]: ", clusterv1.ManagedCluster{}},
		"in other letters":  {`{"Status":{"ALLOCATABLE":{"cpu":"` + hostile + `"}}}`, "status.allocatable[cpu]: ", clusterv1.ManagedCluster{}},
		"a number":          {`{"status":{"capacity":{"cpu":1e300}}}`, "status.capacity[cpu]: ", clusterv1.ManagedCluster{}},
		"a label like one":  {`{"metadata":{"labels":{"commit":"` + hostile + `"}}}`, "", clusterv1.ManagedCluster{}},
		"nothing":           {`{"status":{"allocatable":{"cpu":null}}}`, "", clusterv1.ManagedCluster{}},
		"something else":    {`{"status":[1],"spec":"x"}`, "", clusterv1.ManagedCluster{}},
		"of a binding":      {`{"spec":{"replicaRequirements":{"resourceRequest":{"cpu":"` + hostile + `"}}}}`, "spec.replicaRequirements.resourceRequest[cpu]: ", &workv1alpha2.ResourceBinding{}},
		"of a part of one":  {`{"spec":{"components":[{},{"replicaRequirements":{"resourceRequest":{"cpu":"` + hostile + `"}}}]}}`, "spec.components[1].", workv1alpha2.ResourceBinding{}},
		"what is no object": {`{}`, "", ""},
	} {
		object := map[string]any{}
		expect.NoError(t, json.Unmarshal([]byte(c.text), &object))
		err := CheckQuantities(object, c.like)
		if c.wants == "" && err != nil || c.wants != "" && (err == nil || !strings.HasPrefix(err.Error(), c.wants)) {
			t.Errorf("%s: got %v, want an error that begins with %q", name, err, c.wants)
		}
	}
}
