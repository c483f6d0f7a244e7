// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
)

// customizationVerdict is what is said of a customization, in the form that scripts read.
type customizationVerdict struct {
	Name       string `json:"name"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Problems are those of the customization as a whole.
	Problems []string `json:"problems,omitempty"`
	Scripts  []script `json:"scripts"`
}

// script is what is said of a script.
type script struct {
	Field     string                 `json:"field"`
	Operation interpreters.Operation `json:"operation"`
	OK        bool                   `json:"ok"`
	// Line is the line of the script, if it is known.
	Line    int    `json:"line,omitempty"`
	Message string `json:"message,omitempty"`
}

// checkCustomizations checks the customizations of the files.
func (o *interpretOptions) checkCustomizations(session *hub.Session) error {
	if len(o.files) == 0 {
		return exit.UsageError("name the file with the customizations, by -f")
	}
	all, err := o.customizations(session.In)
	if err != nil {
		return err
	}
	verdicts := make([]customizationVerdict, 0, len(all))
	for i := range all {
		verdicts = append(verdicts, checkCustomization(&all[i], append(all[:i:i], all[i+1:]...)))
	}
	if err := o.format.Print(session.Out, verdicts, func() string { return formatVerdicts(verdicts) }); err != nil {
		return err
	}
	wrong := 0
	for _, v := range verdicts {
		wrong += v.countMistakes()
	}
	if wrong > 0 {
		return exit.Next(errors.New(countNoun(wrong, "mistake")), "Fix what is reported for each. \"capstan interpret --show-doc\" describes what the functions get and return.")
	}
	return nil
}

// checkCustomization says what is right and wrong with a customization.
func checkCustomization(c *configv1alpha1.ResourceInterpreterCustomization, others []configv1alpha1.ResourceInterpreterCustomization) customizationVerdict {
	v := customizationVerdict{Name: c.Name, APIVersion: c.Spec.Target.APIVersion, Kind: c.Spec.Target.Kind, Scripts: []script{}}
	add := func(format string, args ...any) { v.Problems = append(v.Problems, fmt.Sprintf(format, args...)) }
	target := field.NewPath("spec", "target")
	scripts := customized.LuaCustomizationOf(c).Scripts
	switch {
	case c.Name == "":
		add("metadata.name: Required value: it needs a name")
	case c.Spec.Target.APIVersion == "":
		add("%s: Required value: the group and version of the kind, such as example.com/v1", target.Child("apiVersion"))
	case c.Spec.Target.Kind == "":
		add("%s: Required value: the name of the kind, such as Workload", target.Child("kind"))
	case len(scripts) == 0:
		add("spec.customizations: Required value: it has no script")
	}
	for _, conflict := range customized.ScriptConflicts(c, others) {
		add("%s", conflict.Error())
	}
	for _, operation := range lua.AllOperations() {
		source, has := scripts[operation]
		if !has {
			continue
		}
		s := script{Field: fmt.Sprintf("spec.customizations.%s.luaScript", operation), Operation: interpreters.OfScript(operation), OK: true}
		if _, err := lua.CompileScript(string(operation), operation.FunctionName(), source); err != nil {
			s.OK, s.Message = false, err.Error()
			if wrong := (*lua.CompileError)(nil); errors.As(err, &wrong) {
				s.Line = wrong.Line
				s.Message = wrong.Message
			}
		}
		v.Scripts = append(v.Scripts, s)
	}
	return v
}

// countMistakes is how many mistakes there are.
func (v customizationVerdict) countMistakes() int {
	wrong := len(v.Problems)
	for _, s := range v.Scripts {
		if !s.OK {
			wrong++
		}
	}
	return wrong
}

// formatVerdicts returns verdicts for people.
func formatVerdicts(all []customizationVerdict) string {
	var b strings.Builder
	for i, v := range all {
		if i > 0 {
			fmt.Fprintln(&b)
		}
		state := "it is valid"
		if n := v.countMistakes(); n > 0 {
			state = countNoun(n, "mistake")
		}
		fmt.Fprintf(&b, "ResourceInterpreterCustomization %s, for %s of %s: %s\n", v.Name, v.Kind, v.APIVersion, state)
		var rows [][]string
		for _, problem := range v.Problems {
			fmt.Fprintf(&b, "! %s\n", problem)
		}
		for _, s := range v.Scripts {
			row := []string{" ", string(s.Operation), s.Field, "ok"}
			if !s.OK {
				row[0], row[3] = "!", s.Message
			}
			if s.Line > 0 {
				row[3] = fmt.Sprintf("line %d: %s", s.Line, s.Message)
			}
			rows = append(rows, row)
		}
		b.WriteString(columns.FormatTable(rows))
	}
	return b.String()
}

// countNoun is a number of things.
func countNoun(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
