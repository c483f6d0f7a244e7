// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
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
	"github.com/capstan-io/capstan/internal/features"
	"github.com/capstan-io/capstan/internal/hub/work"
)

// testOutageDuringRollouts takes the API server from the controller of replica
// sets in the middle of creating a hundred works, and of changing them.
func testOutageDuringRollouts(w *world) {
	const size, inTheMiddle = 100, 40
	outage := 3 * time.Second
	if *long {
		outage = time.Minute
	}
	w.all(size, func(ctx context.Context, i int) error {
		name := w.cluster(i).Name
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.LabelClusterName: name}}}
		return errors.Join(w.Create(ctx, w.cluster(i)), w.Create(ctx, namespace))
	})
	w.settles(w.start(&controller{}))
	server := &server{watches: map[io.Closer]bool{}}
	w.startReplicaSets(server)
	set := &workv1alpha1.ManifestWorkReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "app"}, Spec: workv1alpha1.ManifestWorkReplicaSetSpec{
			ManifestWorkTemplate: template("0"),
			PlacementRefs: []workv1alpha1.LocalPlacementReference{
				{Name: "everywhere", RolloutStrategy: clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeAll}},
			},
		},
	}
	server.endsAfter(inTheMiddle)
	w.create(set)
	server.comesBack(outage)
	created := w.rolledOut("0", size)

	server.endsAfter(inTheMiddle)
	before := set.DeepCopy()
	set.Spec.ManifestWorkTemplate = template("1")
	w.must(w.Patch(w.Context(), set, client.MergeFrom(before)))
	server.comesBack(outage)
	changed := w.rolledOut("1", size)
	for key, work := range created {
		if changed[key].UID != work.UID {
			w.Errorf("work %s was made anew", key)
		}
	}
	<-time.After(still)
	for key, work := range w.rolledOut("1", size) {
		if work.ResourceVersion != changed[key].ResourceVersion {
			w.Errorf("work %s was written although nothing was to be done", key)
		}
	}
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
// is there.
func (w *world) startReplicaSets(server *server) {
	w.Helper()
	scheme, err := work.NewScheme()
	w.must(err)
	cached, err := work.CacheOptions()
	w.must(err)
	reached := rest.CopyConfig(w.config)
	reached.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return server.answer(next, r) })
	})
	mgr, err := ctrl.NewManager(reached, ctrl.Options{
		Scheme: scheme, Cache: cached, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	w.must(err)
	gates, _ := features.Resolve(features.HubWork, map[string]bool{string(features.ManifestWorkReplicaSet): true})
	w.must(work.Setup(mgr, work.Options{Gates: gates}))
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the manager: %v", err)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var errDown = errors.New("connection refused")

// server is the API server as a controller finds it.
type server struct {
	mu      sync.Mutex
	down    bool
	left    int // writes of works until it is down; 0 is never
	watches map[io.Closer]bool
}

// endsAfter lets the server end with the nth write of a work from now, whose
// answer is lost.
func (s *server) endsAfter(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = writes
}

// comesBack waits until the server has ended, and starts it again after a time.
func (s *server) comesBack(after time.Duration) {
	for s.isUp() {
		<-time.After(5 * time.Millisecond)
	}
	<-time.After(after)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}

func (s *server) isUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.down
}

func (s *server) answer(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if !s.isUp() {
		return nil, errDown
	}
	response, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/manifestworks") && s.left > 0 {
		s.left--
		s.down = s.down || s.left == 0
	}
	if s.down {
		for watch := range s.watches {
			_ = watch.Close() // it ends as it may
			delete(s.watches, watch)
		}
		return nil, errors.Join(errDown, response.Body.Close())
	}
	if r.URL.Query().Get("watch") != "" {
		s.watches[response.Body] = true
	}
	return response, nil
}
