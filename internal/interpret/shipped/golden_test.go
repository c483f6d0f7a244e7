// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/golden"
)

var update = flag.Bool("update", false, "write the golden files")

type m = map[string]any

// given is what the operations of a kind are tried with: file input.yaml. It has
//
//	template: the object as it is on the hub
//	observed: what is otherwise of the object in a cluster
//	clusters: what clusters report, by their names; the first one's is the status
//	          of the object that is observed
//	healthy:   what may be otherwise of that object when it is healthy all the same
//	unhealthy: what is otherwise of it when it is not healthy
//	unknown:   what is otherwise of it when nobody knows
type given m

func read(t testing.TB, kind schema.GroupKind) given {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", kind.Group, kind.Kind, "input.yaml"))
	expect.NoError(t, err)
	text, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	u := &unstructured.Unstructured{} // which decodes numbers as those of objects are
	if err := u.UnmarshalJSON(slices.Concat([]byte(`{"apiVersion":"v1","kind":"Input",`), text[1:])); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return u.Object
}

func (g given) template() m { return fields.Map(g, "template") }

// observed returns the object in a cluster, with what is otherwise.
func (g given) observed(patches ...m) m {
	object := patched(g.template(), fields.Map(g, "observed"))
	generation := strconv.FormatInt(fields.IntOr(0, g.template(), "metadata", "generation"), 10)
	object = fields.With(object, generation, "metadata", "annotations", workv1alpha2.AnnotationTemplateGeneration)
	for _, name := range g.clusters() {
		object = patched(object, m{"status": fields.Map(g, "clusters", name)})
		break
	}
	for _, patch := range patches {
		object = patched(object, patch)
	}
	return object
}

func (g given) clusters() []string { return slices.Sorted(maps.Keys(fields.Map(g, "clusters"))) }

// patched returns an object with a merge patch.
func patched(object, patch m) m {
	object = maps.Clone(object)
	if object == nil {
		object = m{}
	}
	for name, value := range patch {
		inner, is := value.(m)
		switch {
		case value == nil:
			delete(object, name)
		case is:
			object[name] = patched(fields.Map(object, name), inner)
		default:
			object[name] = value
		}
	}
	return object
}

// difference returns the merge patch that makes one object another.
func difference(from, to m) m {
	patch := m{}
	for name := range from {
		if _, has := to[name]; !has {
			patch[name] = nil
		}
	}
	for name, value := range to {
		a, is := from[name].(m)
		b, also := value.(m)
		switch {
		case reflect.DeepEqual(from[name], value):
		case is && also:
			patch[name] = difference(a, b)
		default:
			patch[name] = value
		}
	}
	return patch
}

// items are what the hub gets of the clusters.
func (g given) items(t testing.TB, chain interpret.Chain) []interpret.ClusterItem {
	t.Helper()
	items := make([]interpret.ClusterItem, 0, len(g.clusters()))
	for _, name := range g.clusters() {
		object := g.observed()
		object["status"] = fields.Map(g, "clusters", name)
		status, err := chain.ReflectStatus(&unstructured.Unstructured{Object: object})
		expect.NoError(t, err)
		items = append(items, interpret.ClusterItem{Cluster: name, Status: status, Applied: true, Health: interpret.Healthy})
	}
	return items
}

// outcomes runs the operations of a kind, as the parts of Capstan do.
func outcomes(t *testing.T, g given, custom interpret.CustomOperations, chain interpret.Chain) m {
	t.Helper()
	must := func(err error) {
		t.Helper()
		expect.NoError(t, err)
	}
	out := m{}
	if custom.Retain != nil {
		retained, err := custom.Retain(g.template(), g.observed())
		must(err)
		out["retention"] = difference(g.template(), retained)
	}
	if custom.Replicas != nil {
		replicas, needs, err := custom.Replicas(g.template())
		must(err)
		out["replicaResource"] = m{"replicas": int64(replicas), "requirements": plain(t, needs)}
	}
	if custom.Components != nil {
		parts, err := custom.Components(g.template())
		must(err)
		var all []any
		for _, part := range parts {
			all = append(all, m{"name": part.Name, "replicas": int64(part.Replicas), "requirements": plain(t, part.Needs)})
		}
		out["componentResource"] = all
	}
	if custom.Revise != nil {
		revised, err := custom.Revise(g.template(), 7)
		must(err)
		out["replicaRevision"] = difference(g.template(), revised)
	}
	if custom.Reflect != nil {
		status, err := custom.Reflect(g.observed())
		must(err)
		out["statusReflection"] = difference(fields.Map(g.observed(), "status"), status)
	}
	status, _, err := chain.AggregateStatus(&unstructured.Unstructured{Object: g.template()}, g.items(t, chain))
	must(err)
	out["statusAggregation"] = status
	if custom.Verdict != nil {
		out["healthInterpretation"] = verdicts(t, g, custom)
	}
	if custom.Dependencies != nil {
		needed, err := custom.Dependencies(g.template())
		must(err)
		var all []any
		for _, d := range needed {
			all = append(all, fmt.Sprintf("%s %s %s/%s", d.APIVersion, d.Kind, d.Namespace, d.Name))
		}
		out["dependencyInterpretation"] = all
	}
	return out
}

