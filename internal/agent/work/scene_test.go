// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// labs are those of the tests that run beside others.
var labs = env.NewFixtures(servers, newLab)

// takeScene gives the test a scene in a lab that no other test has until it ends. The agents,
// the definitions and the contents of the test are gone when the next one gets the lab.
func takeScene(t testing.TB) *scene {
	t.Helper()
	l := labs.TakeFixture(t)
	name := regexp.MustCompile("[^a-z0-9]+").ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-")
	s := l.scene(t, name[:min(len(name), 36)])
	env.WhenDone(t, func(t testing.TB) {
		t.Helper()
		for _, kind := range []client.Object{&corev1.ConfigMap{}, &corev1.Service{}} { // a Service may have an address that another asks for
			if err := l.client.DeleteAllOf(t.Context(), kind, client.InNamespace(s.ns())); err != nil {
				t.Errorf("emptying the member: %v", err)
			}
		}
		l.dropDefinitions(t)
	})
	return s
}

// dropDefinitions removes the definitions that are not our own, and waits until they are gone.
func (l *lab) dropDefinitions(t testing.TB) {
	t.Helper()
	kind := apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	expect.Eventually(t, "no definition is left behind", func() error {
		definitions := &metav1.PartialObjectMetadataList{}
		definitions.SetGroupVersionKind(kind)
		if err := l.client.List(t.Context(), definitions); err != nil {
			return err
		}
		var left error
		for i := range definitions.Items {
			name := definitions.Items[i].Name
			ours := func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Name == name }
			if !slices.ContainsFunc(l.environment.CRDs, ours) {
				err := l.client.Delete(t.Context(), unstructuredOf(kind, "", name))
				left = errors.Join(left, fmt.Errorf("%s is there", name), client.IgnoreNotFound(err))
			}
		}
		return left
	})
}
