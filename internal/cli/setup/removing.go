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

// removalRun removes things step by step, until one fails.
type removalRun struct {
	site  *clusterSite
	waits install.Waiter
	err   error
}

// removeObjects removes the objects at once, and waits until they are gone.
func (r *removalRun) removeObjects(ctx context.Context, m removal) {
	if r.err != nil || len(m.objects) == 0 {
		return
	}
	if !r.site.mode.MakesChanges() {
		r.dryRunRemoval(ctx, m.objects)
		return
	}
	r.err = r.site.steps.RunStep(m.step, func() error {
		for _, object := range m.objects {
			if m.before != nil {
				if err := m.before(ctx, object); err != nil {
					return fmt.Errorf("prepare the removal of %s: %w", object.GetName(), err)
				}
			}
			if err := install.DeleteObject(ctx, r.site.write, object); err != nil {
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
				r.site.steps.ShowWaiting("%d left; %s: %s", len(m.objects)-i, object.GetName(), why)
			}
			if err := waits.AwaitGone(ctx, object); err != nil {
				return err
			}
		}
		return nil
	})
}

// dryRunRemoval says what would be removed.
func (r *removalRun) dryRunRemoval(ctx context.Context, objects []client.Object) {
	for _, object := range objects {
		if !r.site.mode.Skips() {
			if r.err = install.DeleteObject(ctx, r.site.write, object); r.err != nil {
				return
			}
		}
		kind := object.GetObjectKind().GroupVersionKind()
		fmt.Fprintf(r.site.out, "%s/%s deleted%s\n", strings.TrimSuffix(strings.ToLower(kind.Kind)+"."+kind.Group, "."), object.GetName(), r.site.mode.Suffix())
	}
}

// removeOperator removes the operator, and with it the definition that it works for.
func (r *removalRun) removeOperator(ctx context.Context, found operatorSituation) {
	if r.err != nil || !found.isPresent() {
		return
	}
	if !r.site.mode.MakesChanges() {
		objects, err := found.operator.RenderObjects(install.OperatorOptions{})
		r.err = err
		for _, object := range objects {
			r.dryRunRemoval(ctx, []client.Object{object})
		}
		return
	}
	r.err = r.site.steps.RunStep("Removing the operator "+found.operator.DeploymentKey().Name, func() error {
		return found.operator.RemoveOperator(ctx, r.site.write, r.waits)
	})
}

// objectReference is an object of which only is known what it is.
func objectReference(kind schema.GroupVersionKind, namespace, name string) client.Object {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	object.SetGroupVersionKind(kind)
	return object
}

func managedClusters(names []string) []client.Object {
	objects := make([]client.Object, 0, len(names))
	for _, name := range names {
		objects = append(objects, objectReference(clusterv1.GroupVersion.WithKind("ManagedCluster"), "", name))
	}
	return objects
}

// clusterManagers are those whose hub is the cluster itself.
func clusterManagers(found operatorSituation) []client.Object {
	objects := make([]client.Object, 0, len(found.hubs))
	for i := range found.hubs {
		if found.hubs[i].Spec.DeployOption.Mode == operatorv1.InstallModeHosted {
			continue
		}
		objects = append(objects, objectReference(operatorv1.GroupVersion.WithKind("ClusterManager"), "", found.hubs[i].Name))
	}
	return objects
}
