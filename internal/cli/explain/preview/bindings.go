// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// readBindings reads the bindings of the objects that are concerned.
func (r Reader) readBindings(ctx context.Context, f *previewFacts) error {
	by := map[string][]*previewSubject{}
	for _, s := range f.subjects {
		by[s.namespace] = append(by[s.namespace], s)
	}
	for namespace, subjects := range by {
		var err error
		if len(subjects) > fewMax {
			err = r.listBindings(ctx, namespace, subjects)
		} else {
			err = r.getBindings(ctx, subjects)
		}
		if err := f.recordForbidden(err, ofNamespace("bindings", namespace), "what is in which cluster now is not known here"); err != nil {
			return err
		}
	}
	return nil
}

// getBindings reads each binding by the names that it may have.
func (r Reader) getBindings(ctx context.Context, subjects []*previewSubject) error {
	for _, s := range subjects {
		for _, name := range claims.BindingNames(s.kind, s.name) {
			b := emptyBinding(s.namespace)
			err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, b)
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			if err == nil && referenceIdentity(b.BindingSpec().Resource) == s.objectIdentity() {
				s.Binding = b
				break
			}
		}
	}
	return nil
}

// readableBinding is a Binding that a client knows.
type readableBinding interface {
	workv1alpha2.Binding
	client.Object
}

func emptyBinding(namespace string) readableBinding {
	if namespace == "" {
		return &workv1alpha2.ClusterResourceBinding{}
	}
	return &workv1alpha2.ResourceBinding{}
}

func (r Reader) listBindings(ctx context.Context, namespace string, subjects []*previewSubject) error {
	found, err := r.allBindings(ctx, namespace)
	if err != nil {
		return err
	}
	of := map[string]workv1alpha2.Binding{}
	for _, b := range found {
		of[referenceIdentity(b.BindingSpec().Resource)] = b
	}
	for _, s := range subjects {
		if b := of[s.objectIdentity()]; b != nil {
			s.Binding = b
		}
	}
	return nil
}

// allBindings returns the bindings of a namespace, or those of objects without one.
func (r Reader) allBindings(ctx context.Context, namespace string) ([]workv1alpha2.Binding, error) {
	var all []workv1alpha2.Binding
	if namespace == "" {
		found, err := hub.ListAllPages(ctx, r.Client, func(l *workv1alpha2.ClusterResourceBindingList) []workv1alpha2.ClusterResourceBinding { return l.Items })
		for i := range found {
			all = append(all, &found[i])
		}
		return all, err
	}
	found, err := hub.ListAllPages(ctx, r.Client, func(l *workv1alpha2.ResourceBindingList) []workv1alpha2.ResourceBinding { return l.Items }, client.InNamespace(namespace))
	for i := range found {
		all = append(all, &found[i])
	}
	return all, err
}

// readPeers reads the bindings among which those of workloads are that are kept together
// or apart, if a policy asks for that.
func (r Reader) readPeers(ctx context.Context, f *previewFacts) error {
	if !slices.ContainsFunc(f.world.Planned.Propagation, func(p policyv1alpha1.Policy) bool { return p.PropagationSpec().Placement.WorkloadAffinity != nil }) {
		return nil
	}
	for _, namespace := range f.subjectNamespaces() {
		own, err := hub.ListAllPages(ctx, r.Client, func(l *workv1alpha2.ResourceBindingList) []workv1alpha2.ResourceBinding { return l.Items }, client.InNamespace(namespace))
		if err := f.recordForbidden(err, ofNamespace("bindings", namespace), "the workloads to be together with or apart from do not count here"); err != nil {
			return err
		}
		for i := range own {
			f.world.Peers = append(f.world.Peers, &own[i])
		}
	}
	return nil
}

// referenceIdentity tells objects apart, in whatever version.
func referenceIdentity(of workv1alpha2.ObjectReference) string {
	kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
	return strings.Join([]string{kind.Group, kind.Kind, of.Namespace, of.Name}, "/")
}

func (k objectKey) objectIdentity() string {
	return strings.Join([]string{k.kind.Group, k.kind.Kind, k.namespace, k.name}, "/")
}
