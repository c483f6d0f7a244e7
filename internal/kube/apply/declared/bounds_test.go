// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package declared

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// wrong has types around each other, inside of which are properties with mistakes in them.
func wrong(name string, depth, properties int) []byte {
	var inside []string
	for i := range properties {
		inside = append(inside, fmt.Sprintf(`"%x":{"type":"x"}`, i))
	}
	return []byte(`{"components":{"schemas":{"` + name + `":` + strings.Repeat(`{"items":`, depth) +
		`{"properties":{` + strings.Join(inside, ",") + `}}` + strings.Repeat(`}`, depth) + `}}}`)
}

// nulls has properties without anything in them.
func nulls(properties int) []byte {
	var inside []string
	for i := range properties {
		inside = append(inside, fmt.Sprintf(`"%x":null`, i))
	}
	return []byte(`{"components":{"schemas":{"w":{"type":"object","properties":{` + strings.Join(inside, ",") + `}}}}}`)
}

// TestWhatIsDeclaredTakesLittle compares what is allocated for what a hostile server declares
// with what is for the largest API of Kubernetes: some times as much may be looked at. It does
// not run beside others, of whose memory it would count some.
func TestWhatIsDeclaredTakesLittle(t *testing.T) {
	fields := NewSchemaFields(nil, now(), nil, "c1")
	allocated := func(document []byte) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		fields.decodeTypes(t.Context(), document, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	core := []byte(ofKubernetes(t).documents["/openapi/v3/api/v1"])
	allocated(core) // what is made once
	most := 4 * allocated(core)
	for name, document := range map[string][]byte{
		"many names around mistakes": wrong("w", 2000, 1000),
		"a long name of mistakes":    wrong(strings.Repeat("w", 100<<10), 5, 500),
		"nulls for properties":       nulls(150_000),
	} {
		if got := allocated(document); got > most {
			t.Errorf("%s: %d bytes take %d bytes, more than %d, four times what Kubernetes declares", name, len(document), got, most)
		}
	}
}
