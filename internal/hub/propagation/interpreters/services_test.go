// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-io/capstan/internal/cluster/callout"
)

func TestWhereServicesAre(t *testing.T) {
	for name, c := range map[string]struct {
		spec   *corev1.ServiceSpec
		broken error
		want   string
	}{
		"a cluster IP":     {spec: &corev1.ServiceSpec{ClusterIP: "10.0.0.7"}, want: "10.0.0.7:8443"},
		"an IPv6 address":  {spec: &corev1.ServiceSpec{ClusterIP: "2001:db8::1"}, want: "[2001:db8::1]:8443"},
		"a headless one":   {spec: &corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}, want: "interpreter.shop.svc:8443"},
		"an external name": {spec: &corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "interpreter.example.com"}, want: "interpreter.example.com:8443"},
		"none on the hub":  {want: "interpreter.shop.svc:8443"},
		"no answer":        {broken: errors.New("it does not answer")},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder()
			if c.spec != nil {
				builder.WithObjects(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "interpreter"}, Spec: *c.spec})
			}
			if c.broken != nil {
				builder.WithInterceptorFuncs(interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return c.broken
				}})
			}
			got, err := serviceResolver{builder.Build()}.resolveService(t.Context(), callout.ServiceRef{Namespace: "shop", Name: "interpreter", Port: 8443})
			if got != c.want || (err == nil) != (c.broken == nil) || err != nil && !strings.Contains(err.Error(), `reading Service "shop/interpreter"`) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}
