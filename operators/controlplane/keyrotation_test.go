// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
	"github.com/capstan-io/capstan/operators/controlplane/rotation"
)

func TestTheLatestEncryptionKeyEncryptsOnceAllKnowIt(t *testing.T) {
	data := map[string][]byte{"key1": nil, "key2": nil, "encryption.yaml": nil, "key01": nil, "keyx": nil}
	for stage, want := range map[fleetv1alpha1.RotationStage][]string{
		rotation.Trust: {"key1", "key2"}, rotation.Sign: {"key2", "key1"}, rotation.Rewrite: {"key2", "key1"}, rotation.Complete: {"key2", "key1"},
	} {
		if diff := cmp.Diff(want, encryptionOrder(data, stage)); diff != "" {
			t.Errorf("stage %s: -want +got:\n%s", stage, diff)
		}
	}
	expect.NoError(t, (encryptionKeys{}).dropOldKeys(data))
	if diff := cmp.Diff([]string{"encryption.yaml", "key01", "key2", "keyx"}, slices.Sorted(maps.Keys(data))); diff != "" {
		t.Errorf("what is left: -want +got:\n%s", diff)
	}
	if err := (encryptionKeys{}).addNewKey(data); err != nil || len(data["key3"]) != encryptionKeyBytes {
		t.Errorf("the next key has %d bytes (%v)", len(data["key3"]), err)
	}
}

// token is one of a key, as far as that matters.
func token(key []byte) []byte {
	header := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"ES256","kid":%q}`, certs.KeyID(key)))
	return []byte(header + ".e30.c2ln")
}

func TestOnlyTokensOfAnotherKeyAreCleared(t *testing.T) {
	_, present, err := certs.NewSigningKey()
	expect.NoError(t, err)
	_, other, err := certs.NewSigningKey()
	expect.NoError(t, err)
	for name, c := range map[string]struct {
		token string
		want  bool
	}{
		"of the present key": {string(token(present)), false},
		"of another key":     {string(token(other)), true},
		"not written yet":    {"", false},
		"not a token":        {"x", true},
	} {
		secret := &corev1.Secret{Data: map[string][]byte{corev1.ServiceAccountTokenKey: []byte(c.token), "namespace": []byte("a")}}
		if got := staleTokenClearer(certs.KeyID(present))(secret); got != c.want {
			t.Errorf("%s: cleared is %v, want %v", name, got, c.want)
		}
		if _, there := secret.Data[corev1.ServiceAccountTokenKey]; there == c.want {
			t.Errorf("%s: the token is still there: %v", name, there)
		}
	}
}

// keysOf reads a Secret with keys.
func (h *harness) keysOf(suffix string) map[string][]byte {
	h.t.Helper()
	secret := &corev1.Secret{}
	h.read(secret, home, name+suffix)
	return secret.Data
}

// stages walks until the rotation is complete, or waits, and returns the stages that
// it went through. The function looks at each of them when its work is done.
func (h *harness) stages(subject string, look func(fleetv1alpha1.RotationStage)) []string {
	h.t.Helper()
	var seen []string
	for range 30 {
		h.walk()
		stage := h.stage(subject).Stage
		if len(seen) == 0 || seen[len(seen)-1] != string(stage) {
			seen = append(seen, string(stage))
		}
		if stage == rotation.Complete || stage == rotation.Wait {
			return seen
		}
		h.walk()
		if h.stage(subject).Stage == stage {
			look(stage)
		}
		h.runs()
	}
	h.t.Fatalf("the rotation does not come to an end: %+v", h.stage(subject))
	return nil
}

func TestTheKeyOfTheEncryptionIsRotatedInStages(t *testing.T) {
	h := start(t)
	h.grant()
	h.class()
	h.plane()
	h.install()
	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) { s.Rotation.EncryptionKeys = "1" })
	orders := map[string]string{}
	seen := h.stages(rotation.EncryptionKeys, func(stage fleetv1alpha1.RotationStage) {
		var order []string
		for _, line := range strings.Split(string(h.keysOf("-encryption")["encryption.yaml"]), "\n") {
			if _, name, found := strings.Cut(line, "- name: "); found {
				order = append(order, name)
			}
		}
		orders[string(stage)] = strings.Join(order, " ")
	})
	if diff := cmp.Diff([]string{"Trust", "Sign", "Rewrite", "Drop", "Complete"}, slices.Compact(seen)); diff != "" {
		t.Errorf("stages: -want +got:\n%s", diff)
	}
	if orders["Trust"] != "key1 key2" || orders["Sign"] != "key2 key1" || orders["Drop"] != "key2" {
		t.Errorf("the keys of the stages are %v", orders)
	}
}

func TestTheKeyOfServiceAccountsIsRotatedInStages(t *testing.T) {
	h := start(t)
	h.grant()
	h.class()
	h.plane()
	h.install()
	old := h.keysOf("-service-account")
	// A token that does not expire, which the controller manager has written.
	const account = "for-ever"
	h.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: account}})
	h.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: account, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
		Data:       map[string][]byte{corev1.ServiceAccountTokenKey: token(old[manifests.ServiceAccountPublicKeys])},
	})
	h.update(func(s *fleetv1alpha1.ControlPlaneSpec) {
		s.Rotation.ServiceAccountKeys, s.Rotation.ServiceAccountKeysGrace = "1", &metav1.Duration{Duration: time.Hour}
	})
	seen := h.stages(rotation.ServiceAccountKeys, func(stage fleetv1alpha1.RotationStage) {
		now := h.keysOf("-service-account")
		same := string(now[manifests.ServiceAccountKey]) == string(old[manifests.ServiceAccountKey])
		if same != (stage == rotation.Trust) || strings.Count(string(now[manifests.ServiceAccountPublicKeys]), "BEGIN") != 2 {
			t.Errorf("stage %s: the old key signs is %v, and these are accepted:\n%s", stage, same, now[manifests.ServiceAccountPublicKeys])
		}
	})
	if diff := cmp.Diff([]string{"Trust", "Sign", "Rewrite", "Wait"}, seen); diff != "" {
		t.Errorf("stages: -want +got:\n%s", diff)
	}
	secret := &corev1.Secret{}
	h.read(secret, "default", account)
	if len(secret.Data[corev1.ServiceAccountTokenKey]) > 0 {
		t.Error("the token of the old key is still stored")
	}
	h.clock.Step(time.Hour)
	h.stages(rotation.ServiceAccountKeys, func(fleetv1alpha1.RotationStage) {})
	now := h.keysOf("-service-account")
	public, err := certs.PublicKey(now[manifests.ServiceAccountKey])
	if err != nil || string(public) != string(now[manifests.ServiceAccountPublicKeys]) {
		t.Errorf("at last these are accepted (%v):\n%s", err, now[manifests.ServiceAccountPublicKeys])
	}
	if string(now[manifests.ServiceAccountIssuer]) != string(old[manifests.ServiceAccountIssuer]) {
		t.Error("the issuer has changed")
	}
}
