// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/kube/selfconflict"
)

// TestWhatIsWrittenWithoutEndIsSlowedDown lets somebody take the marks of a policy off an
// object as soon as the hub has put them there.
func TestWhatIsWrittenWithoutEndIsSlowedDown(t *testing.T) {
	w := newHub(t, servers.Start)
	*w.limits = selfconflict.Limits{Writes: 20, Window: 5 * time.Second}
	w.join("member1")
	w.start()
	w.create(policy("web", only("member1")), deployment("web", 1))
	w.on("web", map[string]int32{"member1": 1})

	begin, undone := time.Now(), &atomic.Int64{}
	fighting, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.takeOff(fighting, "web", undone)
	}()
	w.eventually("the binding says what is written without end", func() error {
		condition := w.selfConflict("web-deployment")
		if condition == nil || condition.Status != metav1.ConditionTrue || condition.Reason != fleetv1alpha1.ReasonWrittenWithoutEnd ||
			!strings.Contains(condition.Message, "deployments.apps default/web") {
			return fmt.Errorf("its condition is %+v, after the marks were taken off %d times", condition, undone.Load())
		}
		return nil
	})
	w.create(deployment("other", 1))
	w.on("other", map[string]int32{"member1": 1})
	stop()
	<-ended
	pause := w.limits.Window / time.Duration(w.limits.Writes)
	if most := int64(w.limits.Writes) + int64(time.Since(begin)/pause) + 2; undone.Load() > most {
		t.Errorf("within %s the hub has written the marks %d times, want %d at most", time.Since(begin), undone.Load(), most)
	}
	w.eventually("the condition goes, and the object has its marks", func() error {
		if condition := w.selfConflict("web-deployment"); condition != nil {
			return fmt.Errorf("the condition is %+v", *condition)
		}
		web := deployment("web", 1)
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
			return err
		}
		if web.Annotations[policyv1alpha1.AnnotationPropagationPolicyName] == "" {
			return errors.New("it has no marks")
		}
		return nil
	})
}

// takeOff takes the marks of its policy off a Deployment whenever it has them, and counts
// how often.
func (w world) takeOff(ctx context.Context, name string, times *atomic.Int64) {
	off, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels":      map[string]any{policyv1alpha1.LabelPropagationPolicyID: nil},
		"annotations": map[string]any{policyv1alpha1.AnnotationPropagationPolicyName: nil, policyv1alpha1.AnnotationPropagationPolicyNamespace: nil},
	}})
	if err != nil {
		w.Error(err)
		return
	}
	for ctx.Err() == nil {
		web := deployment(name, 1)
		if err := w.Get(ctx, client.ObjectKeyFromObject(web), web); err != nil || web.Annotations[policyv1alpha1.AnnotationPropagationPolicyName] == "" {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if w.Patch(ctx, web, client.RawPatch(types.MergePatchType, off)) == nil {
			times.Add(1)
		}
	}
}

// selfConflict returns the condition of a binding of namespace default, nil if it has none.
func (w world) selfConflict(name string) *metav1.Condition {
	w.Helper()
	binding := &workv1alpha2.ResourceBinding{}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, binding); err != nil {
		w.Fatal(err)
	}
	return meta.FindStatusCondition(binding.Status.Conditions, fleetv1alpha1.ConditionSelfConflict)
}
