// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/order"
)

// important is a hub with a policy that has the ConfigMap "2" come first. It counts how often
// policies are listed.
type important struct {
	client.Client

	lists int
}

func (h *important) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	h.lists++
	if own, is := list.(*policyv1alpha1.PropagationPolicyList); is {
		p := policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "two", UID: "1", Generation: 1}}
		p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: "2"}}
		p.Spec.SchedulePriority = &policyv1alpha1.SchedulePriority{PriorityClassName: "first"}
		own.Items = append(own.Items, p)
	}
	return nil
}

func (h *important) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if class, is := object.(*schedulingv1.PriorityClass); is {
		class.Value = 7
	}
	return nil
}

// TestNobodyWaitsForRanks adds objects as their watch does. To compare them with the policies of
// their namespace then would have the objects of others wait.
func TestNobodyWaitsForRanks(t *testing.T) {
	hub := &important{}
	c := NewDetectionController(DetectionDeps{Client: hub, Templates: configMaps(t, "shop", 3), Prioritizes: true})
	c.asking.setPriority("policy shop/two", true)
	q := order.NewQueue(c.objectPriority, order.Share[templates.Key]{})("", workqueue.DefaultTypedControllerRateLimiter[templates.Key]())
	defer q.ShutDown()
	var in inbox.Inbox[templates.Key]
	if err := in.ForwardKeys(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	key := func(name string) templates.Key {
		return templates.Key{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Name: types.NamespacedName{Namespace: "shop", Name: name}}
	}
	for _, name := range []string{"0", "1", "2"} {
		in.Add(key(name))
	}
	if hub.lists > 0 {
		t.Errorf("policies were listed %d times while a watch told of objects", hub.lists)
	}
	for c.ranking.FollowKey(q) {
		continue
	}
	if first, _ := q.Get(); first != key("2") {
		t.Errorf("%s comes first", first)
	}
	if rank := c.objectPriority(key("2")); rank != 7 || q.Len() != 2 {
		t.Errorf("its rank is %d, and %d others wait", rank, q.Len())
	}
	c.asking.setPriority("policy shop/two", false)
	if rank := c.objectPriority(key("2")); rank != 0 || c.ranks.RankOf(key("2")) != 0 {
		t.Errorf("its rank is %d when no policy asks for one", rank)
	}
}
