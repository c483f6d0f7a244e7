// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval_test

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration/csr/approval"
)

// TestApprovedAgentsAreNoted is about requests that somebody has decided about.
func TestApprovedAgentsAreNoted(t *testing.T) {
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	type given struct {
		csr       *certificatesv1.CertificateSigningRequest
		mc        *clusterv1.ManagedCluster
		namespace *corev1.Namespace
		labelled  *clusterv1.ManagedCluster
	}
	approvedAt := func(at time.Time) func(*given) {
		return func(g *given) { g.csr.Status.Conditions[0].LastTransitionTime = metav1.NewTime(at) }
	}
	cases := map[string]struct {
		reason string
		change func(*given)
		want   string
		told   int // how many objects have an event
	}{
		"approved after the ManagedCluster was created": {reason: "the agent is let in", want: "one"},
		"in the same second":                            {reason: "times have no more than seconds", change: approvedAt(created), want: "one"},
		"a moment before":                               {reason: "an agent of OCM may be that fast", change: approvedAt(created.Add(-time.Second)), want: "one"},
		"a moment before, where the namespace is older": {
			reason: "there was a cluster of that name", want: "",
			change: func(g *given) {
				approvedAt(created.Add(-time.Second))(g)
				g.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: clusterName, CreationTimestamp: metav1.NewTime(created.Add(-time.Hour))}}
			},
		},
		"long before": {reason: "it is of an earlier cluster", change: approvedAt(created.Add(-time.Hour)), want: ""},
		"denied": {
			reason: "there is no certificate", want: "",
			change: func(g *given) { g.csr.Status.Conditions[0].Type = certificatesv1.CertificateDenied },
		},
		"by another signer": {
			reason: "the hub does not take its certificates", want: "",
			change: func(g *given) { g.csr.Spec.SignerName = "example.com/other" },
		},
		"labelled for another cluster": {
			reason: "who approved it by its label did not mean this cluster", want: "", told: 2,
			change: func(g *given) { g.csr.Labels[clusterv1.LabelClusterName] = "west" },
		},
		"labelled for another cluster that is there": {
			reason: "its administrators hear of it, too", want: "", told: 3,
			change: func(g *given) {
				g.csr.Labels[clusterv1.LabelClusterName] = "west"
				g.labelled = &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "west"}}
			},
		},
		"by a token that is for other clusters": {
			reason: "nobody may let it in there by mistake", want: "", told: 2,
			change: func(g *given) {
				g.csr.Spec.Username = "system:bootstrap:edge00"
				g.csr.Spec.Groups = []string{clusterv1.GroupBootstrappers, clusterv1.GroupBootstrappers + ":prefix:edge-:x"}
			},
		},
		"without a label": {
			reason: "who approved it found it by no cluster", want: "", told: 2,
			change: func(g *given) { delete(g.csr.Labels, clusterv1.LabelClusterName) },
		},
		"with a label that names no cluster": {
			reason: "no list of requests shows a cluster of it", want: "", told: 2,
			change: func(g *given) { g.csr.Labels[clusterv1.LabelClusterName] = "" },
		},
		"beside another agent": {
			reason: "both have a certificate", want: "zero,one",
			change: func(g *given) { g.mc.Annotations = map[string]string{clusterv1.AnnotationAgents: "zero"} },
		},
		"where agents were not noted": {
			reason: "from now on they are, and the others stay", want: "*,one",
			change: func(g *given) { g.mc.Annotations = map[string]string{clusterv1.AnnotationAgents: "*"} },
		},
		"while the cluster is being deleted": {
			reason: "nobody new cleans up", want: "",
			change: func(g *given) {
				g.mc.Finalizers, g.mc.DeletionTimestamp = []string{clusterv1.FinalizerAPIResourceCleanup}, &metav1.Time{Time: created}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := given{csr: asked(t), mc: &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName, CreationTimestamp: metav1.NewTime(created)}}}
			g.csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(created.Add(time.Second)),
			}}
			if tc.change != nil {
				tc.change(&g)
			}
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{certificatesv1.AddToScheme, clusterv1.AddToScheme, corev1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(g.csr, g.mc)
			if g.namespace != nil {
				builder = builder.WithObjects(g.namespace)
			}
			if g.labelled != nil {
				builder = builder.WithObjects(g.labelled)
			}
			c := builder.Build()
			recorder := events.NewFakeRecorder(10)
			controller := approval.NewCSRApprovalController(approval.CSRApprovalDeps{
				Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(created), Events: recorder,
			})
			if _, err := controller.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(g.csr)}); err != nil {
				t.Fatal(err)
			}
			mc := &clusterv1.ManagedCluster{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(g.mc), mc); err != nil {
				t.Fatal(err)
			}
			if got := mc.Annotations[clusterv1.AnnotationAgents]; got != tc.want {
				t.Errorf("%s: the agents %q are noted, want %q", tc.reason, got, tc.want)
			}
			if told := len(recorder.Events); told != tc.told {
				t.Errorf("%s: %d objects have an event, want %d", tc.reason, told, tc.told)
			}
		})
	}
}
