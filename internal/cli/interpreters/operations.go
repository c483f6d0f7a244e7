// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"strings"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/lua"
)

// Operation is what can be asked of an object, by the name that it has in Karmada.
type Operation string

// The operations.
const (
	InterpretReplica    Operation = "InterpretReplica"
	InterpretComponent  Operation = "InterpretComponent"
	ReviseReplica       Operation = "ReviseReplica"
	Retain              Operation = "Retain"
	InterpretStatus     Operation = "InterpretStatus"
	AggregateStatus     Operation = "AggregateStatus"
	InterpretHealth     Operation = "InterpretHealth"
	InterpretDependency Operation = "InterpretDependency"
)

// takes is what an operation is about.
type takes int

const (
	takesObject takes = iota
	takesObjectAndReplicas
	takesObjectAndItems
	takesBoth
)

// definition is an operation.
type definition struct {
	operation Operation
	// script is that of a customization.
	script lua.Operation
	takes  takes
	// has tells whether somebody answers it.
	has func(interpret.Operations) bool
	run func(interpret.Chain, Input, *Result) error
}

// definitions are all operations, in their order.
func definitions() []definition {
	return []definition{
		{InterpretReplica, lua.ReplicaResource, takesObject, func(o interpret.Operations) bool { return o.Replicas != nil || o.Custom.Replicas != nil }, replicas},
		{InterpretComponent, lua.ComponentResource, takesObject, func(o interpret.Operations) bool { return o.Components != nil || o.Custom.Components != nil }, components},
		{ReviseReplica, lua.ReplicaRevision, takesObjectAndReplicas, func(o interpret.Operations) bool { return o.Revise != nil || o.Custom.Revise != nil }, revise},
		{Retain, lua.Retention, takesBoth, func(o interpret.Operations) bool { return o.Retained != nil || o.Custom.Retain != nil }, retain},
		{InterpretStatus, lua.StatusReflection, takesObject, func(o interpret.Operations) bool { return o.Reflect != nil || o.Custom.Reflect != nil }, reflectStatus},
		{AggregateStatus, lua.StatusAggregation, takesObjectAndItems, func(o interpret.Operations) bool { return o.Aggregate != nil || o.Custom.Aggregate != nil }, aggregateStatus},
		{InterpretHealth, lua.HealthInterpretation, takesObject, func(o interpret.Operations) bool { return o.Verdict != nil || o.Custom.Verdict != nil }, verdict},
		{InterpretDependency, lua.DependencyInterpretation, takesObject, func(o interpret.Operations) bool { return o.Dependencies != nil || o.Custom.Dependencies != nil }, dependencies},
	}
}

// Operations are the names of all operations, in their order.
func Operations() []string {
	var all []string
	for _, d := range definitions() {
		all = append(all, string(d.operation))
	}
	return all
}

// Parse returns the operation of a name, however its letters are written.
func Parse(name string) (Operation, bool) {
	for _, d := range definitions() {
		if strings.EqualFold(string(d.operation), name) {
			return d.operation, true
		}
	}
	return "", false
}

// Script returns the script of a customization that answers the operation.
func (o Operation) Script() lua.Operation { return o.definition().script }

// OfScript returns the operation that a script answers.
func OfScript(script lua.Operation) Operation {
	for _, d := range definitions() {
		if d.script == script {
			return d.operation
		}
	}
	return ""
}

// definition is that of an operation that Parse knows.
func (o Operation) definition() definition {
	for _, d := range definitions() {
		if d.operation == o {
			return d
		}
	}
	return definition{}
}
