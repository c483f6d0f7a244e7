// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

const (
	// fieldOwner is the owner of the fields that ApplyInstance sets.
	fieldOwner = "capstan-instance"
	// poll is how long it takes until we look again.
	poll = time.Second
)

// OperatorKinds are those of the operators that charts install.
func OperatorKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{operatorv1.GroupVersion.WithKind("ClusterManager"), operatorv1.GroupVersion.WithKind("Klusterlet")}
}

// definitionName is the name of the definition of a kind.
func definitionName(kind schema.GroupVersionKind) string {
	return strings.ToLower(kind.Kind) + "s." + kind.Group
}

// NewClient returns a client for the OperatorKinds and their definitions. It needs no
// discovery, so it knows a kind that is only being installed.
func NewClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	mapper := meta.NewDefaultRESTMapper(nil)
	if err := errors.Join(operatorv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering API types: %w", err)
	}
	for _, kind := range OperatorKinds() {
		mapper.Add(kind, meta.RESTScopeRoot)
	}
	mapper.Add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), meta.RESTScopeRoot)
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to %s: %w", config.Host, err)
	}
	return c, nil
}

// Instances does its work on a cluster, and tells a person what it waits for.
type Instances struct {
	Client client.Client
	Log    io.Writer
}

// permanentError is an error that no waiting changes.
type permanentError struct{ error }

// pollUntilDone calls step until it is done or fails for good, or ctx ends. It tells
// what step waits for whenever that changes; an error of step is one thing to
// wait for, as rights and definitions may take a moment to be in force.
func (i Instances) pollUntilDone(ctx context.Context, step func(context.Context) (waits string, err error)) error {
	told := ""
	for {
		waits, err := step(ctx)
		var end permanentError
		switch {
		case errors.As(err, &end):
			return end.error
		case err != nil:
			waits = err.Error()
		case waits == "":
			return nil
		}
		if waits != told {
			fmt.Fprintln(i.Log, waits)
			told = waits
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting: %s", waits)
		case <-time.After(poll):
		}
	}
}

// ApplyInstance creates or changes the object, as soon as there is its definition. One that
// is being deleted is waited for, and then created again. Fields that it does not
// have stay as they are.
func (i Instances) ApplyInstance(ctx context.Context, object *unstructured.Unstructured) error {
	what := object.GetKind() + " " + object.GetName()
	err := i.pollUntilDone(ctx, func(ctx context.Context) (string, error) {
		answer := object.DeepCopy()
		err := i.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(fieldOwner), client.ForceOwnership)
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return "", permanentError{err}
		}
		if err == nil && answer.GetDeletionTimestamp() != nil {
			return what + " is being removed, and is created again then", nil
		}
		return "", err
	})
	if err != nil {
		return fmt.Errorf("applying %s: %w", what, err)
	}
	fmt.Fprintf(i.Log, "%s is applied\n", what)
	return nil
}

// RemovalRequest is what RemoveInstance removes.
type RemovalRequest struct {
	Kind schema.GroupVersionKind
	// Name of the object; empty to remove none.
	Name string
	// Operator tells that the operator is removed next: then nothing is removed while
	// there are other objects of the kind, and the definition is deleted, too.
	Operator bool
}

// RemoveInstance deletes the object and waits until its operator has cleaned up.
func (i Instances) RemoveInstance(ctx context.Context, r RemovalRequest) error {
	if r.Operator {
		if err := i.pollUntilDone(ctx, func(ctx context.Context) (string, error) { return "", i.checkNoOthers(ctx, r) }); err != nil {
			return fmt.Errorf("looking for other objects: %w", err)
		}
	}
	if r.Name != "" {
		if err := i.pollUntilDone(ctx, func(ctx context.Context) (string, error) { return i.removeObject(ctx, r) }); err != nil {
			return fmt.Errorf("removing %s %s: %w", r.Kind.Kind, r.Name, err)
		}
		fmt.Fprintf(i.Log, "%s %s is gone\n", r.Kind.Kind, r.Name)
	}
	if !r.Operator {
		return nil
	}
	if err := i.pollUntilDone(ctx, func(ctx context.Context) (string, error) { return "", i.removeDefinition(ctx, r.Kind) }); err != nil {
		return fmt.Errorf("removing the definition %s: %w", definitionName(r.Kind), err)
	}
	return nil
}

// removeObject deletes the object if nobody has, and returns what it waits for; nothing
// once it is gone.
func (i Instances) removeObject(ctx context.Context, r RemovalRequest) (string, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(r.Kind)
	err := i.Client.Get(ctx, client.ObjectKey{Name: r.Name}, object)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %s %s: %w", r.Kind.Kind, r.Name, err)
	}
	if object.GetDeletionTimestamp().IsZero() {
		if err := i.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("deleting %s %s: %w", r.Kind.Kind, r.Name, err)
		}
	}
	waits := fmt.Sprintf("%s %s is being removed", r.Kind.Kind, r.Name)
	if why := deletionMessage(object); why != "" {
		waits += ": " + why
	}
	return waits, nil
}

// deletionMessage returns what an object says about its removal.
func deletionMessage(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if ok && condition["type"] == operatorv1.ClusterManagerConditionDeleting && condition["status"] == string(metav1.ConditionTrue) {
			message, _ := condition["message"].(string)
			return message
		}
	}
	return ""
}

// checkNoOthers fails if there are other objects of the kind than the one to remove: for good
// unless all of them are going.
func (i Instances) checkNoOthers(ctx context.Context, r RemovalRequest) error {
	kind := r.Kind
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := i.Client.List(ctx, list); apierrors.IsNotFound(err) { // there is no definition
		return nil
	} else if err != nil {
		return fmt.Errorf("listing %ss: %w", kind.Kind, err)
	}
	var names, going []string
	for n := range list.Items {
		switch other := &list.Items[n]; {
		case other.Name == r.Name:
		case other.DeletionTimestamp != nil:
			going = append(going, other.Name)
		default:
			names = append(names, other.Name)
		}
	}
	if len(names) > 0 {
		return permanentError{fmt.Errorf("there is still %s %s, which this release has not made and which only the operator can clean up after; delete it first: kubectl delete %s %s",
			kind.Kind, strings.Join(names, ", "), strings.ToLower(kind.Kind), strings.Join(names, " "))}
	}
	if len(going) > 0 {
		return fmt.Errorf("%s %s is being removed, too", kind.Kind, strings.Join(going, ", "))
	}
	return nil
}

// removeDefinition deletes the definition of a kind that has no objects.
func (i Instances) removeDefinition(ctx context.Context, kind schema.GroupVersionKind) error {
	if err := i.checkNoOthers(ctx, RemovalRequest{Kind: kind}); err != nil { // one may have come meanwhile
		return err
	}
	definition := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: definitionName(kind)}}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := i.Client.Delete(ctx, definition); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the definition %s: %w", definition.Name, err)
	}
	fmt.Fprintf(i.Log, "the definition %s is deleted\n", definition.Name)
	return nil
}
