// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/install"
)

// removal is a step that removes objects.
type removal struct {
	step    string
	objects []client.Object
	// before is done with each object before it is deleted, and after when its
	// deletion has begun; nil is nothing.
	before, after func(context.Context, client.Object) error
	// hint is what to do if they do not go.
	hint string
}

// removing removes things step by step, until one fails.
type removing struct {
	site  *site
	waits install.Waiter
	err   error
}

// remove removes the objects at once, and waits until they are gone.
func (r *removing) remove(ctx context.Context, m removal) {
	if r.err != nil || len(m.objects) == 0 {
		return
	}
	if !r.site.mode.Changes() {
		r.rehearse(ctx, m.objects)
		return
	}
	r.err = r.site.steps.Do(m.step, func() error {
		for _, object := range m.objects {
			if m.before != nil {
				if err := m.before(ctx, object); err != nil {
					return fmt.Errorf("prepare the removal of %s: %w", object.GetName(), err)
				}
			}
			if err := install.Delete(ctx, r.site.write, object); err != nil {
				return err
			}
			if m.after != nil {
				if err := m.after(ctx, object); err != nil {
					return err
				}
			}
		}
		for i, object := range m.objects {
			waits := r.waits
			waits.Hint = m.hint
			waits.Note = func(why string) {
				r.site.steps.Waits("%d left; %s: %s", len(m.objects)-i, object.GetName(), why)
			}
			if err := waits.Gone(ctx, object); err != nil {
				return err
			}
		}
		return nil
	})
}

// rehearse says what would be removed.
func (r *removing) rehearse(ctx context.Context, objects []client.Object) {
	for _, object := range objects {
		if !r.site.mode.Skips() {
			if r.err = install.Delete(ctx, r.site.write, object); r.err != nil {
				return
			}
		}
		kind := object.GetObjectKind().GroupVersionKind()
		fmt.Fprintf(r.site.out, "%s/%s deleted%s\n", strings.TrimSuffix(strings.ToLower(kind.Kind)+"."+kind.Group, "."), object.GetName(), r.site.mode.Suffix())
	}
}

// operator removes the operator, and with it the definition that it works for.
func (r *removing) operator(ctx context.Context, found situation) {
	if r.err != nil || !found.there() {
		return
	}
	if !r.site.mode.Changes() {
		objects, err := found.operator.Objects(install.Options{})
		r.err = err
		for _, object := range objects {
			r.rehearse(ctx, []client.Object{object})
		}
		return
	}
	r.err = r.site.steps.Do("Removing the operator "+found.operator.Key().Name, func() error {
		return found.operator.Remove(ctx, r.site.write, r.waits)
	})
}

// reference is an object of which only is known what it is.
func reference(kind schema.GroupVersionKind, namespace, name string) client.Object {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	object.SetGroupVersionKind(kind)
	return object
}

func managedClusters(names []string) []client.Object {
	objects := make([]client.Object, 0, len(names))
	for _, name := range names {
		objects = append(objects, reference(clusterv1.GroupVersion.WithKind("ManagedCluster"), "", name))
	}
	return objects
}

// clusterManagers are those whose hub is the cluster itself.
func clusterManagers(found situation) []client.Object {
	objects := make([]client.Object, 0, len(found.hubs))
	for i := range found.hubs {
		if found.hubs[i].Spec.DeployOption.Mode == operatorv1.InstallModeHosted {
			continue
		}
		objects = append(objects, reference(operatorv1.GroupVersion.WithKind("ClusterManager"), "", found.hubs[i].Name))
	}
	return objects
}
