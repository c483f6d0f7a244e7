// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// warnings are those of the responses to a client.
type warnings struct {
	lock sync.Mutex
	all  []string
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.all = append(w.all, text)
}

func (w *warnings) take() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	all := w.all
	w.all = nil
	return all
}

// TestTextsThatClientsCompareAreThoseOfOCM has refusals whose whole text clients of OCM compare. What we advise
// besides comes as a warning.
func TestTextsThatClientsCompareAreThoseOfOCM(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	config := h.config
	warned := &warnings{}
	listening := rest.CopyConfig(config)
	listening.WarningHandlerWithContext = warned
	admin := newClient(t, listening)
	addressed := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "addressed"}}
	addressed.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "127.0.0.1:8001"}}
	tainted := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "tainted"}}
	tainted.Spec.Taints = []clusterv1.Taint{{Key: "k", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: metav1.Unix(1, 0)}}
	large := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "large"}}
	raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":%q}}`, strings.Repeat("x", 600<<10))
	large.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(raw)}}}
	for name, c := range map[string]struct {
		object       client.Object
		want, advice string
	}{
		"address": {
			object: addressed,
			want:   `admission webhook "managedclustervalidators.admission.cluster.open-cluster-management.io" denied the request: url "127.0.0.1:8001" is invalid in client configs`,
			advice: `spec.managedClusterClientConfigs[0].url is "127.0.0.1:8001", want an address like https://api.example.com:6443`,
		},
		"time of a taint": {
			object: tainted,
			want:   `admission webhook "managedclustermutators.admission.cluster.open-cluster-management.io" denied the request: It is not allowed to set TimeAdded of Taint "k".`,
			advice: `the hub sets timeAdded of taints: remove it from the taint "k" with effect NoSelect`,
		},
		"size of manifests": {
			object: large,
			want:   fmt.Sprintf(`admission webhook "manifestworkvalidators.admission.work.open-cluster-management.io" denied the request: the size of manifests is %d bytes which exceeds the 512000 limit`, len(raw)),
			advice: fmt.Sprintf(`spec.workload.manifests[0], ConfigMap "a", has %d bytes, too many for any ManifestWork: make it smaller `+
				`(a CustomResourceDefinition does without descriptions in its schema), or let a propagation policy send it, for which this limit does not apply`, len(raw)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			warned.take()
			err := admin.Create(t.Context(), c.object)
			if !apierrors.IsBadRequest(err) || err.Error() != c.want {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
			if diff := cmp.Diff([]string{c.advice}, warned.take()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
