// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestLargeSecretsAreStoredAnew has a tenant of the hub store Secrets of which a page has more
// bytes in JSON than the operator takes of an answer.
func TestLargeSecretsAreStoredAnew(t *testing.T) {
	_, admin := servers.Start(t)
	tenant, err := client.New(admin, client.Options{})
	expect.NoError(t, err)
	data := bytes.Repeat([]byte{'x'}, corev1.MaxSecretSize)
	for n := range rewritePage {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprintf("large-%d", n),
				Annotations: map[string]string{"filler": strings.Repeat("<", 250<<10)},
			},
			Data: map[string][]byte{"data": data},
		}
		expect.NoError(t, tenant.Create(t.Context(), secret))
	}
	limited := rest.CopyConfig(admin)
	dial.LimitAnswers(limited)
	hub, err := client.New(limited, client.Options{})
	expect.NoError(t, err)
	count, err := (&rotationPhases{}).updateMatchingSecrets(t.Context(), &controlPlanePass{}, hub, func(*corev1.Secret) bool { return true }, client.InNamespace("default"))
	if err != nil || count != rewritePage {
		t.Errorf("%d of %d Secrets are stored anew, and error %v", count, rewritePage, err)
	}
}
