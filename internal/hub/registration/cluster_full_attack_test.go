// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// TestAFullWorkDoesNotKeepItsCluster has an agent report so much of a work that etcd has no
// room to note its deletion, and then an administrator delete the cluster.
func TestAFullWorkDoesNotKeepItsCluster(t *testing.T) {
	const name = "full"
	h := clusterHubs.TakeFixture(t)
	if err := workv1.AddToScheme(h.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	h.JoinWithLabels(t, name, nil)
	work := hub.NewManifestWork(name, "filled", "")
	h.CreateObjects(t, work)
	agent := h.AgentClient(t, name)
	reports := func(bytes int) error {
		const message = 30_000
		is := &workv1.ManifestWork{}
		if err := agent.Get(t.Context(), client.ObjectKeyFromObject(work), is); err != nil {
			return err
		}
		is.ManagedFields = []metav1.ManagedFieldsEntry{{}} // there is to be nothing that the hub could forget
		is.Status.ResourceStatus.Manifests = nil
		for i := 0; i*message < bytes; i++ {
			is.Status.ResourceStatus.Manifests = append(is.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
				ResourceMeta: workv1.ManifestResourceMeta{Ordinal: int32(i), Name: fmt.Sprint(i)},
				Conditions: []metav1.Condition{{
					Type: "Filled", Status: metav1.ConditionTrue, Reason: "Filled", Message: strings.Repeat("x", min(message, bytes-i*message)), LastTransitionTime: metav1.Now(),
				}},
			})
		}
		return agent.Status().Update(t.Context(), is)
	}
	tooLarge := func(err error) bool { return err != nil && strings.Contains(err.Error(), "request is too large") }
	fits, tooMuch := 1_500_000, 1_600_000
	for tooMuch-fits > 20 {
		half := (fits + tooMuch) / 2
		switch err := reports(half); {
		case err == nil:
			fits = half
		case tooLarge(err):
			tooMuch = half
		default:
			t.Fatal(err)
		}
	}
	if err := h.Client.Delete(t.Context(), work.DeepCopy()); !tooLarge(err) {
		t.Fatalf("the work is not full: %v", err)
	}
	mc := h.ReadCluster(t, name)
	if err := h.Client.Delete(t.Context(), mc); err != nil {
		t.Fatal(err)
	}
	h.IsGone(t, mc)
}
