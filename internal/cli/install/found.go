// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// Installer is who has installed an operator.
type Installer string

const (
	// ByCapstan is this command line, or make deploy-*.
	ByCapstan Installer = "Capstan"
	// ByOLM is the Operator Lifecycle Manager, which changes it again whatever
	// others write.
	ByOLM Installer = "OLM"
	// ByHelm is a release of our chart, which the next upgrade of it sets back.
	ByHelm Installer = "Helm"
	// ByOther is somebody else: most probably it is an operator of OCM.
	ByOther Installer = "another tool"
)

const (
	// labelOLM is on what OLM installs.
	labelOLM = "olm.owner"
	// labelManagedBy names the tool that installs an object; managedByHelm is on what
	// our charts install.
	labelManagedBy, managedByHelm = "app.kubernetes.io/managed-by", "Helm"
	// fieldOwnerMake is the field owner of make deploy-*.
	fieldOwnerMake = "capstan-deploy"
)

// InstallerOf tells who has installed an object that an operator consists of.
func InstallerOf(object metav1.Object) Installer {
	labels := object.GetLabels()
	switch {
	case labels[labelOLM] != "":
		return ByOLM
	case labels[operatorv1.LabelPartOf] == operatorv1.PartOfCapstan && labels[labelManagedBy] == managedByHelm:
		return ByHelm
	case labels[operatorv1.LabelPartOf] == operatorv1.PartOfCapstan:
		return ByCapstan
	case slices.ContainsFunc(object.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == FieldOwner || f.Manager == fieldOwnerMake
	}): // by a release that did not set the label yet
		return ByCapstan
	default:
		return ByOther
	}
}

// ReadDefinition returns the definition of the kind that the operator works for, or
// nil if there is none.
func (o Operator) ReadDefinition(ctx context.Context, c client.Reader) (*metav1.PartialObjectMetadata, error) {
	return getDefinition(ctx, c, o.CRD())
}

// InstalledRelease returns the release of the operator that has installed what it works
// for, and nothing as long as none has.
func (o Operator) InstalledRelease(ctx context.Context, c client.Reader) (string, error) {
	if o.installs == "" {
		return "", nil
	}
	installed, err := getDefinition(ctx, c, o.installs)
	if err != nil || installed == nil {
		return "", err
	}
	return installed.Annotations[operatorv1.AnnotationCRDVersion], nil
}

func getDefinition(ctx context.Context, c client.Reader, name string) (*metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(definitionKind())
	if err := c.Get(ctx, client.ObjectKey{Name: name}, found); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the definition %q: %w", name, err)
	}
	return found, nil
}

// Component is a Deployment that an operator has made.
type Component struct {
	Key   client.ObjectKey
	Image string
	state waitState
}

// ListComponents returns the Deployments that the operator has made, in the order of
// their names.
func (o Operator) ListComponents(ctx context.Context, c client.Reader) ([]Component, error) {
	list := &appsv1.DeploymentList{}
	if err := c.List(ctx, list, client.HasLabels{o.label}); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list the Deployments that operator %q has made: %w", o.name, err)
	}
	components := make([]Component, 0, len(list.Items))
	for i := range list.Items {
		deployment := &list.Items[i]
		components = append(components, Component{
			Key: client.ObjectKeyFromObject(deployment), Image: OptionsOf(deployment).Image, state: rolloutState(deployment),
		})
	}
	slices.SortFunc(components, func(a, b Component) int {
		return slices.Compare([]string{a.Key.Namespace, a.Key.Name}, []string{b.Key.Namespace, b.Key.Name})
	})
	return components, nil
}

// AwaitComponents waits until all that the operator has made runs, and nothing of it
// with the former image.
func (w Waiter) AwaitComponents(ctx context.Context, o Operator, former string) error {
	next := "Nothing has to be undone: the same command continues from there. \"kubectl get pods -A\" shows more."
	return w.pollState(ctx, "what the operator "+o.name+" has installed", next, func(ctx context.Context) (waitState, error) {
		components, err := o.ListComponents(ctx, w.Client)
		if err != nil {
			return waitState{}, err
		}
		for _, c := range components {
			switch {
			case former != "" && c.Image == former:
				return waitState{why: fmt.Sprintf("%s has the previous image", c.Key)}, nil
			case !c.state.done:
				return w.withPods(ctx, waitState{why: fmt.Sprintf("%s: %s", c.Key, c.state.why)}, c.Key.Namespace, nil)
			}
		}
		return waitState{done: true}, nil
	})
}
