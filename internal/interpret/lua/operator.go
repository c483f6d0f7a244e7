// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"errors"
	"fmt"
	"time"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// scriptedOperation is an operation by a script.
type scriptedOperation struct {
	machine *Machine
	// by is whose script it is, and shipped whether that is Capstan's own.
	by        string
	shipped   bool
	operation Operation
	// compiled returns the script. It is compiled when it is needed for the first
	// time: most of those that read customizations have no object of the kind.
	compiled func() (*Script, error)
}

// runScript runs the script.
func (o *scriptedOperation) runScript(call ScriptCall) ([]any, error) {
	script, err := o.compiled()
	if err != nil {
		return nil, o.customError(err)
	}
	made, err := o.machine.RunScript(script, call)
	if err != nil {
		return nil, o.customError(err)
	}
	return made, nil
}

// customError says whose script has no answer.
func (o *scriptedOperation) customError(err error) error {
	remedy := fmt.Sprintf("Correct spec.customizations.%s.luaScript, or remove it.", o.operation)
	if o.shipped {
		remedy = "Look whether the object is as its kind wants it, or write a ResourceInterpreterCustomization for the kind, which goes before."
	}
	again := time.Duration(0)
	if errors.Is(err, errSlow) {
		again = slowAgain
	}
	return &interpret.CustomError{By: o.by, Operation: string(o.operation), Err: err, Remedy: remedy, Again: again}
}

// readAnswer runs the script and reads the only thing that it returns.
func readAnswer[T any](o *scriptedOperation, read func(any) (T, error), call ScriptCall) (T, error) {
	call.Results = 1
	made, err := o.runScript(call)
	if err != nil {
		return *new(T), err
	}
	value, err := read(made[0])
	if err != nil {
		return *new(T), o.customError(err)
	}
	return value, nil
}

// asSameObject reads an answer that has to be the object, changed.
func asSameObject(object map[string]any) func(value any) (map[string]any, error) {
	return func(value any) (map[string]any, error) {
		made, err := asObject(value)
		if err == nil {
			err = interpret.CheckSame(made, object)
		}
		return made, err
	}
}

// customOperations returns the operation as one of a kind.
func (o *scriptedOperation) customOperations() interpret.CustomOperations {
	switch o.operation {
	case Retention:
		return interpret.CustomOperations{Retain: func(desired, observed map[string]any) (map[string]any, error) {
			return readAnswer(o, asSameObject(desired), ScriptCall{Arguments: []any{desired, observed}, Like: []any{desired, observed}})
		}}
	case ReplicaResource:
		return interpret.CustomOperations{Replicas: o.readReplicas}
	case ComponentResource:
		return interpret.CustomOperations{Components: func(object map[string]any) ([]interpret.Component, error) {
			return readAnswer(o, asComponents, ScriptCall{Arguments: []any{object}})
		}}
	case ReplicaRevision:
		return interpret.CustomOperations{Revise: func(object map[string]any, replicas int32) (map[string]any, error) {
			return readAnswer(o, asSameObject(object), ScriptCall{Arguments: []any{object, int64(replicas)}, Like: []any{object}})
		}}
	case StatusReflection:
		return interpret.CustomOperations{Reflect: func(object map[string]any) (map[string]any, error) {
			return readAnswer(o, asStatus, ScriptCall{Arguments: []any{object}, Like: []any{object["status"]}})
		}}
	case StatusAggregation:
		return interpret.CustomOperations{Aggregate: o.aggregateStatus}
	case HealthInterpretation:
		return interpret.CustomOperations{Verdict: o.healthVerdict}
	default:
		return interpret.CustomOperations{Dependencies: func(object map[string]any) ([]interpret.Dependency, error) {
			return readAnswer(o, asDependencies, ScriptCall{Arguments: []any{object}})
		}}
	}
}

func (o *scriptedOperation) readReplicas(object map[string]any) (int32, *interpret.Requirements, error) {
	made, err := o.runScript(ScriptCall{Arguments: []any{object}, Results: 2})
	if err != nil {
		return 0, nil, err
	}
	replicas, err := asReplicas(made[0])
	if err != nil {
		return 0, nil, o.customError(err)
	}
	needs, err := asRequirements(made[1])
	if err != nil {
		return 0, nil, o.customError(err)
	}
	return replicas, needs, nil
}

// aggregateStatus gives the script the items as Karmada does, and takes the status out of
// the object that it returns.
func (o *scriptedOperation) aggregateStatus(template map[string]any, items []interpret.ClusterItem) (map[string]any, error) {
	given := make([]any, 0, len(items))
	like := []any{template}
	for _, item := range items {
		entry := map[string]any{"clusterName": item.Cluster, "applied": item.Applied, "health": item.Health}
		if item.Message != "" {
			entry["appliedMessage"] = item.Message
		}
		if item.Status != nil {
			entry["status"] = item.Status
			if len(like) <= likeMax {
				like = append(like, map[string]any{"status": item.Status})
			}
		}
		given = append(given, entry)
	}
	object, err := readAnswer(o, asObject, ScriptCall{Arguments: []any{template, given}, Like: like})
	if err != nil {
		return nil, err
	}
	return fields.Map(object, "status"), nil
}

// healthVerdict returns what the script says. The controllers of the kinds that are shipped
// write a status of each object: one without any is not known to be unhealthy.
func (o *scriptedOperation) healthVerdict(object map[string]any) (string, error) {
	verdict, err := readAnswer(o, asHealthVerdict, ScriptCall{Arguments: []any{object}})
	if o.shipped && verdict == interpret.Unhealthy && len(fields.Map(object, "status")) == 0 {
		verdict = interpret.Unknown
	}
	return verdict, err
}

func asHealthVerdict(value any) (string, error) {
	healthy, is := value.(bool)
	if !is {
		return "", unexpectedResultError("true or false", value)
	}
	return interpret.HealthVerdictIf(healthy), nil
}
