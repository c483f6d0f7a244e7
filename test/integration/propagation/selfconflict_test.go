// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/selfconflict"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestWhatIsWrittenWithoutEndIsSlowedDown lets somebody take the marks of a policy off an
// object as soon as the hub has put them there.
func TestWhatIsWrittenWithoutEndIsSlowedDown(t *testing.T) {
	w := harness.NewHub(t, servers)
	*w.Limits = selfconflict.Limits{Writes: 20, Window: 5 * time.Second}
	w.JoinCluster("member1")
	w.StartControllers()
	w.CreateAll(harness.Policy("web", only("member1")), harness.Deployment("web", 1))
	w.RunsOn("web", map[string]int32{"member1": 1})

	begin, undone := time.Now(), &atomic.Int64{}
	fighting, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.TakeOff(fighting, "web", undone)
	}()
	w.Eventually("the binding says what is written without end", func() error {
		condition := w.SelfConflict("web-deployment")
		if condition == nil || condition.Status != metav1.ConditionTrue || condition.Reason != fleetv1alpha1.ReasonWrittenWithoutEnd ||
			!strings.Contains(condition.Message, "deployments.apps default/web") {
			return fmt.Errorf("its condition is %+v, after the marks were taken off %d times", condition, undone.Load())
		}
		return nil
	})
	w.CreateAll(harness.Deployment("other", 1))
	w.RunsOn("other", map[string]int32{"member1": 1})
	stop()
	<-ended
	pause := w.Limits.Window / time.Duration(w.Limits.Writes)
	if most := int64(w.Limits.Writes) + int64(time.Since(begin)/pause) + 2; undone.Load() > most {
		t.Errorf("within %s the hub has written the marks %d times, want %d at most", time.Since(begin), undone.Load(), most)
	}
	w.Eventually("the condition goes, and the object has its marks", func() error {
		if condition := w.SelfConflict("web-deployment"); condition != nil {
			return fmt.Errorf("the condition is %+v", *condition)
		}
		web := harness.Deployment("web", 1)
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
			return err
		}
		if web.Annotations[policyv1alpha1.AnnotationPropagationPolicyName] == "" {
			return errors.New("it has no marks")
		}
		return nil
	})
}