// verdicts judges the observed object and those that are otherwise.
func verdicts(t *testing.T, g given, custom interpret.CustomOperations) m {
	t.Helper()
	all := m{}
	judge := func(name, want string, object m) {
		verdict, err := custom.Verdict(object)
		expect.NoError(t, err)
		if verdict != want {
			t.Errorf("%s is %s, want %s", name, verdict, want)
		}
		all[name] = verdict
	}
	judge("observed", interpret.Healthy, g.observed())
	for name, patch := range fields.Map(g, "healthy") {
		judge(name, interpret.Healthy, g.observed(patch.(m)))
	}
	for name, patch := range fields.Map(g, "unhealthy") {
		judge(name, interpret.Unhealthy, g.observed(patch.(m)))
	}
	for name, patch := range fields.Map(g, "unknown") {
		judge(name, interpret.Unknown, g.observed(patch.(m)))
	}
	if len(fields.Map(g, "unhealthy")) < 2 {
		t.Error("fewer than 2 cases are not healthy")
	}
	return all
}

// plain returns requirements as they are written.
func plain(t testing.TB, needs *interpret.Requirements) any {
	t.Helper()
	if needs == nil {
		return nil
	}
	written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(needs)
	expect.NoError(t, err)
	maps.DeleteFunc(written, func(_ string, value any) bool { return value == nil || value == "" })
	return written
}

// TestGolden runs each operation of each kind, and compares what it returns with file
// output.yaml. Operations that change an object are there as the merge patch.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, kind := range shipped.ThirdPartyGroupKinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			g := read(t, kind)
			gvk := schema.FromAPIVersionAndKind(fields.String(g.template(), "apiVersion"), fields.String(g.template(), "kind"))
			if gvk.GroupKind() != kind {
				t.Fatalf("the template is a %s", gvk)
			}
			out := outcomes(t, g, shipped.NewThirdPartyKinds().Operations(gvk).Custom, shipped.BuiltinChain())
			customization, err := shipped.ReadCustomization(kind)
			expect.NoError(t, err)
			says := customized.LuaCustomizationOf(customization).Scripts
			for _, operation := range lua.AllOperations() {
				_, has := says[operation]
				got := out[string(operation)]
				if (has || operation == lua.StatusAggregation) != (got != nil) {
					t.Errorf("%s: has a script: %t; returns %v", operation, has, got)
				}
				if has && reflect.ValueOf(got).Len() == 0 {
					t.Errorf("%s: changes nothing, and shows nothing", operation)
				}
			}
			text, err := yaml.Marshal(out)
			expect.NoError(t, err)
			file := filepath.Join("testdata", kind.Group, kind.Kind, "output.yaml")
			golden.CompareFile(t, file, file+" differs", text, *update)
		})
	}
}

// TestNoGoldenFileIsLeftOver finds files of kinds that are not shipped.
func TestNoGoldenFileIsLeftOver(t *testing.T) {
	t.Parallel()
	var files []string
	err := filepath.WalkDir("testdata", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.Contains(path, "fuzz") {
			files = append(files, filepath.ToSlash(path))
		}
		return err
	})
	expect.NoError(t, err)
	var want []string
	for _, kind := range shipped.ThirdPartyGroupKinds() {
		want = append(want, "testdata/"+kind.Group+"/"+kind.Kind+"/input.yaml", "testdata/"+kind.Group+"/"+kind.Kind+"/output.yaml")
	}
	slices.Sort(want)
	slices.Sort(files)
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
}
