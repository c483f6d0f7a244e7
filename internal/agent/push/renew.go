// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// renewToken gets a new token for the Secret if it is time to. What fails is told
// and tried again later.
func (s *session) renewToken(ctx context.Context, secret *corev1.Secret) {
	now := s.agent.options.Clock.Now()
	s.renewal.ResetFor(s.credential.Token)
	if due := s.renewal.DueAt(s.credential); due.IsZero() || now.Before(due) {
		return
	}
	token, err := s.transport.RequestToken(ctx, s.credential)
	var renewed *corev1.Secret
	if err == nil {
		renewed, err = s.agent.storeToken(ctx, secret, token)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.renewal.RecordFailure(s.credential, err, now)
		}
		return
	}
	s.renewal.RecordRenewal(s.credential, token, now)
	s.seeSecret(renewed, nil)
}

// storeToken writes a token into the Secret, unless somebody else wrote there
// meanwhile: theirs counts.
func (a *Agent) storeToken(ctx context.Context, secret *corev1.Secret, token string) (*corev1.Secret, error) {
	after := secret.DeepCopy()
	after.Data[fleetv1alpha1.SecretKeyToken] = []byte(token)
	patch := client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{})
	err := a.secrets.Patch(ctx, after, patch, client.FieldOwner(fieldOwner))
	key := client.ObjectKeyFromObject(secret)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the push agent may not patch the Secret %s: grant it patch, or use the name %q", key, fleetv1alpha1.DefaultSecretName)
	case apierrors.IsConflict(err):
		return nil, fmt.Errorf("the Secret %s changed at the same moment", key)
	case err != nil:
		return nil, fmt.Errorf("writing the Secret %s: %w", key, err)
	}
	return after, nil
}
