// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/references"
)

// TestFewAreAskedForAtATime has a binding say that thousands need its object which do not
// exist: each look asks for some of them, until none is left.
func TestFewAreAskedForAtATime(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	gets := 0
	live := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			gets++
			return c.Get(ctx, key, object, options...)
		},
	}).Build()
	a := NewAttachedController(DependencyDeps{Live: live, Templates: templates.NewTemplates(templates.TemplateOptions{})}, nil)
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "settings"}}
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "settings-configmap"}}
	const many = 5 * askedMax
	for i := range many {
		b.Spec.RequiredBy = append(b.Spec.RequiredBy, workv1alpha2.BindingSnapshot{Namespace: "tenant", Name: fmt.Sprintf("forged-%d", i)})
	}
	for left := many; left > 0; {
		gets = 0
		who, err := a.awaitedReferrers(t.Context(), object, b, references.ReferrerNeeds{})
		if err != nil {
			t.Fatal(err)
		}
		if left -= askedMax; gets > askedMax || len(who) != left {
			t.Fatalf("%d were asked for, and %d are left, want at most %d and %d", gets, len(who), askedMax, left)
		}
		b.Spec.RequiredBy = who
	}
}
