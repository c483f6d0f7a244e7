// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
)

const (
	// entriesMax limits how many components or dependencies an answer has.
	entriesMax = 1000
	// objectMax limits the bytes of an object that a patch makes, and of what its
	// operations copy.
	objectMax = 4 << 20
	// operationsMax limits how many operations a patch has.
	operationsMax = 10000
)

// customOperations returns an operation of the webhook as one of a kind.
func (h *hook) customOperations(operation configv1alpha1.InterpreterOperation) interpret.CustomOperations {
	about := func(object map[string]any) interpreterRequest {
		return interpreterRequest{hook: h, operation: operation, object: object}
	}
	switch operation {
	case configv1alpha1.InterpreterOperationInterpretReplica:
		return interpret.CustomOperations{Replicas: func(object map[string]any) (int32, *interpret.Requirements, error) {
			return about(object).replicasOf()
		}}
	case configv1alpha1.InterpreterOperationInterpretComponent:
		return interpret.CustomOperations{Components: func(object map[string]any) ([]interpret.Component, error) {
			return askAndRead(about(object), readComponents)
		}}
	case configv1alpha1.InterpreterOperationReviseReplica:
		return interpret.CustomOperations{Revise: func(object map[string]any, replicas int32) (map[string]any, error) {
			q := about(object)
			q.replicas = &replicas
			return askAndRead(q, q.patchedObject)
		}}
	case configv1alpha1.InterpreterOperationRetain:
		return interpret.CustomOperations{Retain: func(desired, observed map[string]any) (map[string]any, error) {
			q := about(desired)
			q.observed = observed
			return askAndRead(q, q.patchedObject)
		}}
	case configv1alpha1.InterpreterOperationInterpretStatus:
		return interpret.CustomOperations{Reflect: func(object map[string]any) (map[string]any, error) {
			return askAndRead(about(object), rawStatus)
		}}
	case configv1alpha1.InterpreterOperationAggregateStatus:
		return interpret.CustomOperations{Aggregate: func(template map[string]any, items []interpret.ClusterItem) (map[string]any, error) {
			q := about(template)
			q.items = items
			object, err := askAndRead(q, q.patchedObject)
			return fields.Map(object, "status"), err
		}}
	case configv1alpha1.InterpreterOperationInterpretHealth:
		return interpret.CustomOperations{Verdict: func(object map[string]any) (string, error) {
			return askAndRead(about(object), readHealthVerdict)
		}}
	default:
		return interpret.CustomOperations{Dependencies: func(object map[string]any) ([]interpret.Dependency, error) {
			return askAndRead(about(object), readDependencies)
		}}
	}
}

// askAndRead asks, and reads the answer.
func askAndRead[T any](q interpreterRequest, read func(*configv1alpha1.ResourceInterpreterResponse) (T, error)) (T, error) {
	response, err := q.sendRequest()
	if err != nil {
		return *new(T), err
	}
	value, err := read(response)
	if err != nil {
		return *new(T), q.invalidAnswerError(err)
	}
	return value, nil
}

func (q interpreterRequest) replicasOf() (int32, *interpret.Requirements, error) {
	response, err := q.sendRequest()
	switch {
	case err != nil:
		return 0, nil, err
	case response.Replicas == nil:
		return 0, nil, q.invalidAnswerError(errors.New("its answer has no response.replicas"))
	case *response.Replicas < 0:
		return 0, nil, q.invalidAnswerError(fmt.Errorf("response.replicas of its answer is %d", *response.Replicas))
	}
	needs := &interpret.Requirements{}
	if r := response.ReplicaRequirements; r != nil {
		needs = requirementsWithClaim(r.NodeClaim, interpret.Requirements{
			Requests: r.ResourceRequest, PriorityClassName: r.PriorityClassName, Namespace: r.Namespace,
		})
	}
	if needs.IsZero() {
		return *response.Replicas, nil, nil
	}
	return *response.Replicas, needs, nil
}

func requirementsWithClaim(claim *workv1alpha2.NodeClaim, needs interpret.Requirements) *interpret.Requirements {
	if claim != nil {
		needs.NodeSelector = claim.NodeSelector
		needs.Tolerations = claim.Tolerations
		needs.HardNodeAffinity = claim.HardNodeAffinity
	}
	return &needs
}

