// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	sigsyaml "sigs.k8s.io/yaml"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
	"github.com/capstan-io/capstan/internal/interpret/lua"
)

type customization = configv1alpha1.ResourceInterpreterCustomization

// scriptOf is a script of the field, in the form that ric has it.
func scriptOf(field, source string) string { return fmt.Sprintf("%s: {luaScript: %q}", field, source) }

const (
	healthy = "function InterpretHealth(o) return true end"
	needs   = "function GetDependencies(o) return {} end"
)

func customizationOf(t *testing.T, text string) customization {
	t.Helper()
	c := customization{}
	if err := sigsyaml.UnmarshalStrict([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestWhatTheUserHasWritten is taken if it is a customization of the same name that is right
// beside the others on the hub, one of which is its own former self.
func TestWhatTheUserHasWritten(t *testing.T) {
	t.Parallel()
	health, dependencies := scriptOf("healthInterpretation", healthy), scriptOf("dependencyInterpretation", needs)
	before := customizationOf(t, fmt.Sprintf(ric, "a", health))
	others := []customization{before, customizationOf(t, fmt.Sprintf(ric, "b", scriptOf("retention", "function Retain(d, o) return d end")+", "+dependencies))}
	for name, c := range map[string]struct {
		written string
		wrong   []string
	}{
		"nothing else": {written: fmt.Sprintf(ric, "a", health)},
		"what an object needs, which several may say": {written: fmt.Sprintf(ric, "a", health+", "+dependencies)},
		"another name":      {fmt.Sprintf(ric, "c", scriptOf("dependencyInterpretation", needs)), []string{`metadata.name: it is "a", and cannot be changed`}},
		"no name":           {strings.Replace(fmt.Sprintf(ric, "a", health), "{name: a}", "{}", 1), []string{`metadata.name: it is "a"`}},
		"only another name": {fmt.Sprintf(ric, "c", health), []string{`metadata.name: it is "a", and cannot be changed`}},
		"no kind":           {strings.Replace(fmt.Sprintf(ric, "a", health), ", kind: Workload", "", 1), []string{"spec.target.kind: Required"}},
		"no apiVersion":     {strings.Replace(fmt.Sprintf(ric, "a", health), "apiVersion: example.com/v1, ", "", 1), []string{"spec.target.apiVersion: Required"}},
		"no script":         {fmt.Sprintf(ric, "a", ""), []string{"spec.customizations: Required"}},
		"one of another's":  {fmt.Sprintf(ric, "a", scriptOf("retention", "function Retain(d, o) return d end")), []string{"spec.customizations.retention: Forbidden"}},
		"an unknown field":  {"spec: {target: {kinds: A}}", []string{`unknown field "kinds"`}},
		"no YAML":           {"a: [", []string{"yaml: "}},
		"two that are wrong": {
			fmt.Sprintf(ric, "a", scriptOf("healthInterpretation", "\nfunction InterpretHealth(o)\n  return = 5\nend")+", "+scriptOf("retention", "local function Retain() end")),
			[]string{"spec.customizations.retention: Forbidden", "spec.customizations.retention.luaScript: it has no function Retain", "spec.customizations.healthInterpretation.luaScript: line 3: "},
		},
	} {
		after, wrong := parseEdited([]byte(c.written), &before, others)
		if len(wrong) != len(c.wrong) {
			t.Errorf("%s: %q is wrong, not %q", name, wrong, c.wrong)
			continue
		}
		for _, want := range c.wrong {
			if !strings.Contains(strings.Join(wrong, "\n"), want) {
				t.Errorf("%s: %q is wrong, not %q", name, wrong, want)
			}
		}
		if len(wrong) == 0 && after.Name != "a" {
			t.Errorf("%s: it is %v", name, after)
		}
	}
}

// TestRemarksAreNotTheUsers: what the command writes above a customization is gone when the
// user has written it, and nothing else is.
func TestRemarksAreNotTheUsers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, want string }{
		"remarks":                {string(commentLines([]string{"one", "", "# two"})) + "a: b\n", "a: b\n"},
		"a comment of a script":  {"# one\na: |\n# not at the top\n  # of the user\n", "a: |\n# not at the top\n  # of the user\n"},
		"no remarks":             {"a: b", "a: b"},
		"only remarks":           {"# one\n#", ""},
		"one without a line end": {"# one", ""},
		"nothing":                {"", ""},
	} {
		if got := string(withoutHeading([]byte(c.content))); got != c.want {
			t.Errorf("%s: %q is left, not %q", name, got, c.want)
		}
	}
}

func TestOneThingIsAskedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options interpretOptions
		want    bool
	}{
		"nothing":                  {interpretOptions{}, false},
		"a check":                  {interpretOptions{check: true}, true},
		"an edit":                  {interpretOptions{edit: true}, true},
		"an operation":             {interpretOptions{operation: "Retain"}, true},
		"a check and an edit":      {interpretOptions{check: true, edit: true}, false},
		"an edit and an operation": {interpretOptions{edit: true, operation: "Retain"}, false},
		"all":                      {interpretOptions{check: true, edit: true, doc: true, operation: "Retain"}, false},
	} {
		if got := c.options.isSingleAction(); got != c.want {
			t.Errorf("%s: one thing is %t", name, got)
		}
	}
	for name, c := range map[string]struct {
		options interpretOptions
		wrong   bool
	}{
		"files":                         {interpretOptions{files: []string{"a", "a"}, desired: "b", observed: "b"}, false},
		"the standard input":            {interpretOptions{files: []string{"a", "-"}}, false},
		"twice in a flag":               {interpretOptions{files: []string{"-", "-"}}, true},
		"once in two flags":             {interpretOptions{desired: "-", observed: "-"}, true},
		"for scripts and what is there": {interpretOptions{files: []string{"-"}, status: "-"}, true},
	} {
		var usage *exit.Error
		if got := errors.As(c.options.oneStandardInput(), &usage) && usage.Code == exit.Usage; got != c.wrong {
			t.Errorf("%s: wrong is %t", name, got)
		}
	}
}

