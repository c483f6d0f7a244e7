// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"strconv"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/native/workloads"
	"github.com/capstan-io/capstan/internal/interpret/pods"
	"github.com/capstan-io/capstan/internal/untrusted/quantity"
)

// kubeFunctions are those of library kube.
func (r *scriptRun) kubeFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"accuratePodRequirements": func(l *lua.LState) int {
			template := r.tableObject(l, 1)
			needs := pods.RequirementsFromSpec(fields.Map(template, "spec"))
			if needs == nil {
				l.Push(lua.LNil)
				return 1
			}
			l.Push(r.toLua(l, requirementsJSON(needs)))
			return 1
		},
		"getPodDependencies": func(l *lua.LState) int {
			all := []any{}
			for _, on := range workloads.PodDependencies(fields.Map(r.tableObject(l, 1), "spec"), l.OptString(2, "")) {
				entry := map[string]any{"apiVersion": on.APIVersion, "kind": on.Kind, "name": on.Name}
				if on.Namespace != "" {
					entry["namespace"] = on.Namespace
				}
				all = append(all, entry)
			}
			l.Push(r.toLua(l, all))
			return 1
		},
		"resourceAdd": func(l *lua.LState) int {
			sum := resource.Quantity{}
			for i := 1; i <= l.GetTop(); i++ {
				sum.Add(quantityOf(l, i))
			}
			l.Push(lua.LString(sum.String()))
			return 1
		},
		"getResourceQuantity": func(l *lua.LState) int {
			q := quantityOf(l, 1)
			l.Push(lua.LNumber(q.AsApproximateFloat64()))
			return 1
		},
	}
}

// tableObject returns the table that a function is given as it would be in JSON.
func (r *scriptRun) tableObject(l *lua.LState, at int) map[string]any {
	value, err := r.fromLua(l.CheckTable(at), nil)
	if err != nil {
		l.ArgError(at, err.Error())
	}
	object, _ := value.(map[string]any)
	return object
}

// quantityOf reads an argument; what is not there is nothing.
func quantityOf(l *lua.LState, at int) resource.Quantity {
	text := ""
	switch v := l.Get(at).(type) {
	case *lua.LNilType:
		return resource.Quantity{}
	case lua.LNumber:
		text = strconv.FormatFloat(float64(v), 'f', -1, 64)
	case lua.LString:
		text = string(v)
	}
	parsed, err := quantity.ParseChecked(text)
	if err != nil {
		l.ArgError(at, "it is not a quantity, such as 500m or 2Gi")
	}
	return parsed
}
