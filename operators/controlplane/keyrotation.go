// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/paging"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
	"github.com/capstan-io/capstan/operators/controlplane/rotation"
)

const (
	// nextServiceAccountKey is the key in the Secret for the private key that is to
	// sign tokens, until it does.
	nextServiceAccountKey = "next.key"

	// encryptionKeyBytes is the size of a key of the encryption at rest;
	// encryptionKeyPrefix begins its key in the Secret, before a number.
	encryptionKeyBytes  = 32
	encryptionKeyPrefix = "key"

	// rewritePage is how many Secrets are read at once, and fewer if they are large.
	rewritePage = 40
)

// replaceableKeys are keys in a Secret that a rotation replaces. Each function changes
// the data, and does nothing if that was done before.
type replaceableKeys interface {
	// addNewKey makes another key beside those that there are.
	addNewKey(data map[string][]byte) error
	// signWithNewKey makes the new one sign; drop removes all others.
	signWithNewKey(data map[string][]byte) error
	dropOldKeys(data map[string][]byte) error
}

// replaceKeys does what the stage of a rotation asks of the Secret with the keys.
// It tells the walk for which rotation they were made, if for any.
func (c *credentialPhases) replaceKeys(ctx context.Context, p *controlPlanePass, subject string, secret *corev1.Secret, keys replaceableKeys) error {
	state := rotation.FindRotation(p.Object.Status.Rotations, subject)
	made := secret.Annotations[certs.AnnotationReplacement]
	p.replaced[subject] = made
	if state == nil {
		return nil
	}
	before := flattenSecretData(secret.Data)
	var err error
	switch {
	case state.Stage == rotation.Trust && made != state.Token:
		err = keys.addNewKey(secret.Data)
		if secret.Annotations == nil {
			secret.Annotations = map[string]string{}
		}
		secret.Annotations[certs.AnnotationReplacement] = state.Token
	case made != state.Token:
		return nil // what was made for it is gone
	case state.Stage == rotation.Sign:
		err = keys.signWithNewKey(secret.Data)
	case state.Stage == rotation.Drop:
		err = keys.dropOldKeys(secret.Data)
	}
	if err != nil {
		return fmt.Errorf("replacing the keys in Secret %q: %w", secret.Name, err)
	}
	if string(flattenSecretData(secret.Data)) != string(before) {
		// Under the lock: nobody else has changed it since it was read.
		if err := c.Client.Update(ctx, secret, client.FieldOwner(keysOwner)); err != nil {
			return fmt.Errorf("storing the keys of Secret %q: %w", secret.Name, err)
		}
	}
	p.replaced[subject] = secret.Annotations[certs.AnnotationReplacement]
	return nil
}

// signingKeys are those of ServiceAccounts' tokens.
type signingKeys struct{}

func (signingKeys) addNewKey(data map[string][]byte) error {
	private, public, err := certs.NewSigningKey()
	if err != nil {
		return err
	}
	data[nextServiceAccountKey] = private
	data[manifests.ServiceAccountPublicKeys] = append(slices.Clone(data[manifests.ServiceAccountPublicKeys]), public...)
	return nil
}

func (signingKeys) signWithNewKey(data map[string][]byte) error {
	if next := data[nextServiceAccountKey]; len(next) > 0 {
		data[manifests.ServiceAccountKey] = next
		delete(data, nextServiceAccountKey)
	}
	return nil
}

func (signingKeys) dropOldKeys(data map[string][]byte) error {
	public, err := certs.PublicKey(data[manifests.ServiceAccountKey])
	data[manifests.ServiceAccountPublicKeys] = public
	return err
}

// encryptionKeys are those of the encryption at rest. The configuration next to
// them says which one encrypts, so nothing of them changes for that.
type encryptionKeys struct{}

func (encryptionKeys) addNewKey(data map[string][]byte) error {
	key, err := newEncryptionKey()
	data[encryptionKeyName(encryptionNumbers(data)[0]+1)] = key
	return err
}

func (encryptionKeys) signWithNewKey(map[string][]byte) error { return nil }

func (encryptionKeys) dropOldKeys(data map[string][]byte) error {
	for _, number := range encryptionNumbers(data)[1:] {
		delete(data, encryptionKeyName(number))
	}
	return nil
}

