// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/outage"
	"github.com/capstan-io/capstan/internal/testing/passes"
	"github.com/capstan-io/capstan/test/integration/placement/harness"
)

// TestOutageDuringRollouts takes the API server from the controller of replica
// sets in the middle of creating a hundred works, and of changing them.
func TestOutageDuringRollouts(t *testing.T) {
	w := harness.NewWorld(t, Servers, "outage")
	const size, inTheMiddle = 100, 40
	lasts := 3 * time.Second
	if *long {
		lasts = time.Minute
	}
	w.EachOf(size, func(ctx context.Context, i int) error {
		name := w.Cluster(i).Name
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.LabelClusterName: name}}}
		return errors.Join(w.Create(ctx, w.Cluster(i)), w.Create(ctx, namespace))
	})
	w.Settles(w.StartController(&harness.Controller{}))
	server := &outage.WrappedServer{Counts: func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/manifestworks") }}
	reconciled := w.StartReplicaSets(server)
	set := &workv1alpha1.ManifestWorkReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.FleetName, Name: "app"}, Spec: workv1alpha1.ManifestWorkReplicaSetSpec{
			ManifestWorkTemplate: template("0"),
			PlacementRefs: []workv1alpha1.LocalPlacementReference{
				{Name: "everywhere", RolloutStrategy: clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeAll}},
			},
		},
	}
	server.EndsAfter(inTheMiddle, true)
	w.CreateObject(set)
	server.ComesBack(w.TB, lasts)
	created := w.RolledOut("0", size)

	server.EndsAfter(inTheMiddle, true)
	was := set.DeepCopy()
	set.Spec.ManifestWorkTemplate = template("1")
	w.Must(w.Patch(w.Context(), set, client.MergeFrom(was)))
	server.ComesBack(w.TB, lasts)
	changed := w.RolledOut("1", size)
	for key, work := range created {
		if changed[key].UID != work.UID {
			w.Errorf("work %s was made anew", key)
		}
	}
	again := func() { w.Reconciled("manifestworkreplicaset", []*passes.Passes{reconciled}, []client.Object{set}) }
	again() // what was under way has ended
	before := server.WriteCount()
	again()
	if after := server.WriteCount(); after != before {
		w.Errorf("works were written %d times although nothing was to be done", after-before)
	}
	w.RolledOut("1", size)
}

func template(value string) workv1.ManifestWorkSpec {
	raw := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"app"},"data":{"value":%q}}`, value)
	return workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}}}
}
