// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package spaces

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// newController returns the controller of a hub that has these objects, and answers
// that it is to make another with the error, if there is one.
func newController(t *testing.T, refusal error, objects ...client.Object) *ExecutionSpaceController {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return &ExecutionSpaceController{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if refusal != nil {
				return refusal
			}
			return c.Create(ctx, object, options...)
		},
	}).Build()}
}

func cluster(accepted bool) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "member1", UID: "u"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: accepted}}
}

func going(c *clusterv1.ManagedCluster) *clusterv1.ManagedCluster {
	c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/wait"}
	return c
}

func TestWhichClusterGetsANamespace(t *testing.T) {
	theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karmada-es-member1", Labels: map[string]string{"team": "a"}}}
	ours := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "karmada-es-member1", Labels: map[string]string{"karmada.io/system": "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.open-cluster-management.io/v1", Kind: "ManagedCluster", Name: "member1", UID: "u", Controller: new(true)}},
	}}
	cases := map[string]struct {
		has  []client.Object
		want *corev1.Namespace
	}{
		"an accepted one, to which it belongs":          {[]client.Object{cluster(true)}, ours},
		"not one that nobody has accepted":              {[]client.Object{cluster(false)}, nil},
		"not one that is going":                         {[]client.Object{going(cluster(true))}, nil},
		"not one that is gone":                          {nil, nil},
		"not one whose namespace is there, be it whose": {[]client.Object{cluster(true), theirs.DeepCopy()}, theirs},
		"not one that only had one":                     {[]client.Object{theirs.DeepCopy()}, theirs}, // Kubernetes removes what is ours
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newController(t, nil, tc.has...)
			if result, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "member1"}}); err != nil || !result.IsZero() {
				t.Fatalf("result %v, error %v", result, err)
			}
			all := &corev1.NamespaceList{}
			if err := c.Client.List(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			var got *corev1.Namespace
			if len(all.Items) > 0 {
				got = &all.Items[0]
				got.ResourceVersion = ""
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(all.Items) > 1 {
				t.Errorf("%d namespaces, -want +got:\n%s", len(all.Items), diff)
			}
		})
	}
}

func TestWhatIsTriedAgain(t *testing.T) {
	of := corev1.Resource("namespaces")
	cases := map[string]struct {
		refusal error
		again   bool
	}{
		"somebody else made it meanwhile": {apierrors.NewAlreadyExists(of, "karmada-es-member1"), false},
		"its name is too long for ever":   {apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind(), "karmada-es-member1", nil), false},
		"we may not make it yet":          {apierrors.NewForbidden(of, "karmada-es-member1", nil), true},
		"the hub has too much to do":      {apierrors.NewTooManyRequests("later", 1), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newController(t, tc.refusal, cluster(true))
			_, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "member1"}})
			if (err != nil) != tc.again || err != nil && (!errors.Is(err, tc.refusal) || !strings.Contains(err.Error(), "karmada-es-member1")) {
				t.Errorf("error %v, want one: %t", err, tc.again)
			}
		})
	}
}

func TestANamespaceThatGoesBringsBackItsCluster(t *testing.T) {
	for namespace, want := range map[string]string{
		"karmada-es-member1":       "member1",
		"karmada-es-karmada-es-a":  "karmada-es-a",
		"member1":                  "", // OCM's, of the same cluster
		"my-karmada-es-member1":    "",
		"karmada-esmember1":        "",
		"karmada-es":               "",
		"karmada-es-a.example.com": "a.example.com",
	} {
		t.Run(namespace, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			c := newController(t, nil)
			c.onDeleted(t.Context(), event.DeleteEvent{Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}, q)
			got := ""
			if q.Len() > 0 {
				request, _ := q.Get()
				got = request.Name
			}
			if got != want {
				t.Errorf("cluster %q is looked at, want %q", got, want)
			}
		})
	}
}

func TestWhatKeepsANamespace(t *testing.T) {
	condition := func(of corev1.NamespaceConditionType, status corev1.ConditionStatus, message string) corev1.NamespaceCondition {
		return corev1.NamespaceCondition{Type: of, Status: status, Message: message}
	}
	failure := condition(corev1.NamespaceDeletionContentFailure, corev1.ConditionTrue, "an object stays")
	cases := map[string]struct {
		deleted    bool
		conditions []corev1.NamespaceCondition
		want       string
	}{
		"nothing has failed":               {true, []corev1.NamespaceCondition{condition(corev1.NamespaceDeletionContentFailure, corev1.ConditionFalse, "all is well")}, ""},
		"what is in it goes":               {true, []corev1.NamespaceCondition{condition(corev1.NamespaceContentRemaining, corev1.ConditionTrue, "one pod")}, ""},
		"what is in it cannot be deleted":  {true, []corev1.NamespaceCondition{failure}, "an object stays"},
		"finalizers, and kinds not listed": {true, []corev1.NamespaceCondition{condition(corev1.NamespaceDeletionDiscoveryFailure, corev1.ConditionTrue, "no list"), condition(corev1.NamespaceFinalizersRemaining, corev1.ConditionTrue, "one finalizer")}, "no list; one finalizer"},
		"it is not being deleted":          {false, []corev1.NamespaceCondition{failure}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			namespace := &corev1.Namespace{Status: corev1.NamespaceStatus{Conditions: tc.conditions}}
			if tc.deleted {
				namespace.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			if got := deletionHindrance(namespace); got != tc.want {
				t.Errorf("hindrance %q, want %q", got, tc.want)
			}
		})
	}
}