func readComponents(response *configv1alpha1.ResourceInterpreterResponse) ([]interpret.Component, error) {
	if len(response.Components) > entriesMax {
		return nil, fmt.Errorf("its answer has %d components, more than %d", len(response.Components), entriesMax)
	}
	all := make([]interpret.Component, 0, len(response.Components))
	for i, one := range response.Components {
		if one.Name == "" || one.Replicas < 0 {
			return nil, fmt.Errorf("response.components[%d] of its answer has no name, or less than 0 replicas", i)
		}
		component := interpret.Component{Name: one.Name, Replicas: one.Replicas}
		if r := one.ReplicaRequirements; r != nil {
			needs := requirementsWithClaim(r.NodeClaim, interpret.Requirements{Requests: r.ResourceRequest, PriorityClassName: r.PriorityClassName})
			if !needs.IsZero() {
				component.Needs = needs
			}
		}
		all = append(all, component)
	}
	return all, nil
}

func readDependencies(response *configv1alpha1.ResourceInterpreterResponse) ([]interpret.Dependency, error) {
	if len(response.Dependencies) > entriesMax {
		return nil, fmt.Errorf("its answer has %d dependencies, more than %d", len(response.Dependencies), entriesMax)
	}
	all := make([]interpret.Dependency, 0, len(response.Dependencies))
	for i, one := range response.Dependencies {
		if one.APIVersion == "" || one.Kind == "" || (one.Name == "") == (one.LabelSelector == nil) {
			return nil, fmt.Errorf("response.dependencies[%d] of its answer lacks apiVersion, kind, or either name or labelSelector", i)
		}
		all = append(all, interpret.Dependency{
			APIVersion: one.APIVersion, Kind: one.Kind, Namespace: one.Namespace, Name: one.Name, Selector: one.LabelSelector,
		})
	}
	return all, nil
}

func readHealthVerdict(response *configv1alpha1.ResourceInterpreterResponse) (string, error) {
	if response.Healthy == nil {
		return "", errors.New("its answer has no response.healthy")
	}
	return interpret.HealthVerdictIf(*response.Healthy), nil
}

func rawStatus(response *configv1alpha1.ResourceInterpreterResponse) (map[string]any, error) {
	if response.RawStatus == nil {
		return nil, errors.New("its answer has no response.rawStatus")
	}
	var status map[string]any
	if err := utiljson.Unmarshal(response.RawStatus.Raw, &status); err != nil {
		return nil, errors.New("response.rawStatus of its answer is not a JSON object")
	}
	if len(status) == 0 {
		return nil, nil
	}
	return status, nil
}

// patchedObject returns the object of the question as the answer changes it.
func (q interpreterRequest) patchedObject(response *configv1alpha1.ResourceInterpreterResponse) (map[string]any, error) {
	switch {
	case len(response.Patch) == 0 && response.PatchType == nil:
		return q.object, nil
	case response.PatchType == nil:
		return nil, fmt.Errorf("its answer has response.patch and no response.patchType, want %s", configv1alpha1.PatchTypeJSONPatch)
	case *response.PatchType != configv1alpha1.PatchTypeJSONPatch:
		return nil, fmt.Errorf("response.patchType of its answer is %q, want %s", limitText(string(*response.PatchType)), configv1alpha1.PatchTypeJSONPatch)
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	switch {
	case err != nil:
		return nil, errors.New("response.patch of its answer is not a JSON patch, which is a list of operations (RFC 6902)")
	case len(patch) > operationsMax:
		return nil, fmt.Errorf("response.patch of its answer has %d operations, more than %d", len(patch), operationsMax)
	}
	document, err := json.Marshal(q.object)
	if err != nil {
		return nil, fmt.Errorf("writing the object as JSON: %w", err)
	}
	changed, err := applyPatch(patch, document)
	switch {
	case err != nil:
		return nil, fmt.Errorf("response.patch of its answer cannot be applied to the object: %s", limitText(err.Error()))
	case len(changed) > objectMax:
		return nil, fmt.Errorf("response.patch of its answer makes an object of %d bytes, more than %d", len(changed), objectMax)
	}
	var object map[string]any
	if err := utiljson.Unmarshal(changed, &object); err != nil {
		return nil, errors.New("response.patch of its answer turns the object into something that is not an object")
	}
	return object, q.checkSameObject(object)
}

// applyPatch applies a patch of somebody who is not trusted.
func applyPatch(patch jsonpatch.Patch, document []byte) (changed []byte, err error) {
	defer func() {
		if r := recover(); r != nil { // a mistake of the library must not end the process
			err = errors.New("it is odd")
		}
	}()
	options := jsonpatch.NewApplyOptions()
	options.EscapeHTML = false
	options.AccumulatedCopySizeLimit = objectMax
	return patch.ApplyWithOptions(document, options)
}

// checkSameObject reports whether an object that an answer makes is still the one in question.
func (q interpreterRequest) checkSameObject(object map[string]any) error {
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		if fields.String(q.object, path...) != fields.String(object, path...) {
			return fmt.Errorf("response.patch of its answer changes %s, which makes it another object", path[len(path)-1])
		}
	}
	return nil
}
