// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestAMemberReportsAStatusThatTheHubRefuses has a member without an agent report more
// replicas that are available than there are. What others say of the object gets to it.
func TestAMemberReportsAStatusThatTheHubRefuses(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.AcceptCluster("liar")
	web := harness.Deployment("web", 2)
	w.CreateAll(harness.Policy("web", policyv1alpha1.Placement{}), web)
	w.ReportStatus("liar", deliver.WorkName("Deployment", web.Namespace, web.Name), `{"replicas":1,"readyReplicas":1,"availableReplicas":100}`)
	w.Eventually("the object has the replicas of both, and the binding says what is wrong", func() error {
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
