// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// OperationInput is what an operation is about.
type OperationInput struct {
	// Desired is the object as the hub has it, and Observed as a cluster has it; nil
	// is none. Most operations are about one of them, whichever it is.
	Desired, Observed *unstructured.Unstructured
	// Items are what clusters report.
	Items []interpret.ClusterItem
	// Replicas is how many there are to be; nil is not said.
	Replicas *int32
}

// onlyObject is the only object.
func (i OperationInput) onlyObject() *unstructured.Unstructured {
	if i.Observed != nil {
		return i.Observed
	}
	return i.Desired
}

// Result is the answer of an operation, in the form that scripts read.
type Result struct {
	Operation Operation `json:"operation"`
	// By are those who answer; none are the conventions of all kinds.
	By []string `json:"interpretedBy"`

	Replicas     *int32                            `json:"replicas,omitempty"`
	Requirements *workv1alpha2.ReplicaRequirements `json:"replicaRequirements,omitempty"`
	Components   []workv1alpha2.Component          `json:"components,omitempty"`
	// Object is what is applied.
	Object map[string]any `json:"object,omitempty"`
	// Status is what is reported, or the sum of it.
	Status       map[string]any `json:"status,omitempty"`
	Health       string         `json:"health,omitempty"`
	Dependencies []Dependency   `json:"dependencies,omitempty"`
}

