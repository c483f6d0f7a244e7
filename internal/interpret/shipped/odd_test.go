// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
)

// oddities are values that a field may have against all rules.
func oddities() []any {
	return []any{nil, "text", "-3", "99999999999999999999", "1e400", -1.5, 1e300, int64(math.MaxInt64), int64(math.MinInt64), true, []any{}, []any{nil, int64(1), "x", m{}}, m{"x": []any{int64(1)}}}
}

// paths returns the path of each value in an object, not those of what the kind of an
// object is known by.
func paths(value any, path []string, all [][]string) [][]string {
	object, is := value.(m)
	if !is {
		return all
	}
	for name, inner := range object {
		if len(path) == 0 && (name == "apiVersion" || name == "kind") {
			continue
		}
		at := append(append([]string{}, path...), name)
		all = paths(inner, at, append(all, at))
		if list, is := inner.([]any); is && len(list) > 0 {
			all = paths(list[0], append(at, "0"), all)
		}
	}
	return all
}

// odd returns an object with another value at a path, where "0" is the first entry of
// a list.
func odd(value any, path []string, otherwise any) any {
	if len(path) == 0 {
		return otherwise
	}
	if list, is := value.([]any); is && len(list) > 0 {
		return append([]any{odd(list[0], path[1:], otherwise)}, list[1:]...)
	}
	object, _ := value.(m)
	return fields.With(object, odd(object[path[0]], path[1:], otherwise), path[0])
}

// run runs all operations, and returns their errors.
func run(custom interpret.CustomOperations, object, template m) (failed []error) {
	keep := func(operation string, err error) {
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", operation, err))
		}
	}
	if custom.Replicas != nil {
		_, _, err := custom.Replicas(object)
		keep("replicas", err)
	}
	if custom.Components != nil {
		_, err := custom.Components(object)
		keep("components", err)
	}
	if custom.Revise != nil {
		_, err := custom.Revise(object, 3)
		keep("revision", err)
	}
	if custom.Retain != nil {
		_, err := custom.Retain(object, template)
		keep("retention, of the manifest", err)
		_, err = custom.Retain(template, object)
		keep("retention, of the object", err)
	}
	if custom.Reflect != nil {
		_, err := custom.Reflect(object)
		keep("reflection", err)
	}
	if custom.Verdict != nil {
		_, err := custom.Verdict(object)
		keep("health", err)
	}
	if custom.Dependencies != nil {
		_, err := custom.Dependencies(object)
		keep("dependencies", err)
	}
	items := []interpret.ClusterItem{{Cluster: "a"}, {Cluster: "b", Status: fields.Map(object, "status")}, {Cluster: "c", Status: fields.Map(template, "status")}}
	if custom.Aggregate != nil {
		_, err := custom.Aggregate(object, items)
		keep("aggregation", err)
	}
	return failed
}

// TestOddObjectsHaveAnAnswer puts odd values at each place of an object, one at a
// time, and runs all operations: no script may fail.
func TestOddObjectsHaveAnAnswer(t *testing.T) {
	t.Parallel()
	for _, kind := range shipped.ThirdPartyGroupKinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			g := read(t, kind)
			object := g.observed()
			version := schema.FromAPIVersionAndKind(fields.String(object, "apiVersion"), fields.String(object, "kind"))
			custom := shipped.NewThirdPartyKinds().Operations(version).Custom
			bare := m{"apiVersion": object["apiVersion"], "kind": object["kind"]}
			for _, err := range run(custom, bare, bare) {
				t.Errorf("without anything: %v", err)
			}
			for _, path := range paths(object, nil, nil) {
				for _, otherwise := range oddities() {
					changed, _ := odd(object, path, otherwise).(m)
					for _, err := range run(custom, changed, object) {
						t.Errorf("%s is %#v: %v", strings.Join(path, "."), otherwise, err)
					}
				}
			}
		})
	}
}

// TestKindsThatAreNotThereTakeNoMemory counts what a layer holds before there is an
// object of any of its kinds, and after there was one.
func TestKindsThatAreNotThereTakeNoMemory(t *testing.T) {
	const layers, bytesMax = 100, 4 << 10
	held := make([]*shipped.ThirdPartyKinds, 0, layers)
	before := heap()
	for range layers {
		held = append(held, shipped.NewThirdPartyKinds())
	}
	asked := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	for _, layer := range held {
		if known := layer.Operations(asked); known.Custom.Verdict != nil {
			t.Fatal("a Widget is known")
		}
	}
	each := (heap() - before) / layers
	t.Logf("a layer of %d kinds holds %d bytes", len(shipped.ThirdPartyGroupKinds()), each)
	if each > bytesMax {
		t.Errorf("a layer holds %d bytes, more than %d", each, bytesMax)
	}
	if allocs := testing.AllocsPerRun(100, func() { held[0].Operations(asked) }); allocs > 0 {
		t.Errorf("asking for a kind that is not shipped takes %v allocations", allocs)
	}
	runtime.KeepAlive(held)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	stats := runtime.MemStats{}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkOperations shows what an operation of a kind takes.
func BenchmarkOperations(b *testing.B) {
	for _, kind := range []schema.GroupKind{{Group: "apps.kruise.io", Kind: "CloneSet"}, {Group: "ray.io", Kind: "RayCluster"}} {
		g := read(b, kind)
		object := g.observed()
		custom := shipped.NewThirdPartyKinds().Operations(schema.FromAPIVersionAndKind(fields.String(object, "apiVersion"), kind.Kind)).Custom
		items := g.items(b, shipped.BuiltinChain())
		b.Run(kind.Kind+"/health", func(b *testing.B) {
			for b.Loop() {
				if _, err := custom.Verdict(object); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(kind.Kind+"/aggregation", func(b *testing.B) {
			for b.Loop() {
				if custom.Aggregate == nil {
					return
				}
				if _, err := custom.Aggregate(g.template(), items); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
