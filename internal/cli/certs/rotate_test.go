// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
)

func TestWhatIsRotatedIsChosenByFlags(t *testing.T) {
	for name, c := range map[string]struct {
		choice rotationChoice
		want   string
		err    string
	}{
		"one authority":      {choice: rotationChoice{authorities: []string{"client"}}, want: "clientAuthority"},
		"in their order":     {choice: rotationChoice{keys: []string{"encryption"}, authorities: []string{"client", "etcd"}}, want: "etcdAuthority clientAuthority encryptionKeys"},
		"all":                {choice: rotationChoice{all: true}, want: "etcdAuthority frontProxyAuthority clientAuthority serviceAccountKeys encryptionKeys servingAuthority"},
		"nothing":            {err: "choose what to rotate by --authority, --keys or --all"},
		"both":               {choice: rotationChoice{all: true, keys: []string{"encryption"}}, err: "--all cannot be combined"},
		"an unknown one":     {choice: rotationChoice{keys: []string{"etcd"}}, err: `--keys: unknown value "etcd"; the values are service-account, encryption`},
		"that of the server": {choice: rotationChoice{authorities: []string{"serving"}, without: []string{"c1"}}, want: "servingAuthority"},
		"without a cluster":  {choice: rotationChoice{authorities: []string{"client"}, without: []string{"c1"}}, err: "--without is for --authority serving"},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := c.choice.chosenSubjects()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want an error with %q", err, c.err)
				}
				return
			}
			var names []string
			for _, s := range chosen {
				names = append(names, s.name)
			}
			if diff := cmp.Diff(c.want, strings.Join(names, " ")); err != nil || diff != "" {
				t.Errorf("%v, -want +got:\n%s", err, diff)
			}
		})
	}
}

// rotating is a host whose operator rotates at once what it is asked for, except
// that certificates of clients are accepted for some time.
func rotating(t *testing.T, cp *fleetv1alpha1.ControlPlane) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := fleetv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(cp).WithStatusSubresource(cp).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if err := c.Get(ctx, key, o, options...); err != nil {
					return err
				}
				cp := o.(*fleetv1alpha1.ControlPlane)
				for _, s := range rotationSubjects() {
					state := fleetv1alpha1.ControlPlaneRotationStatus{Name: s.name, Token: *s.token(&cp.Spec.Rotation), Stage: fleetv1alpha1.RotationComplete}
					if s.value == "client" {
						state.Stage, state.Message = fleetv1alpha1.RotationWait, "the old one is trusted until then"
					}
					if state.Token != "" {
						cp.Status.Rotations = append(cp.Status.Rotations, state)
					}
				}
				return nil
			},
		}).Build()
}

func TestRotationsAreAskedForAndWaitedFor(t *testing.T) {
	cp := dedicatedHub()
	cp.Spec.Rotation.EtcdAuthority = "earlier"
	c := rotating(t, cp)
	chosen, err := rotationChoice{authorities: []string{"client"}, keys: []string{"encryption"}}.chosenSubjects()
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	session := hub.NewSession(genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}, clocktesting.NewFakePassiveClock(now()))
	if err := rotate(t.Context(), session, install.Waiter{Client: c, Timeout: time.Minute}, cp, rotationRequest{subjects: chosen}); err != nil {
		t.Fatal(err)
	}
	got := &fleetv1alpha1.ControlPlane{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(cp), got); err != nil {
		t.Fatal(err)
	}
	want := fleetv1alpha1.ControlPlaneRotation{
		EtcdAuthority: "earlier", ClientAuthority: "2026-01-01T00:00:00Z", EncryptionKeys: "2026-01-01T00:00:00Z",
	}
	if diff := cmp.Diff(want, got.Spec.Rotation); diff != "" {
		t.Errorf("the spec: -want +got:\n%s", diff)
	}
	if !strings.Contains(out.String(), "Of the authority of clients, the old one is trusted until then.") {
		t.Errorf("it does not say until when the old authority is trusted:\n%s", out.String())
	}
	if !strings.Contains(errOut.String(), "Rotating the key of the encryption") {
		t.Errorf("it does not say what it does:\n%s", errOut.String())
	}
}

func TestARotationThatIsUnderWayIsNotBegunAgain(t *testing.T) {
	cp := dedicatedHub()
	cp.Status.Rotations = []fleetv1alpha1.ControlPlaneRotationStatus{{Name: "clientAuthority", Token: "earlier", Stage: fleetv1alpha1.RotationWait}}
	chosen, err := rotationChoice{authorities: []string{"client"}}.chosenSubjects()
	if err != nil {
		t.Fatal(err)
	}
	err = requestRotation(t.Context(), rotating(t, cp), cp, rotationRequest{subjects: chosen}, "now")
	if err == nil || !strings.Contains(err.Error(), "the authority of clients is already being rotated, since earlier: stage Wait") {
		t.Errorf("got %v, want a refusal", err)
	}
	left := filterRotatable(rotationSubjects(), cp, true)
	if len(left) != len(rotationSubjects())-2 {
		t.Errorf("of all, %d are rotated; want neither the authority of clients nor that of an etcd that is not there", len(left))
	}
}

func TestClustersAreLeftBehind(t *testing.T) {
	chosen, err := rotationChoice{authorities: []string{"serving"}}.chosenSubjects()
	if err != nil {
		t.Fatal(err)
	}
	state := func(stage fleetv1alpha1.RotationStage) []fleetv1alpha1.ControlPlaneRotationStatus {
		return []fleetv1alpha1.ControlPlaneRotationStatus{{Name: "servingAuthority", Token: "earlier", Stage: stage}}
	}
	for name, c := range map[string]struct {
		stage   fleetv1alpha1.RotationStage
		without []string
		token   string
		want    []string
		err     string
	}{
		"of a new rotation, only those that are named now": {stage: fleetv1alpha1.RotationComplete, without: []string{"c3", "c2"}, token: "now", want: []string{"c2", "c3"}},
		"of a new rotation, none":                          {stage: fleetv1alpha1.RotationComplete, token: "now"},
		"of one that waits, further ones":                  {stage: fleetv1alpha1.RotationTrust, without: []string{"c2", "c1"}, token: "earlier", want: []string{"c1", "c2"}},
		"of one that waits, no further ones":               {stage: fleetv1alpha1.RotationTrust, err: "the authority of the API server is already being rotated"},
	} {
		t.Run(name, func(t *testing.T) {
			cp := dedicatedHub()
			cp.Spec.Rotation.ServingAuthority, cp.Spec.Rotation.ServingAuthorityWithout = "earlier", []string{"c1"}
			cp.Status.Rotations = state(c.stage)
			err := requestRotation(t.Context(), rotating(t, cp), cp, rotationRequest{chosen, c.without}, "now")
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want an error with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, cp.Spec.Rotation.ServingAuthorityWithout); diff != "" || cp.Spec.Rotation.ServingAuthority != c.token {
				t.Errorf("token %q, -want +got:\n%s", cp.Spec.Rotation.ServingAuthority, diff)
			}
		})
	}
}
