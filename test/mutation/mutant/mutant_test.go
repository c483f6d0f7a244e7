// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package mutant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// on turns a mutant on for the test, and returns the file of those that are reached.
func on(t *testing.T, name, value string) string {
	t.Helper()
	before, file := state, filepath.Join(t.TempDir(), "reached")
	p := &process{on: name, value: value, file: file}
	state = func() *process { return p }
	t.Cleanup(func() { state = before })
	return file
}

func TestWhatIsReadChangesIfTheMutantIsOn(t *testing.T) {
	two := 2
	for name, c := range map[string]struct {
		value string
		read  func(mutant string) any
		want  any
	}{
		"no number":          {Zero, func(m string) any { return Read(m, two) }, 0},
		"another number":     {Other, func(m string) any { return Read(m, two) }, 3},
		"by a pointer":       {Other, func(m string) any { return *Read(m, &two) }, 3},
		"by one to a struct": {Other, func(m string) any { return *Read(m, &struct{ N int }{2}) }, struct{ N int }{}},
		"by none":            {Zero, func(m string) any { return Read(m, &two) == nil }, true},
		"the other truth":    {Other, func(m string) any { return Read(m, false) }, true},
		"another text":       {Other, func(m string) any { return Read(m, "a") }, "a-mutated"},
		"a certain text":     {Text + "b", func(m string) any { return Read(m, "a") }, "b"},
		"a list without one": {Other, func(m string) any { return Read(m, []string{"a", "b"}) }, []string{"b"}},
		"by its address":     {Other, func(m string) any { return *Ref(m, "write", &two) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, "on", c.value)
			if diff := cmp.Diff(c.want, c.read("on")); diff != "" {
				t.Errorf("with the mutant on, -want +got:\n%s", diff)
			}
			if cmp.Equal(c.want, c.read("off")) {
				t.Error("it is the same with the mutant off")
			}
		})
	}
	if two != 2 {
		t.Errorf("the field itself is %d, want 2", two)
	}
}

func TestWhatIsWrittenIsLostIfTheMutantIsOn(t *testing.T) {
	type thing struct {
		N int
		M map[string]int
		L []int
	}
	change := func(name string) thing {
		x := thing{N: 1, M: map[string]int{"a": 1}, L: []int{1}}
		*Into(name, &x.N) = 2
		(*Into(name, &x.M))["a"] = 2
		(*Into(name, &x.L))[0] = 2
		*Ref("read", name, &x.N) += 0
		return x
	}
	on(t, "on", Zero)
	if diff := cmp.Diff(thing{N: 1, M: map[string]int{"a": 1}, L: []int{1}}, change("on")); diff != "" {
		t.Errorf("with the mutant on, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(thing{N: 2, M: map[string]int{"a": 2}, L: []int{2}}, change("off")); diff != "" {
		t.Errorf("with the mutant off, -want +got:\n%s", diff)
	}
	field := func(x *thing) *int { return &x.N }
	if Write("on", 2) != 0 || Write("off", 2) != 2 || Converted("on", field, thing{N: 2}).N != 0 || Converted("off", field, thing{N: 2}).N != 2 {
		t.Error("a value in a literal, or of a conversion, has to be dropped if its mutant is on, and only then")
	}
	if Reason("on", "Fine") == "Fine" || Reason("off", "Fine") != "Fine" {
		t.Error("a reason has to change if its mutant is on, and only then")
	}
}

func TestMutantsThatAreReachedAreNoted(t *testing.T) {
	file := on(t, "on", Zero)
	for range 2 {
		Read("off", 1)
		Into("on", new(int))
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(content)); !cmp.Equal(got, []string{"off", "on"}) {
		t.Errorf("got %v, want each of both once", got)
	}
}

const definition = `
spec:
  names: {kind: ClusterThing}
  versions:
  - schema:
      openAPIV3Schema:
        properties:
          spec:
            x-kubernetes-validations: [{rule: "!has(self.parts) || size(self.parts[0].name) > 0"}]
            properties:
              parts:
                items:
                  required: [name]
                  properties:
                    name: {type: string, maxLength: 5}
                    size: {type: integer}
`

func TestADefinitionLacksTheField(t *testing.T) {
	const name = Schema + "Thing spec.parts[].name"
	for value, want := range map[string]string{
		Zero:  "{properties: {size: {type: integer}}}",
		Other: "{properties: {name: {x-kubernetes-preserve-unknown-fields: true}, size: {type: integer}}}",
	} {
		file := on(t, name, value)
		changed, err := Definition([]byte(definition), nil)
		if err != nil {
			t.Fatal(err)
		}
		var got, items map[string]any
		if err := yaml.Unmarshal(changed, &got); err != nil {
			t.Fatal(err)
		}
		versions, _ := inside(got, "spec")["versions"].([]any)
		version, _ := versions[0].(map[string]any)
		spec := inside(version, "schema", "openAPIV3Schema", "properties", "spec")
		if err := yaml.Unmarshal([]byte(want), &items); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(items, inside(spec, "properties", "parts", "items")); diff != "" {
			t.Errorf("%s, -want +got:\n%s", value, diff)
		}
		if _, ruled := spec["x-kubernetes-validations"]; ruled {
			t.Errorf("%s: the rule about the field is still there", value)
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: that it was reached is not noted: %v", value, err)
		}
	}
	on(t, Schema+"Other spec.parts[].name", Zero)
	if same, err := Definition([]byte(definition), nil); err != nil || string(same) != definition {
		t.Errorf("the definition of another kind is %s (%v)", same, err)
	}
}
