// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// image is the parts of the name of an image, as they are written: nothing is
// added that the runtime would add.
type image struct {
	registry, repository string
	// version is the tag or the digest, or both: 1.27, or sha256:..., or
	// 1.27@sha256:...
	version string
}

func parseImage(text string) (image, error) {
	if text == "" { // a template may leave it to others to set it
		return image{}, nil
	}
	ref, err := reference.Parse(text)
	if err != nil {
		return image{}, fmt.Errorf("image %q: %w", text, err)
	}
	named, is := ref.(reference.Named)
	if !is {
		return image{}, fmt.Errorf("image %q has no name", text)
	}
	parsed := image{repository: named.Name()}
	if len(text) > len(parsed.repository) {
		parsed.version = text[len(parsed.repository)+1:]
	}
	if first, rest, found := strings.Cut(parsed.repository, "/"); found && isRegistry(first) {
		parsed.registry = first
		parsed.repository = rest
	}
	return parsed, nil
}

// isRegistry reports whether the first part of a name with several is a registry.
// Otherwise it belongs to the repository, in the default registry.
func isRegistry(first string) bool {
	return strings.ContainsAny(first, ".:") || first == "localhost" || strings.ToLower(first) != first
}

// isDigest tells digests from tags, which cannot have a colon.
func isDigest(version string) bool { return strings.Contains(version, ":") }

func (i image) String() string {
	text := i.repository
	if i.registry != "" {
		text = i.registry + "/" + text
	}
	switch {
	case i.version == "":
		return text
	case isDigest(i.version) && !strings.Contains(i.version, "@"):
		return text + "@" + i.version
	default:
		return text + ":" + i.version
	}
}

// overrideImage changes the image that the predicate names, or those of all
// containers.
func overrideImage(object *unstructured.Unstructured, o policyv1alpha1.ImageOverrider, left *effortBudget) error {
	if o.Predicate != nil {
		return overrideString(object, o.Predicate.Path, func(text string) (string, error) { return changeImage(text, o, left) })
	}
	all, err := podContainers(object, left)
	if err != nil {
		return err
	}
	for _, c := range all {
		text, _ := c["image"].(string)
		changed, err := changeImage(text, o, left)
		if err != nil {
			return fmt.Errorf("container %q: %w", c["name"], err)
		}
		c["image"] = changed
	}
	return nil
}

func changeImage(text string, o policyv1alpha1.ImageOverrider, left *effortBudget) (string, error) {
	if err := left.takeEffort(len(text)+len(o.Value), imageEffort); err != nil {
		return "", err
	}
	parsed, err := parseImage(text)
	if err != nil {
		return "", err
	}
	part := map[policyv1alpha1.ImageComponent]*string{
		policyv1alpha1.ImageRegistry:   &parsed.registry,
		policyv1alpha1.ImageRepository: &parsed.repository,
		policyv1alpha1.ImageTag:        &parsed.version,
	}[o.Component]
	if part == nil {
		return "", fmt.Errorf("unknown component %q: use Registry, Repository or Tag", o.Component)
	}
	if o.Value == "" && o.Operator != policyv1alpha1.OverriderOpRemove {
		return "", errors.New("value is missing")
	}
	switch o.Operator {
	case policyv1alpha1.OverriderOpAdd:
		*part += o.Value
	case policyv1alpha1.OverriderOpReplace:
		*part = o.Value
	case policyv1alpha1.OverriderOpRemove:
		*part = ""
	default:
		return "", unknownOperatorError(o.Operator)
	}
	changed := parsed.String()
	if _, err := reference.Parse(changed); err != nil {
		return "", fmt.Errorf("image %q would become %q: %w", text, changed, err)
	}
	return changed, nil
}

func unknownOperatorError(operator policyv1alpha1.OverriderOperator) error {
	return fmt.Errorf("unknown operator %q: use add, remove or replace", operator)
}
