// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hubprobe

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const namespace = operatorv1.DefaultAgentNamespace

// hub plays a hub that is asked what a credential may do.
type hub struct {
	authorizationclient.SelfSubjectAccessReviewsGetter
	// lets says whether it lets the credential in, and asked how often it was asked.
	lets  bool
	asked int
}

func (h *hub) SelfSubjectRulesReviews() authorizationclient.SelfSubjectRulesReviewInterface { return h }

func (h *hub) Create(_ context.Context, review *authorizationv1.SelfSubjectRulesReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectRulesReview, error) {
	h.asked++
	if !h.lets {
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	all := []string{"*"}
	review.Status.ResourceRules = []authorizationv1.ResourceRule{{Verbs: all, APIGroups: all, Resources: all}}
	return review, nil
}

// bench is a Controller with all that it works with.
type bench struct {
	*testing.T
	controller *Controller
	client     client.Client
	clock      *clocktesting.FakePassiveClock
	results    *ResultStore
	hub        *hub
	changed    chan event.TypedGenericEvent[*operatorv1.Klusterlet]
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, operatorv1.AddToScheme} {
		expect.NoError(t, add(scheme))
	}
	b := &bench{
		T: t, client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), results: NewResultStore(), hub: &hub{},
		changed: make(chan event.TypedGenericEvent[*operatorv1.Klusterlet], 10),
	}
	b.controller = NewHubProbeController(ControllerDeps{
		Client: b.client, Secrets: b.client, Clock: b.clock, Results: b.results, Changed: b.changed,
		Prober: probe.Prober{Connect: func(*rest.Config) (probe.SelfReviewer, error) { return b.hub, nil }},
	})
	return b
}

// look reconciles once and returns when it wants to be called again.
func (b *bench) look() time.Duration {
	b.Helper()
	result, err := b.controller.Reconcile(b.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "klusterlet"}})
	expect.NoError(b, err)
	return result.RequeueAfter
}

// verdicts are those for the two credentials, and how many changes were told.
func (b *bench) verdicts() string {
	result := b.results.LastResult("klusterlet")
	return fmt.Sprintf("bootstrap %s, hub %s, %d changes", result.Bootstrap.Verdict, result.Hub.Verdict, len(b.changed))
}

func klusterlet() *operatorv1.Klusterlet {
	return &operatorv1.Klusterlet{ObjectMeta: metav1.ObjectMeta{Name: "klusterlet"}, Spec: operatorv1.KlusterletSpec{ClusterName: "member1"}}
}

func secret(name string) *corev1.Secret {
	kubeconfig := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],` +
		`"clusters":[{"name":"c","cluster":{"server":"https://hub.example.com:6443"}}],"users":[{"name":"u","user":{"token":"t"}}]}`
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{operatorv1.KubeConfigKey: []byte(kubeconfig)},
	}
}

func TestWhatIsToldAboutTheHub(t *testing.T) {
	bootstrap, own := secret(operatorv1.BootstrapHubKubeConfigSecret), secret(operatorv1.HubKubeConfigSecret)
	cases := map[string]struct {
		reason  string
		objects []client.Object
		lets    bool
		want    string
		again   time.Duration
	}{
		"no secrets": {
			reason: "there is nobody to ask, and the user is told which secret is missing", objects: []client.Object{klusterlet()},
			want: "bootstrap SecretMissing, hub SecretMissing, 1 changes", again: retryInterval,
		},
		"a hub that does not know the token": {
			reason: "the token has expired", objects: []client.Object{klusterlet(), bootstrap},
			want: "bootstrap Unauthorized, hub SecretMissing, 1 changes", again: retryInterval,
		},
		"a cluster that asks to join": {
			reason: "it is on its way", objects: []client.Object{klusterlet(), bootstrap}, lets: true,
			want: "bootstrap Functional, hub SecretMissing, 1 changes", again: retryInterval,
		},
		"a cluster that has joined": {
			reason: "nobody needs the credential to join with any more, so it is not looked at", objects: []client.Object{klusterlet(), bootstrap, own}, lets: true,
			want: "bootstrap , hub Functional, 1 changes", again: functionalInterval,
		},
		"a Klusterlet that is not there": {
			reason: "there is nothing to tell", want: "bootstrap , hub , 0 changes",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.objects...)
			b.hub.lets = c.lets
			again := b.look()
			if diff := cmp.Diff(c.want, b.verdicts()); diff != "" || again != c.again {
				t.Errorf("%s: again after %s, want %s (-want +got):\n%s", c.reason, again, c.again, diff)
			}
		})
	}
}

func TestWhenAHubIsAsked(t *testing.T) {
	b := newBench(t, klusterlet(), secret(operatorv1.BootstrapHubKubeConfigSecret), secret(operatorv1.HubKubeConfigSecret))
	b.hub.lets = true
	want := func(asked int, reason string) {
		t.Helper()
		if b.hub.asked != asked {
			t.Errorf("%s: it was asked %d times, want %d", reason, b.hub.asked, asked)
		}
	}
	b.look()
	want(1, "at first")

	b.clock.SetTime(b.clock.Now().Add(time.Minute))
	if again := b.look(); again != functionalInterval-time.Minute {
		t.Errorf("nothing has changed: again after %s, want what is left of %s", again, functionalInterval)
	}
	want(1, "nothing has changed, and a request counts as a write on the hub")

	step := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: operatorv1.JoinStatusConfigMap},
		Data:       map[string]string{operatorv1.JoinStatusReasonKey: operatorv1.JoinReasonWaitingForCSRApproval},
	}
	expect.NoError(t, b.client.Create(t.Context(), step))
	if again := b.look(); again != retryInterval {
		t.Errorf("the agent says that the hub does not let it in, and the hub does still: again after %s, want %s", again, retryInterval)
	}
	want(2, "the agent is at another step")

	b.clock.SetTime(b.clock.Now().Add(functionalInterval))
	b.look()
	want(3, "the time is over")
	if len(b.changed) != 1 {
		t.Errorf("%d changes were told, want 1: the answer is the same each time", len(b.changed))
	}

	b.hub.lets = false
	b.clock.SetTime(b.clock.Now().Add(functionalInterval))
	if again := b.look(); again != retryInterval || len(b.changed) != 2 {
		t.Errorf("the hub has put the agent out: again after %s with %d changes, want %s with 2", again, len(b.changed), retryInterval)
	}
	expect.NoError(t, b.client.Delete(t.Context(), klusterlet()))
	b.look()
	if diff := cmp.Diff(ProbeResult{}, b.results.LastResult("klusterlet")); diff != "" {
		t.Errorf("the Klusterlet is gone, and its result is kept (-want +got):\n%s", diff)
	}
}
