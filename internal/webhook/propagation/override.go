// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/affinity"
)

// operationsMax is how many operations a policy may have, in all of its rules together. A
// cluster gets those of a few rules, whose work package override limits.
const operationsMax = 5000

// What is asked for with each operator.
const (
	noValue   = "operator remove takes no value: leave it out"
	needValue = "operator %s needs a value"
)

// checkOverride returns what is wrong with the spec of an override policy in a
// namespace, or of one that is for all.
func checkOverride(namespace string, spec *policyv1alpha1.OverrideSpec) (admission.Warnings, fieldMistakes) {
	var warnings admission.Warnings
	path := field.NewPath("spec")
	if n := countOperations(spec); n > operationsMax {
		return nil, fieldMistakes{field.TooMany(path, n, operationsMax)} // and nothing more is looked at
	}
	if wrong := affinity.CheckTargets(spec, path); len(wrong) > 0 {
		return nil, wrong
	}
	wrong := checkSelectors(namespace, spec.ResourceSelectors, path.Child("resourceSelectors"))
	if spec.TargetCluster != nil {
		warnings = append(warnings, "spec.targetCluster is deprecated: use overrideRules")
		_, problems := affinity.CompileAffinity(spec.TargetCluster, path.Child("targetCluster"))
		wrong = append(wrong, problems...)
	}
	if countChanges(&spec.Overriders) > 0 {
		warnings = append(warnings, "spec.overriders is deprecated: use overrideRules")
		wrong = append(wrong, checkOverriders(&spec.Overriders, path.Child("overriders"))...)
	}
	for i := range spec.OverrideRules {
		at := path.Child("overrideRules").Index(i)
		_, problems := affinity.CompileAffinity(spec.OverrideRules[i].TargetCluster, at.Child("targetCluster"))
		wrong = append(wrong, problems...)
		wrong = append(wrong, checkOverriders(&spec.OverrideRules[i].Overriders, at.Child("overriders"))...)
	}
	return warnings, wrong
}

// countOperations returns how many changes a policy has, with those within texts.
func countOperations(spec *policyv1alpha1.OverrideSpec) int {
	all := countChanges(&spec.Overriders)
	for i := range spec.OverrideRules {
		all += countChanges(&spec.OverrideRules[i].Overriders)
	}
	return all
}

// countChanges returns how many changes there are, with those within texts.
func countChanges(o *policyv1alpha1.Overriders) int {
	all := len(o.Plaintext) + len(o.ImageOverrider) + len(o.CommandOverrider) + len(o.ArgsOverrider) +
		len(o.LabelsOverrider) + len(o.AnnotationsOverrider) + len(o.FieldOverrider)
	for i := range o.FieldOverrider {
		all += len(o.FieldOverrider[i].JSON) + len(o.FieldOverrider[i].YAML)
	}
	return all
}

func checkOverriders(o *policyv1alpha1.Overriders, path *field.Path) fieldMistakes {
	var wrong fieldMistakes
	for i := range o.Plaintext {
		at := path.Child("plaintext").Index(i)
		p := &o.Plaintext[i]
		wrong = append(wrong, checkPointer(p.Path, at.Child("path"))...)
		wrong = append(wrong, checkValue(p.Operator, string(p.Value.Raw), at.Child("value"))...)
	}
	for i := range o.ImageOverrider {
		wrong = append(wrong, checkImage(&o.ImageOverrider[i], path.Child("imageOverrider").Index(i))...)
	}
	wrong = append(wrong, checkContainers(o.CommandOverrider, path.Child("commandOverrider"))...)
	wrong = append(wrong, checkContainers(o.ArgsOverrider, path.Child("argsOverrider"))...)
	for i, l := range o.LabelsOverrider {
		wrong = append(wrong, metav1validation.ValidateLabels(l.Value, path.Child("labelsOverrider").Index(i).Child("value"))...)
	}
	for i, a := range o.AnnotationsOverrider {
		wrong = append(wrong, validation.ValidateAnnotations(a.Value, path.Child("annotationsOverrider").Index(i).Child("value"))...)
	}
	for i := range o.FieldOverrider {
		wrong = append(wrong, checkField(&o.FieldOverrider[i], path.Child("fieldOverrider").Index(i))...)
	}
	return wrong
}

