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

// operator is an operation by a script.
type operator struct {
	machine *Machine
	// by is whose script it is, and shipped whether that is Capstan's own.
	by        string
	shipped   bool
	operation Operation
	// compiled returns the script. It is compiled when it is needed for the first
	// time: most of those that read customizations have no object of the kind.
	compiled func() (*Script, error)
}

// call runs the script.
func (o *operator) call(call Call) ([]any, error) {
	script, err := o.compiled()
	if err != nil {
		return nil, o.failed(err)
	}
	made, err := o.machine.Run(script, call)
	if err != nil {
		return nil, o.failed(err)
	}
	return made, nil
}

// failed says whose script has no answer.
func (o *operator) failed(err error) error {
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

// answer runs the script and reads the only thing that it returns.
func answer[T any](o *operator, read func(any) (T, error), call Call) (T, error) {
	call.Results = 1
	made, err := o.call(call)
	if err != nil {
		return *new(T), err
	}
	value, err := read(made[0])
	if err != nil {
		return *new(T), o.failed(err)
	}
	return value, nil
}

// same reads an answer that has to be the object, changed.
func same(object map[string]any) func(value any) (map[string]any, error) {
	return func(value any) (map[string]any, error) {
		made, err := asObject(value)
		if err == nil {
			err = interpret.CheckSame(made, object)
		}
		return made, err
	}
}

// custom returns the operation as one of a kind.
func (o *operator) custom() interpret.Custom {
	switch o.operation {
	case Retention:
		return interpret.Custom{Retain: func(desired, observed map[string]any) (map[string]any, error) {
			return answer(o, same(desired), Call{Arguments: []any{desired, observed}, Like: []any{desired, observed}})
		}}
	case ReplicaResource:
		return interpret.Custom{Replicas: o.replicas}
	case ComponentResource:
		return interpret.Custom{Components: func(object map[string]any) ([]interpret.Component, error) {
			return answer(o, asComponents, Call{Arguments: []any{object}})
		}}
	case ReplicaRevision:
		return interpret.Custom{Revise: func(object map[string]any, replicas int32) (map[string]any, error) {
			return answer(o, same(object), Call{Arguments: []any{object, int64(replicas)}, Like: []any{object}})
		}}
	case StatusReflection:
		return interpret.Custom{Reflect: func(object map[string]any) (map[string]any, error) {
			return answer(o, asStatus, Call{Arguments: []any{object}, Like: []any{object["status"]}})
		}}
	case StatusAggregation:
		return interpret.Custom{Aggregate: o.aggregate}
	case HealthInterpretation:
		return interpret.Custom{Verdict: o.verdict}
	default:
		return interpret.Custom{Dependencies: func(object map[string]any) ([]interpret.Dependency, error) {
			return answer(o, asDependencies, Call{Arguments: []any{object}})
		}}
	}
}

func (o *operator) replicas(object map[string]any) (int32, *interpret.Requirements, error) {
	made, err := o.call(Call{Arguments: []any{object}, Results: 2})
	if err != nil {
		return 0, nil, err
	}
	replicas, err := asReplicas(made[0])
	if err != nil {
		return 0, nil, o.failed(err)
	}
	needs, err := asRequirements(made[1])
	if err != nil {
		return 0, nil, o.failed(err)
	}
	return replicas, needs, nil
}

// aggregate gives the script the items as Karmada does, and takes the status out of
// the object that it returns.
func (o *operator) aggregate(template map[string]any, items []interpret.Item) (map[string]any, error) {
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
	object, err := answer(o, asObject, Call{Arguments: []any{template, given}, Like: like})
	if err != nil {
		return nil, err
	}
	return fields.Map(object, "status"), nil
}

// verdict returns what the script says. The controllers of the kinds that are shipped
// write a status of each object: one without any is not known to be unhealthy.
func (o *operator) verdict(object map[string]any) (string, error) {
	verdict, err := answer(o, asVerdict, Call{Arguments: []any{object}})
	if o.shipped && verdict == interpret.Unhealthy && len(fields.Map(object, "status")) == 0 {
		verdict = interpret.Unknown
	}
	return verdict, err
}

func asVerdict(value any) (string, error) {
	healthy, is := value.(bool)
	if !is {
		return "", wants("true or false", value)
	}
	return interpret.VerdictIf(healthy), nil
}