// TestEveryOperationIsDocumented by an example that compiles, and that takes what is said
// that it takes.
func TestEveryOperationIsDocumented(t *testing.T) {
	t.Parallel()
	var documented []string
	for _, d := range operationDocs() {
		documented = append(documented, string(d.Operation))
		if _, err := lua.CompileScript(string(d.Operation), d.Function, d.Example); err != nil {
			t.Errorf("the example of %s: %v", d.Operation, err)
		}
		var takes []string
		for _, p := range d.Takes {
			takes = append(takes, p.Name)
		}
		head := regexp.MustCompile(`function ` + d.Function + `\((.*)\)`).FindStringSubmatch(d.Example)
		if len(head) != 2 || head[1] != strings.Join(takes, ", ") {
			t.Errorf("the example of %s takes %q, not %q", d.Operation, head, takes)
		}
		if diff := cmp.Diff([]functionDoc{d}, functionDocs(d.Operation)); diff != "" {
			t.Errorf("of %s alone (-want +got):\n%s", d.Operation, diff)
		}
	}
	if diff := cmp.Diff(interpreters.OperationNames(), documented); diff != "" {
		t.Errorf("the operations (-there +documented):\n%s", diff)
	}
}

func TestTheNameOfWhatIsEdited(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args, files []string
		file, want  string
	}{
		"by its name":        {args: []string{"a"}, want: "a"},
		"by a file":          {files: []string{"-"}, file: fmt.Sprintf(ric, "b", ""), want: "b"},
		"by both":            {args: []string{"a"}, files: []string{"-"}, file: fmt.Sprintf(ric, "b", "")},
		"by nothing":         {},
		"by a file with two": {files: []string{"-"}, file: fmt.Sprintf(ric, "a", "") + "---\n" + fmt.Sprintf(ric, "b", "")},
		"by one without":     {files: []string{"-"}, file: strings.Replace(fmt.Sprintf(ric, "a", ""), "{name: a}", "{}", 1)},
	} {
		session := &hub.Session{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(c.file)}}
		got, err := (&interpretOptions{files: c.files}).nameToEdit(session, c.args)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: it is %q (%v)", name, got, err)
		}
	}
}
