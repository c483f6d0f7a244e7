// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// BenchmarkAcceptingManyClusters measures the time from the creation of a
// thousand ManagedClusters to the last one accepted, with namespace, roles and
// lease. OCM takes 213 s on two cores; the goal is 12 s. Run it with
// -benchtime=1x.
func BenchmarkAcceptingManyClusters(b *testing.B) {
	const clusters, writers = 1000, 16
	for b.Loop() {
		h := startHub(b, registration.SetupOptions{Gates: hub.ResolveGates(b, nil)})
		before := countWrites(b, h)
		started := time.Now()
		group, ctx := errgroup.WithContext(b.Context())
		group.SetLimit(writers)
		for i := range clusters {
			group.Go(func() error {
				return h.Client.Create(ctx, &clusterv1.ManagedCluster{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cluster-%04d", i)},
					Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
				})
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(started).Seconds(), "s/created")
		h.Eventually(b, "all clusters are accepted", func(ctx context.Context) (bool, error) {
			list := &clusterv1.ManagedClusterList{}
			if err := h.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
				return false, err
			}
			accepted := 0
			for i := range list.Items {
				if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) {
					accepted++
				}
			}
			return accepted == clusters, nil
		})
		took := time.Since(started).Seconds()
		b.ReportMetric(took, "s/accepted")
		b.ReportMetric(clusters/took, "clusters/s")
		b.ReportMetric((countWrites(b, h)-before)/clusters, "writes/cluster")
		h.Stop()
	}
}

// countWrites returns how many writing requests the API server had.
func countWrites(b *testing.B, h *hub.RegistrationHub) float64 {
	b.Helper()
	clients, err := kubernetes.NewForConfig(h.AdminConfig)
	expect.NoError(b, err)
	raw, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	expect.NoError(b, err)
	total := 0.0
	for line := range strings.SplitSeq(string(raw), "\n") {
		labels, value, ok := strings.Cut(line, "} ")
		if !ok || !strings.HasPrefix(labels, "apiserver_request_total{") || strings.Contains(labels, `verb="GET"`) ||
			strings.Contains(labels, `verb="LIST"`) || strings.Contains(labels, `verb="WATCH"`) {
			continue
		}
		count, err := strconv.ParseFloat(value, 64)
		expect.NoError(b, err)
		total += count
	}
	return total
}