// encryptionOrder returns the names of the keys, the one that encrypts first: that
// is the latest, unless not everybody knows it yet.
func encryptionOrder(data map[string][]byte, stage fleetv1alpha1.RotationStage) []string {
	var names []string
	for _, number := range encryptionNumbers(data) {
		names = append(names, encryptionKeyName(number))
	}
	if stage == rotation.Trust && len(names) > 1 {
		names[0], names[1] = names[1], names[0]
	}
	return names
}

// encryptionNumbers returns the numbers of the keys, the latest first; 0 if there
// are none.
func encryptionNumbers(data map[string][]byte) []int {
	var numbers []int
	for name := range data {
		if number, err := strconv.Atoi(strings.TrimPrefix(name, encryptionKeyPrefix)); err == nil && name == encryptionKeyName(number) {
			numbers = append(numbers, number)
		}
	}
	if len(numbers) == 0 {
		return []int{0}
	}
	slices.SortFunc(numbers, func(a, b int) int { return cmp.Compare(b, a) })
	return numbers
}

func encryptionKeyName(number int) string { return encryptionKeyPrefix + strconv.Itoa(number) }

func newEncryptionKey() ([]byte, error) {
	key := make([]byte, encryptionKeyBytes)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, nil
}

// rewriteHubSecrets stores in the hub anew what old keys have made: all Secrets, or those
// with tokens that do not expire.
func (r *rotationPhases) rewriteHubSecrets(ctx context.Context, p *controlPlanePass, subject string) (rotation.StageFacts, error) {
	there, err := r.hubs.clientForPass(p)
	if err != nil {
		return rotation.StageFacts{}, r.notReachable(p, err)
	}
	if subject == rotation.EncryptionKeys {
		_, err := r.updateMatchingSecrets(ctx, p, there, func(*corev1.Secret) bool { return true })
		return rotation.StageFacts{}, err
	}
	public, err := certs.PublicKey(p.tokenKey)
	if err != nil {
		return rotation.StageFacts{}, fmt.Errorf("reading the key in Secret %q: %w", p.plane.ServiceAccountSecret(), err)
	}
	cleared, err := r.updateMatchingSecrets(ctx, p, there, staleTokenClearer(certs.KeyID(public)), client.MatchingFields{"type": string(corev1.SecretTypeServiceAccountToken)})
	if err != nil || cleared == 0 {
		return rotation.StageFacts{}, err
	}
	return rotation.StageFacts{Left: fmt.Sprintf("waiting for the controller manager to write new tokens into %d Secrets of the hub", cleared)}, nil
}

// updateMatchingSecrets stores the Secrets of the hub anew that the function wants to be, and may
// change. It returns how many these were.
func (r *rotationPhases) updateMatchingSecrets(
	ctx context.Context, p *controlPlanePass, there client.Client, wanted func(*corev1.Secret) bool, options ...client.ListOption,
) (int, error) {
	count := 0
	pages := paging.NewPages(there, rewritePage, paging.ObjectsMax)
	for page, err := range paging.EachPage(ctx, pages, func() *corev1.SecretList { return &corev1.SecretList{} }, options...) {
		if err != nil {
			return count, r.notReachable(p, fmt.Errorf("listing the Secrets of the hub: %w", err))
		}
		for n := range page.Items {
			secret := &page.Items[n]
			if !wanted(secret) {
				continue
			}
			count++
			// Who changes it at the same time stores it anew as well.
			err := there.Update(ctx, secret, client.FieldOwner(FieldOwner))
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return count, r.notReachable(p, fmt.Errorf("rewriting the Secret %q of the hub: %w", client.ObjectKeyFromObject(secret), err))
			}
		}
	}
	return count, nil
}

// staleTokenClearer returns what finds Secrets with a token that another key has signed, and
// takes that out: the controller manager then writes one of the present key.
func staleTokenClearer(key string) func(*corev1.Secret) bool {
	return func(secret *corev1.Secret) bool {
		token := secret.Data[corev1.ServiceAccountTokenKey]
		if len(token) == 0 || tokenSigningKeyID(token) == key {
			return false
		}
		delete(secret.Data, corev1.ServiceAccountTokenKey)
		return true
	}
}

// tokenSigningKeyID returns the name of the key that signed a token; empty if it has none.
func tokenSigningKeyID(token []byte) string {
	encoded, _, _ := strings.Cut(string(token), ".")
	header := struct {
		KeyID string `json:"kid"`
	}{}
	decoded, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(decoded, &header) != nil {
		return ""
	}
	return header.KeyID
}
