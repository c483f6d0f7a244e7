// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/capstan-io/capstan/internal/cli/interpreters"
	"github.com/capstan-io/capstan/internal/interpret"
)

// interpreterSources returns who says what the object means.
func (f *ObjectFacts) interpreterSources() []interpreters.Source {
	if f.Known == nil || f.Template == nil {
		return nil
	}
	return f.Known.SourcesFor(f.Template.GroupVersionKind())
}

// failedOperations says which operations of the hub fail, why, and what becomes of it. What
// agents do with the object, they say themselves.
func (f *ObjectFacts) failedOperations() []string {
	if f.Known == nil || f.Template == nil {
		return nil
	}
	template := interpreters.OperationInput{Desired: f.Template}
	var notes []string
	try := func(o interpreters.Operation, in interpreters.OperationInput, consequence string) {
		_, err := f.Known.RunOperation(o, in)
		if err == nil || errors.Is(err, interpreters.ErrNobody) || errors.Is(err, interpreters.ErrWebhook) {
			return
		}
		notes = append(notes, fmt.Sprintf("%s fails, so %s: %v. \"capstan interpret --operation %s\" tries it, and %s.",
			o, consequence, err, o, f.remedy(o)))
	}
	stays := "its binding stays as it is"
	if f.Binding == nil {
		stays = "it gets no binding"
	}
	try(interpreters.InterpretReplica, template, stays)
	try(interpreters.InterpretComponent, template, stays+" if feature gate MultiplePodTemplatesScheduling is on")
	if f.Binding == nil {
		return notes
	}
	if f.Binding.Spec.PropagateDeps {
		try(interpreters.InterpretDependency, template, "what is sent along with it stays as it is")
	}
	for _, target := range f.Binding.Spec.Clusters {
		if f.Binding.divides() && target.Replicas > 0 {
			try(interpreters.ReviseReplica, interpreters.OperationInput{Desired: f.Template, Replicas: &target.Replicas}, "the clusters keep what they have")
			break // the others fail in the same way, or say so themselves
		}
	}
	try(interpreters.AggregateStatus, interpreters.OperationInput{Desired: f.Template, Items: f.Binding.reportedItems()}, "its status on the hub stays as it is")
	return notes
}

// remedy says how to have an operation answered in another way.
func (f *ObjectFacts) remedy(o interpreters.Operation) string {
	for _, source := range f.interpreterSources() {
		if source.Name != "" && slices.Contains(source.Operations, o) {
			return fmt.Sprintf("\"capstan interpret %s --edit\" fixes the script", source.Name)
		}
	}
	return "a ResourceInterpreterCustomization of your own takes precedence over the script that ships with Capstan"
}

// reportedItems are what the clusters report.
func (b *BindingObject) reportedItems() []interpret.ClusterItem {
	all := []interpret.ClusterItem{}
	for _, reported := range b.Status.AggregatedStatus {
		item := interpret.ClusterItem{Cluster: reported.ClusterName, Applied: reported.Applied, Message: reported.AppliedMessage, Health: string(reported.Health)}
		if reported.Status != nil {
			var status map[string]any
			if err := utiljson.Unmarshal(reported.Status.Raw, &status); err == nil { // with numbers as the hub has them
				item.Status = status
			}
		}
		all = append(all, item)
	}
	return all
}