// Dependency is an object that another needs beside it.
type Dependency struct {
	APIVersion    string                `json:"apiVersion"`
	Kind          string                `json:"kind"`
	Namespace     string                `json:"namespace,omitempty"`
	Name          string                `json:"name,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// CheckInput says what an operation lacks, or is given and has no use for. It is nil if
// the input is right.
func (i OperationInput) CheckInput(o Operation) error {
	d := o.findDefinition()
	switch {
	case d.takes == takesBoth && (i.Desired == nil || i.Observed == nil):
		return fmt.Errorf("%s needs --desired-file, the object of the hub, and --observed-file, the one in the cluster", o)
	case d.takes != takesBoth && (i.Desired == nil) == (i.Observed == nil):
		return fmt.Errorf("%s is about one object: give it by either --desired-file or --observed-file", o)
	case (d.takes == takesObjectAndReplicas) != (i.Replicas != nil):
		return fmt.Errorf("%s is for %s, which needs it", "--desired-replica", ReviseReplica)
	case (d.takes == takesObjectAndItems) != (i.Items != nil):
		return fmt.Errorf("%s is for %s, which needs it", "--status-file", AggregateStatus)
	default:
		return nil
	}
}

// ErrNobody is the error of an operation that nobody answers.
var ErrNobody = errors.New("nothing interprets it")

// ErrWebhook is the error of an operation that a webhook of the hub answers.
var ErrWebhook = errors.New("a webhook of the hub answers it, which is not asked here")

// RunOperation answers an operation. An error is that of the one who answers, or one of
// ErrNobody and ErrWebhook.
func (k *KnownInterpreters) RunOperation(o Operation, in OperationInput) (*Result, error) {
	result := &Result{Operation: o, By: []string{}}
	kind := in.onlyObject().GroupVersionKind()
	for _, source := range k.SourcesFor(kind) {
		if slices.Contains(source.Operations, o) {
			result.By = append(result.By, source.String())
		}
	}
	if name := k.answeringWebhook(o, kind); name != "" {
		return result, fmt.Errorf("ResourceInterpreterWebhookConfiguration %s, %s: %w", name, o, ErrWebhook)
	}
	return result, o.findDefinition().run(k.chain, in, result)
}

func interpretReplicas(chain interpret.Chain, in OperationInput, r *Result) error {
	count, needs, has, err := chain.GetReplicas(in.onlyObject())
	if err == nil && !has {
		return ErrNobody
	}
	r.Replicas, r.Requirements = &count, replicaRequirements(needs)
	return err
}

func replicaRequirements(needs *interpret.Requirements) *workv1alpha2.ReplicaRequirements {
	if needs == nil {
		return nil
	}
	told := &workv1alpha2.ReplicaRequirements{ResourceRequest: needs.Requests, PriorityClassName: needs.PriorityClassName}
	if len(needs.NodeSelector) > 0 || len(needs.Tolerations) > 0 || needs.HardNodeAffinity != nil {
		told.NodeClaim = &workv1alpha2.NodeClaim{NodeSelector: needs.NodeSelector, Tolerations: needs.Tolerations, HardNodeAffinity: needs.HardNodeAffinity}
	}
	return told
}

func interpretComponents(chain interpret.Chain, in OperationInput, r *Result) error {
	parts, has, err := chain.GetComponents(in.onlyObject())
	if err == nil && !has {
		return ErrNobody
	}
	for _, part := range parts {
		told := workv1alpha2.Component{Name: part.Name, Replicas: part.Replicas}
		if needs := replicaRequirements(part.Needs); needs != nil {
			told.ReplicaRequirements = &workv1alpha2.ComponentReplicaRequirements{
				NodeClaim: needs.NodeClaim, ResourceRequest: needs.ResourceRequest, PriorityClassName: needs.PriorityClassName,
			}
		}
		r.Components = append(r.Components, told)
	}
	return err
}

func reviseReplicas(chain interpret.Chain, in OperationInput, r *Result) error {
	if known := chain.Operations(in.onlyObject().GroupVersionKind()); known.Revise == nil && known.Custom.Revise == nil {
		return ErrNobody
	}
	revised, err := chain.ReviseReplicas(in.onlyObject(), *in.Replicas)
	if err != nil {
		return err
	}
	r.Object = revised.Object
	return nil
}

// retainFields returns what is applied. Of kinds without a script, it has the fields that
// are the cluster's as they are there.
func retainFields(chain interpret.Chain, in OperationInput, r *Result) error {
	known := chain.Operations(in.Desired.GroupVersionKind())
	if known.Custom.Retain != nil {
		object, err := known.Custom.Retain(in.Desired.Object, in.Observed.Object)
		r.Object = object
		return err
	}
	r.Object = runtime.DeepCopyJSON(in.Desired.Object)
	for _, path := range chain.RetainedFieldPaths(in.Desired) {
		if fields.Get(r.Object, path...) == nil {
			continue // apply leaves alone what it is not given
		}
		if value := fields.Get(in.Observed.Object, path...); value != nil {
			r.Object = fields.With(r.Object, runtime.DeepCopyJSONValue(value), path...)
			continue
		}
		r.Object = fields.Without(r.Object, path...)
	}
	return nil
}

func reflectStatus(chain interpret.Chain, in OperationInput, r *Result) (err error) {
	object := in.onlyObject()
	switch known := chain.Operations(object.GroupVersionKind()); {
	case known.Custom.Reflect != nil:
		r.Status, err = known.Custom.Reflect(object.Object)
	case known.Reflect != nil:
		r.Status = known.Reflect(object.Object)
	default:
		r.Status = fields.Map(object.Object, "status")
	}
	return err
}

func aggregateStatus(chain interpret.Chain, in OperationInput, r *Result) (err error) {
	object := in.onlyObject()
	switch known := chain.Operations(object.GroupVersionKind()); {
	case known.Custom.Aggregate != nil:
		r.Status, err = known.Custom.Aggregate(object.Object, in.Items)
	case known.Aggregate != nil:
		r.Status = known.Aggregate(object.Object, in.Items)
	default:
		r.Status = aggregate.MergeUsualStatus(object.Object, in.Items, aggregate.AggregationRules{})
	}
	return err
}

func interpretHealth(chain interpret.Chain, in OperationInput, r *Result) (err error) {
	object := in.onlyObject()
	switch known := chain.Operations(object.GroupVersionKind()); {
	case known.Custom.Verdict != nil:
		r.Health, err = known.Custom.Verdict(object.Object)
	case known.Verdict != nil:
		r.Health = known.Verdict(object.Object)
	default:
		judged := chain.AssessHealth(object).Status
		r.Health = interpret.HealthVerdictIf(judged != health.Degraded)
		if judged == health.Unknown {
			r.Health = interpret.Unknown
		}
	}
	return err
}

func interpretDependencies(chain interpret.Chain, in OperationInput, r *Result) error {
	found, err := chain.GetDependencies(in.onlyObject())
	if err == nil && !chain.MayHaveDependencies(in.onlyObject().GroupVersionKind()) {
		return ErrNobody
	}
	for _, d := range found {
		r.Dependencies = append(r.Dependencies, Dependency{d.APIVersion, d.Kind, d.Namespace, d.Name, d.Selector})
	}
	return err
}
