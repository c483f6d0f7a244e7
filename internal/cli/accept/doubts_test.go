// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// working makes a cluster one that is in the fleet and well.
func working(mc *clusterv1.ManagedCluster) {
	mc.Spec.HubAcceptsClient = true
	for _, is := range []string{clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
		meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: is, Status: metav1.ConditionTrue, Reason: "Test"})
	}
}

// hubThatLetsIn is a hub that lets cluster c1 in once a request is approved, and counts
// these. The late request comes when requests are listed for the second time.
func hubThatLetsIn(t *testing.T, objects []client.Object, late *certificatesv1.CertificateSigningRequest, approved *int) client.WithWatch {
	t.Helper()
	looks := 0
	return fakeHub(t, objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, is := list.(*certificatesv1.CertificateSigningRequestList); is {
				looks++
			}
			if late != nil && looks == 2 {
				if err := w.Create(ctx, late); err != nil {
					return err
				}
				late = nil
			}
			return w.List(ctx, list, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, w client.Client, _ string, _ client.Object, _ ...client.SubResourceUpdateOption) error {
			*approved++
			mc := &clusterv1.ManagedCluster{}
			if err := w.Get(ctx, client.ObjectKey{Name: "c1"}, mc); err != nil {
				return err
			}
			working(mc)
			return w.Status().Update(ctx, mc)
		},
	}).Build()
}

// TestWhatAJoinerHasChosenIsNotAcceptedUnseen has somebody ask to join who has a bootstrap
// token: what he chooses is shown, and accepted only by somebody who says so. There is no
// terminal here to ask.
func TestWhatAJoinerHasChosenIsNotAcceptedUnseen(t *testing.T) {
	cluster := func(change func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
			Name: "c1", UID: "seen",
			Labels: map[string]string{clusterv1.LabelClusterSet: clusterv1.DefaultClusterSet, clusterv1.LabelAwaitingAcceptance: "0123456789abcdef"},
		}}
		if change != nil {
			change(mc)
		}
		return mc
	}
	cases := map[string]struct {
		cluster  *clusterv1.ManagedCluster
		requests []string
		late     bool // the request comes while the command waits
		chosen   string
		want     []string // none is for what is accepted without a question
	}{
		"nothing but what the hub gives it": {cluster: cluster(nil), requests: []string{"c1-a"}},
		"labels": {
			cluster:  cluster(func(mc *clusterv1.ManagedCluster) { mc.Labels["env"] = "prod" }),
			requests: []string{"c1-a"}, want: []string{"comes with labels", "  env=prod\n"},
		},
		"a request beside others": {
			cluster: cluster(nil), requests: []string{"c1-a", "c1-b"}, chosen: "c1-b",
			want: []string{"Others ask to be cluster", "You have chosen c1-b: agent agent with the key sha256:", "\n  c1-a: agent agent with the key sha256:"},
		},
		"a request for a cluster that works": {
			cluster: cluster(working), requests: []string{"c1-a"}, chosen: "c1-a", want: []string{"has a working agent, and the request is for another one"},
		},
		"a request for a cluster that is not heard of any more": {
			cluster: cluster(func(mc *clusterv1.ManagedCluster) {
				working(mc)
				meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionUnknown, Reason: "Test"})
			}),
			requests: []string{"c1-a"}, want: []string{"Whoever has a bootstrap token can ask to be cluster", "with the key sha256:"},
		},
		"whoever asks first": {
			cluster: cluster(nil), requests: []string{"c1-a"}, late: true, want: []string{"Whoever has a bootstrap token can ask to be cluster", "with the key sha256:"},
		},
	}
	for name, tc := range cases {
		for _, yes := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				objects, late := []client.Object{tc.cluster.DeepCopy()}, (*certificatesv1.CertificateSigningRequest)(nil)
				for _, name := range tc.requests {
					if request := asks(t, name, "c1"); tc.late {
						late = request
					} else {
						objects = append(objects, request)
					}
				}
				approved := 0
				c := hubThatLetsIn(t, objects, late, &approved)
				var out bytes.Buffer
				session := hub.NewSession(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}, clock.RealClock{})
				a := &acceptCommand{session: session, read: c, write: c, wait: tc.late, timeout: 10 * time.Minute, chosen: tc.chosen, yes: yes}
				a.mode.AddFlag(&cobra.Command{})
				err := a.acceptCluster(t.Context(), "c1")
				for _, part := range tc.want {
					if !strings.Contains(out.String(), part) {
						t.Errorf("%q is not in what it says:\n%s", part, &out)
					}
				}
				if shown := strings.Contains(out.String(), `"c1" has the UID seen`); shown == tc.cluster.Spec.HubAcceptsClient {
					t.Errorf("it shows which cluster it accepts: %t:\n%s", shown, &out)
				}
				asked := err != nil && strings.Contains(exit.FormatError(err), "there is no terminal to ask")
				if wants := len(tc.want) > 0 && !yes; asked != wants || (approved > 0) == wants {
					t.Errorf("asked: %t, %d requests approved (%v); it says:\n%s", asked, approved, err, &out)
				}
			})
		}
	}
}
