// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/work"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/outage"
	"github.com/capstan-io/capstan/internal/testing/passes"
)

// RolledOut waits until there is a work with the value for each cluster, one,
// and returns them.
func (w *world) RolledOut(value string, clusters int) map[types.NamespacedName]workv1.ManifestWork {
	w.Helper()
	var wrong string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		list := &workv1.ManifestWorkList{}
		w.Must(w.List(w.Context(), list, client.MatchingLabels{workv1.LabelManifestWorkReplicaSet: w.FleetName + ".app"}))
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

// StartReplicaSets starts the controller, which reaches the API server while it
// is there, and returns its passes.
func (w *world) StartReplicaSets(server *outage.WrappedServer) *passes.Passes {
	w.Helper()
	scheme, err := work.NewWorkScheme()
	w.Must(err)
	reached := rest.CopyConfig(w.config)
	reached.Wrap(server.WrapTransport)
	reconciled := passes.NewPasses()
	mgr, err := ctrl.NewManager(reached, ctrl.Options{
		Logger: reconciled.NewLogger(),
		Scheme: scheme, Cache: work.NewWorkCacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	w.Must(err)
	gates, _ := features.ResolveGates(features.HubWork, map[string]bool{string(features.ManifestWorkReplicaSet): true})
	w.Must(work.SetupWorkControllers(w.Context(), mgr, work.SetupOptions{Gates: gates}))
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
