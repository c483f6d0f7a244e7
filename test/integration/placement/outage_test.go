// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/work"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/outage"
	"github.com/capstan-io/capstan/internal/testing/passes"
)

// testOutageDuringRollouts takes the API server from the controller of replica
// sets in the middle of creating a hundred works, and of changing them.
func testOutageDuringRollouts(w *world) {
	const size, inTheMiddle = 100, 40
	lasts := 3 * time.Second
	if *long {
		lasts = time.Minute
	}
	w.all(size, func(ctx context.Context, i int) error {
		name := w.cluster(i).Name
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.LabelClusterName: name}}}
		return errors.Join(w.Create(ctx, w.cluster(i)), w.Create(ctx, namespace))
	})
	w.settles(w.start(&controller{}))
	server := &outage.WrappedServer{Counts: func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/manifestworks") }}
	reconciled := w.startReplicaSets(server)
	set := &workv1alpha1.ManifestWorkReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "app"}, Spec: workv1alpha1.ManifestWorkReplicaSetSpec{
			ManifestWorkTemplate: template("0"),
			PlacementRefs: []workv1alpha1.LocalPlacementReference{
				{Name: "everywhere", RolloutStrategy: clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeAll}},
			},
		},
	}
	server.EndsAfter(inTheMiddle, true)
	w.create(set)
	server.ComesBack(w.T, lasts)
	created := w.rolledOut("0", size)

	server.EndsAfter(inTheMiddle, true)
	was := set.DeepCopy()
	set.Spec.ManifestWorkTemplate = template("1")
	w.must(w.Patch(w.Context(), set, client.MergeFrom(was)))
	server.ComesBack(w.T, lasts)
	changed := w.rolledOut("1", size)
	for key, work := range created {
		if changed[key].UID != work.UID {
			w.Errorf("work %s was made anew", key)
		}
	}
	again := func() { w.reconciled("manifestworkreplicaset", []*passes.Passes{reconciled}, []client.Object{set}) }
	again() // what was under way has ended
	before := server.WriteCount()
	again()
	if after := server.WriteCount(); after != before {
		w.Errorf("works were written %d times although nothing was to be done", after-before)
	}
	w.rolledOut("1", size)
}

func template(value string) workv1.ManifestWorkSpec {
	raw := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"app"},"data":{"value":%q}}`, value)
	return workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}}}
}

// rolledOut waits until there is a work with the value for each cluster, one,
// and returns them.
func (w *world) rolledOut(value string, clusters int) map[types.NamespacedName]workv1.ManifestWork {
	w.Helper()
	var wrong string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		list := &workv1.ManifestWorkList{}
		w.must(w.List(w.Context(), list, client.MatchingLabels{workv1.LabelManifestWorkReplicaSet: w.name + ".app"}))
		works, served, right := map[types.NamespacedName]workv1.ManifestWork{}, map[string]bool{}, 0
		for i := range list.Items {
			works[client.ObjectKeyFromObject(&list.Items[i])] = list.Items[i]
			served[list.Items[i].Namespace] = true
			if strings.Contains(string(list.Items[i].Spec.Workload.Manifests[0].Raw), fmt.Sprintf(`"value":%q`, value)) {
				right++
			}
		}
		if len(works) > len(served) {
			w.Fatalf("%d works for %d clusters: %v", len(works), len(served), slices.Collect(maps.Keys(works)))
		}
		if right == clusters && len(works) == clusters {
			return works
		}
		wrong = fmt.Sprintf("%d works of %d clusters, %d of them with value %s", len(works), clusters, right, value)
	}
	w.Fatal(wrong)
	return nil
}

// startReplicaSets starts the controller, which reaches the API server while it
// is there, and returns its passes.
func (w *world) startReplicaSets(server *outage.WrappedServer) *passes.Passes {
	w.Helper()
	scheme, err := work.NewWorkScheme()
	w.must(err)
	reached := rest.CopyConfig(w.config)
	reached.Wrap(server.WrapTransport)
	reconciled := passes.NewPasses()
	mgr, err := ctrl.NewManager(reached, ctrl.Options{
		Logger: reconciled.NewLogger(),
		Scheme: scheme, Cache: work.NewWorkCacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	w.must(err)
	gates, _ := features.ResolveGates(features.HubWork, map[string]bool{string(features.ManifestWorkReplicaSet): true})
	w.must(work.SetupWorkControllers(w.Context(), mgr, work.SetupOptions{Gates: gates}))
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the manager: %v", err)
		}
	})
	return reconciled
}
