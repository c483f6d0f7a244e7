// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// TestAMemberReportsAStatusThatTheHubRefuses has a member without an agent report more
// replicas that are available than there are. What others say of the object gets to it.
func TestAMemberReportsAStatusThatTheHubRefuses(t *testing.T) {
	w := newWorld(t, 1)
	w.accept("liar")
	web := deployment("web", 2)
	w.create(policy("web", policyv1alpha1.Placement{}), web)
	w.reports("liar", deliver.WorkName("Deployment", web.Namespace, web.Name), `{"replicas":1,"readyReplicas":1,"availableReplicas":100}`)
	w.eventually("the object has the replicas of both, and the binding says what is wrong", func() error {
		b := &workv1alpha2.ResourceBinding{}
		err := errors.Join(w.Get(w.Context(), client.ObjectKeyFromObject(web), web), w.Get(w.Context(), client.ObjectKey{Namespace: web.Namespace, Name: "web-deployment"}, b))
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.BindingConditionFullyApplied)
		if web.Status.Replicas != 3 || web.Status.ReadyReplicas != 3 || c == nil || !strings.Contains(c.Message, "availableReplicas") {
			return fmt.Errorf("the status is %+v, and the binding says %+v", web.Status, c)
		}
		return nil
	})
}

// reports has a cluster report a status of an object.
func (w world) reports(cluster, work, status string) {
	w.Helper()
	w.eventually("cluster "+cluster+" reports a status", func() error {
		is := &workv1.ManifestWork{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: cluster, Name: work}, is); err != nil {
			return err
		}
		applied := metav1.Condition{
			Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue, Reason: "Applied",
			ObservedGeneration: is.Generation, LastTransitionTime: metav1.Now(),
		}
		is.Status.Conditions = []metav1.Condition{applied}
		is.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
			Conditions: []metav1.Condition{applied},
			StatusFeedback: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
				{Name: karmadaworkv1alpha1.FeedbackStatus, FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: &status}},
			}},
		}}
		return w.Status().Update(w.Context(), is)
	})
}
