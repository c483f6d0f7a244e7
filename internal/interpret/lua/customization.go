// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret"
)

// Operation is what a script is for, by the name of its field in a
// ResourceInterpreterCustomization.
type Operation string

// The operations.
const (
	Retention                Operation = "retention"
	ReplicaResource          Operation = "replicaResource"
	ComponentResource        Operation = "componentResource"
	ReplicaRevision          Operation = "replicaRevision"
	StatusReflection         Operation = "statusReflection"
	StatusAggregation        Operation = "statusAggregation"
	HealthInterpretation     Operation = "healthInterpretation"
	DependencyInterpretation Operation = "dependencyInterpretation"
)

// AllOperations are all operations, in their order.
func AllOperations() []Operation {
	return []Operation{
		Retention, ReplicaResource, ComponentResource, ReplicaRevision,
		StatusReflection, StatusAggregation, HealthInterpretation, DependencyInterpretation,
	}
}

// FunctionName is the name of the function that a script for the operation has.
func (o Operation) FunctionName() string {
	return map[Operation]string{
		Retention: "Retain", ReplicaResource: "GetReplicas", ComponentResource: "GetComponents", ReplicaRevision: "ReviseReplica",
		StatusReflection: "ReflectStatus", StatusAggregation: "AggregateStatus",
		HealthInterpretation: "InterpretHealth", DependencyInterpretation: "GetDependencies",
	}[o]
}

// Customization is what somebody says of a kind.
type Customization struct {
	Name string
	// Shipped reports whether it is one of Capstan's own.
	Shipped bool
	Kind    schema.GroupVersionKind
	// Scripts are by their operation.
	Scripts map[Operation]string
}

// displayTitle names the customization in errors.
func (c Customization) displayTitle() string {
	if c.Shipped {
		return fmt.Sprintf("what Capstan ships for %s of %s", c.Kind.Kind, c.Kind.Group)
	}
	return fmt.Sprintf("ResourceInterpreterCustomization %q", c.Name)
}

// ScriptedKinds is a layer of kinds that are customized.
type ScriptedKinds struct {
	kinds map[schema.GroupVersionKind]interpret.Operations
}

// Operations is part of interpret.Layer.
func (k *ScriptedKinds) Operations(kind schema.GroupVersionKind) interpret.Operations {
	return k.kinds[kind]
}

// NewLayer makes a layer of customizations, the names of which differ. If several are
// for one kind and operation, the first one by name counts; their dependencies
// count together. An operation whose script does not compile fails each time.
func (m *Machine) NewLayer(all []Customization) *ScriptedKinds {
	k := &ScriptedKinds{kinds: map[schema.GroupVersionKind]interpret.Operations{}}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Customization) int { return cmp.Compare(a.Name, b.Name) })
	for _, c := range all {
		known := k.kinds[c.Kind]
		known.Custom = m.mergeCustomization(known.Custom, c)
		k.kinds[c.Kind] = known
	}
	return k
}

// mergeCustomization adds a customization to what those before it say.
func (m *Machine) mergeCustomization(known interpret.CustomOperations, c Customization) interpret.CustomOperations {
	for _, operation := range AllOperations() {
		source, has := c.Scripts[operation]
		if !has {
			continue
		}
		o := &scriptedOperation{machine: m, by: c.displayTitle(), shipped: c.Shipped, operation: operation, compiled: sync.OnceValues(func() (*Script, error) {
			return CompileScript(string(operation), operation.FunctionName(), source)
		})}
		added := o.customOperations()
		if known.Dependencies != nil && added.Dependencies != nil {
			known.Dependencies = joinDependencies(known.Dependencies, added.Dependencies)
		}
		known = known.WithFallback(added)
	}
	return known
}

// joinDependencies returns the dependencies that either finds, each once.
func joinDependencies(one, other func(map[string]any) ([]interpret.Dependency, error)) func(map[string]any) ([]interpret.Dependency, error) {
	return func(object map[string]any) ([]interpret.Dependency, error) {
		all, err := one(object)
		more, wrong := other(object)
		if err := errors.Join(err, wrong); err != nil {
			return nil, err
		}
		return uniqueDependencies(slices.Concat(all, more)), nil
	}
}
