// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package syncmode

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/operators/clustermanager"
)

// TestAHubThatIsRemovedLeavesWhatItsWorksDelivered removes a hub whose user has
// asked to keep works, while an agent works for it.
func TestAHubThatIsRemovedLeavesWhatItsWorksDelivered(t *testing.T) {
	l := newLab(t)
	l.startPull()
	l.createJoined(nil)
	l.mayUseWorks(true)
	l.startOperator(&operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{
		Name: "cluster-manager", Annotations: map[string]string{operatorv1.AnnotationKeepWorks: "true"},
	}})
	work := &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "kept", Finalizers: []string{workv1.FinalizerManifestWorkCleanup}},
		Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{manifest("kept", "1")}}},
	}
	l.create(work)
	l.delivered("kept", "1")
	before := l.object("kept")
	if len(before.OwnerReferences) == 0 {
		t.Fatal("what was delivered has no owner")
	}

	must(t, l.hub.client.Delete(t.Context(), &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: "cluster-manager"}}))
	l.eventually("the work is gone", func(ctx context.Context) string {
		if err := l.hub.client.Get(ctx, client.ObjectKeyFromObject(work), &workv1.ManifestWork{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
	l.eventually("its record is gone", func(ctx context.Context) string {
		records := &workv1.AppliedManifestWorkList{}
		must(t, l.member.client.List(ctx, records))
		if len(records.Items) > 0 {
			return fmt.Sprintf("%d are left", len(records.Items))
		}
		return ""
	})
	after := l.object("kept")
	if after.UID != before.UID || !after.DeletionTimestamp.IsZero() || len(after.OwnerReferences) > 0 || after.Data["value"] != "1" {
		t.Errorf("what was delivered is %+v with %v, want it as it was, and nobody's", after.ObjectMeta, after.Data)
	}
}

// object returns a ConfigMap that a work has delivered.
func (l *lab) object(name string) *corev1.ConfigMap {
	l.t.Helper()
	object := &corev1.ConfigMap{}
	must(l.t, l.member.client.Get(l.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, object))
	return object
}

// startOperator makes the hub that of a ClusterManager, as far as it gets
// without nodes, and has the operator keep it so.
func (l *lab) startOperator(cm *operatorv1.ClusterManager) {
	l.t.Helper()
	definitions, err := config.HubCRDs()
	must(l.t, err)
	scheme, err := clustermanager.NewClusterManagerScheme()
	must(l.t, err)
	hub, err := client.New(l.hub.config, client.Options{Scheme: scheme})
	must(l.t, err)
	operator := clustermanager.NewClusterManagerController(clustermanager.ControllerDeps{
		Client: hub, Reader: hub, Clock: clock.RealClock{}, Events: events.NewFakeRecorder(1000),
		CRDs: definitions, Rules: config.Rules,
		Options: clustermanager.OperatorOptions{
			Namespace: operatorv1.DefaultOperatorNamespace, Image: "capstan", Version: "1.2.3", Replicas: 1,
		},
	})
	l.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorv1.DefaultOperatorNamespace}}, cm)
	l.background("the operator", func(ctx context.Context) error {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			live := &operatorv1.ClusterManager{}
			if err := l.hub.client.Get(ctx, client.ObjectKeyFromObject(cm), live); err != nil {
				return nil // removed, or the test has ended
			}
			_, _ = operator.Reconcile(ctx, live) // what failed is tried again
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
	l.eventually("the definitions are those of the ClusterManager", func(ctx context.Context) string {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		must(l.t, l.hub.client.Get(ctx, client.ObjectKey{Name: "manifestworks.work.open-cluster-management.io"}, live))
		if live.Labels[operatorv1.LabelCreatedByClusterManager] != cm.Name {
			return fmt.Sprint(live.Labels)
		}
		return ""
	})
}