func checkContainers(overriders []policyv1alpha1.CommandArgsOverrider, path *field.Path) fieldMistakes {
	var wrong fieldMistakes
	for i, o := range overriders {
		if o.ContainerName == "" {
			wrong = append(wrong, field.Required(path.Index(i).Child("containerName"), "the name of the container whose list is changed"))
		}
	}
	return wrong
}

func checkField(f *policyv1alpha1.FieldOverrider, path *field.Path) fieldMistakes {
	wrong := checkPointer(f.FieldPath, path.Child("fieldPath"))
	if len(f.JSON) > 0 && len(f.YAML) > 0 {
		wrong = append(wrong, field.Forbidden(path.Child("yaml"), "json and yaml exclude each other, as the field has one of the two: remove one of them"))
	}
	wrong = append(wrong, checkOperations(f.JSON, path.Child("json"))...)
	return append(wrong, checkOperations(f.YAML, path.Child("yaml"))...)
}

func checkOperations(operations []policyv1alpha1.JSONPatchOperation, path *field.Path) fieldMistakes {
	var wrong fieldMistakes
	for i := range operations {
		at := path.Index(i)
		wrong = append(wrong, checkPointer(operations[i].SubPath, at.Child("subPath"))...)
		wrong = append(wrong, checkValue(operations[i].Operator, string(operations[i].Value.Raw), at.Child("value"))...)
	}
	return wrong
}

// checkValue asks for a value as the operator needs it.
func checkValue(operator policyv1alpha1.OverriderOperator, value string, path *field.Path) fieldMistakes {
	switch remove := operator == policyv1alpha1.OverriderOpRemove; {
	case remove && value != "":
		return fieldMistakes{field.Forbidden(path, noValue)}
	case !remove && value == "":
		return fieldMistakes{field.Required(path, fmt.Sprintf(needValue, operator))}
	default:
		return nil
	}
}

// checkPointer returns what is wrong with a JSON pointer to a field.
func checkPointer(pointer string, path *field.Path) fieldMistakes {
	if unescaped := strings.NewReplacer("~0", "", "~1", "").Replace(pointer); strings.HasPrefix(pointer, "/") && !strings.Contains(unescaped, "~") {
		return nil
	}
	return fieldMistakes{field.Invalid(path, pointer, "want a JSON pointer, such as /spec/replicas; in a key a slash is written ~1 and a tilde ~0")}
}

// checkImage looks whether there is an image whose name is right after the change.
func checkImage(o *policyv1alpha1.ImageOverrider, path *field.Path) fieldMistakes {
	var wrong fieldMistakes
	if o.Predicate != nil {
		wrong = checkPointer(o.Predicate.Path, path.Child("predicate", "path"))
	}
	if problems := checkValue(o.Operator, o.Value, path.Child("value")); len(problems) > 0 || o.Operator == policyv1alpha1.OverriderOpRemove {
		return append(wrong, problems...)
	}
	if _, err := reference.Parse(exampleImage(o)); err != nil {
		wrong = append(wrong, field.Invalid(path.Child("value"), o.Value, fmt.Sprintf("it cannot be a part of an image's name, here the %s: %v", strings.ToLower(string(o.Component)), err)))
	}
	return wrong
}

// exampleImage is the name of an image after the change.
func exampleImage(o *policyv1alpha1.ImageOverrider) string {
	part := o.Value
	if o.Operator == policyv1alpha1.OverriderOpAdd {
		part = map[policyv1alpha1.ImageComponent]string{
			policyv1alpha1.ImageRegistry: "a.b", policyv1alpha1.ImageRepository: "a", policyv1alpha1.ImageTag: "1",
		}[o.Component] + part
	}
	switch {
	case o.Component == policyv1alpha1.ImageRegistry:
		return part + "/a"
	case o.Component == policyv1alpha1.ImageRepository:
		return "a.b/" + part
	case strings.Contains(part, ":") && !strings.Contains(part, "@"):
		return "a@" + part
	default:
		return "a:" + part
	}
}
