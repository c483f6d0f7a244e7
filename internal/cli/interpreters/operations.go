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

// inputShape is what an operation is about.
type inputShape int

const (
	takesObject inputShape = iota
	takesObjectAndReplicas
	takesObjectAndItems
	takesBoth
)

// operationDefinition is an operation.
type operationDefinition struct {
	operation Operation
	// script is that of a customization.
	script lua.Operation
	takes  inputShape
	// has reports whether somebody answers it.
	has func(interpret.Operations) bool
	run func(interpret.Chain, OperationInput, *Result) error
}

// operationDefinitions are all operations, in their order.
func operationDefinitions() []operationDefinition {
	return []operationDefinition{
		{InterpretReplica, lua.ReplicaResource, takesObject, func(o interpret.Operations) bool { return o.Replicas != nil || o.Custom.Replicas != nil }, interpretReplicas},
		{InterpretComponent, lua.ComponentResource, takesObject, func(o interpret.Operations) bool { return o.Components != nil || o.Custom.Components != nil }, interpretComponents},
		{ReviseReplica, lua.ReplicaRevision, takesObjectAndReplicas, func(o interpret.Operations) bool { return o.Revise != nil || o.Custom.Revise != nil }, reviseReplicas},
		{Retain, lua.Retention, takesBoth, func(o interpret.Operations) bool { return o.Retained != nil || o.Custom.Retain != nil }, retainFields},
		{InterpretStatus, lua.StatusReflection, takesObject, func(o interpret.Operations) bool { return o.Reflect != nil || o.Custom.Reflect != nil }, reflectStatus},
		{AggregateStatus, lua.StatusAggregation, takesObjectAndItems, func(o interpret.Operations) bool { return o.Aggregate != nil || o.Custom.Aggregate != nil }, aggregateStatus},
		{InterpretHealth, lua.HealthInterpretation, takesObject, func(o interpret.Operations) bool { return o.Verdict != nil || o.Custom.Verdict != nil }, interpretHealth},
		{InterpretDependency, lua.DependencyInterpretation, takesObject, func(o interpret.Operations) bool { return o.Dependencies != nil || o.Custom.Dependencies != nil }, interpretDependencies},
	}
}

// OperationNames are the names of all operations, in their order.
func OperationNames() []string {
	var all []string
	for _, d := range operationDefinitions() {
		all = append(all, string(d.operation))
	}
	return all
}

// ParseOperation returns the operation of a name, however its letters are written.
func ParseOperation(name string) (Operation, bool) {
	for _, d := range operationDefinitions() {
		if strings.EqualFold(string(d.operation), name) {
			return d.operation, true
		}
	}
	return "", false
}

// Script returns the script of a customization that answers the operation.
func (o Operation) Script() lua.Operation { return o.findDefinition().script }

// OfScript returns the operation that a script answers.
func OfScript(script lua.Operation) Operation {
	for _, d := range operationDefinitions() {
		if d.script == script {
			return d.operation
		}
	}
	return ""
}

// findDefinition is that of an operation that ParseOperation knows.
func (o Operation) findDefinition() operationDefinition {
	for _, d := range operationDefinitions() {
		if d.operation == o {
			return d
		}
	}
	return operationDefinition{}
}
