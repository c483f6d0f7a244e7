// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package syncmode

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/integration/syncmode/harness"
)

// TestAKlusterletMayBeDeletedAsSoonAsJoinReturns attacks what runs on a cluster
// that goes from Pull to Push: its Klusterlet is deleted the moment the command
// line says that the cluster has joined.
func TestAKlusterletMayBeDeletedAsSoonAsJoinReturns(t *testing.T) {
	l := harness.NewLab(t, servers)
	l.StartGarbageCollector()
	l.StartPull()
	l.StartPush()
	l.IsPullCluster()
	for i := range harness.ManyWorks {
		l.CreateOnHub(workload(i))
	}
	l.AreOwnedBy(harness.Klusterlet, harness.ManyWorks)
	before := l.AllDelivered()

	out := l.JoinAsPush()
	if !strings.Contains(out, fmt.Sprintf("taken over all works from the agent in the cluster (%d)", harness.ManyWorks)) || !strings.Contains(out, "kubectl delete klusterlet") {
		t.Errorf("it does not say that all is taken over and the Klusterlet may go:\n%s", out)
	}
	if !strings.Contains(out, fmt.Sprintf("of %d AppliedManifestWorks are taken over", harness.ManyWorks)) {
		t.Errorf("it does not show how far it is:\n%s", out)
	}
	l.DeleteKlusterlet()
	l.NothingLost(before)
}

// workload is a work with a ConfigMap, and perhaps a claim of a volume.
func workload(i int) *workv1.ManifestWork {
	name := fmt.Sprintf("work-%03d", i)
	manifests := []workv1.Manifest{harness.Manifest(name, "1")}
	if i%harness.VolumeEvery == 0 {
		manifests = append(manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":"default","name":%q},`+
				`"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`, name)}})
	}
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: harness.Cluster, Name: name},
		Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifests}},
	}
}
