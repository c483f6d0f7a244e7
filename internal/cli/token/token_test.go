// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

const (
	anyToken = "abcdef.0123456789abcdef"
	day      = 24 * time.Hour
)

func now() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// create returns what "token create" is called with.
func create(change func(*createCommand)) *createCommand {
	c := &createCommand{
		session: hub.NewSession(genericiooptions.IOStreams{}, clocktesting.NewFakePassiveClock(now())),
		ttl:     day, groups: []string{clusterv1.GroupBootstrappers}, usages: []string{"signing", "authentication"},
	}
	c.mode.AddFlag(&cobra.Command{}) // which has the default
	change(c)
	return c
}

func TestWhatATokenIs(t *testing.T) {
	plain := map[string]string{
		"token-id": "abcdef", "token-secret": "0123456789abcdef", "auth-extra-groups": "system:bootstrappers:managedcluster",
		"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true", "expiration": "2026-01-02T12:00:00Z",
	}
	with := func(changes map[string]string) map[string]string {
		data := map[string]string{}
		for key, value := range plain {
			data[key] = value
		}
		for key, value := range changes {
			if data[key] = value; value == "" {
				delete(data, key)
			}
		}
		return data
	}
	cases := map[string]struct {
		reason string
		change func(*createCommand)
		want   map[string]string
		refuse string
	}{
		"as it comes":     {reason: "it lets any cluster ask, for a day", change: func(*createCommand) {}, want: plain},
		"for ever":        {reason: "the token cleaner leaves it alone", change: func(c *createCommand) { c.ttl = 0 }, want: with(map[string]string{"expiration": ""})},
		"described":       {reason: "people tell it apart", change: func(c *createCommand) { c.description = "for member1" }, want: with(map[string]string{"description": "for member1"})},
		"one usage":       {reason: "it verifies no hub", change: func(c *createCommand) { c.usages = []string{"authentication"} }, want: with(map[string]string{"usage-bootstrap-signing": ""})},
		"bound":           {reason: "no other name can be had with it", change: func(c *createCommand) { c.names = []string{"edge-1"} }, want: with(map[string]string{"auth-extra-groups": "system:bootstrappers:managedcluster,system:bootstrappers:managedcluster:name:edge-1"})},
		"in the past":     {reason: "it would be deleted at once", change: func(c *createCommand) { c.ttl = -time.Hour }, refuse: "--ttl"},
		"a foreign group": {reason: "the API server would not put it in there", change: func(c *createCommand) { c.groups = []string{"system:masters"} }, refuse: "--groups"},
		"an odd usage":    {reason: "there are two", change: func(c *createCommand) { c.usages = []string{"joining"} }, refuse: "--usages"},
		"accepted for any name": {
			reason: "whoever finds it could take every name", change: func(c *createCommand) { c.autoAccept = true }, refuse: "--auto-accept needs --cluster-name",
		},
		"a name that no cluster has": {reason: "nobody could use it", change: func(c *createCommand) { c.names = []string{"Edge_1"} }, refuse: "--cluster-name"},
		"both to print":              {reason: "scripts read one of them", change: func(c *createCommand) { c.command, c.kubeconfig = true, true }, refuse: "exclude each other"},
		"to register without signing": {
			reason: "the member could not verify the hub", refuse: "takes a token for",
			change: func(c *createCommand) { c.command, c.usages = true, []string{"authentication"} },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			creating := create(c.change)
			err := creating.checkFlags()
			if c.refuse != "" {
				if err == nil || !strings.Contains(err.Error(), c.refuse) {
					t.Errorf("%s: the error is %v, want one about %s", c.reason, err, c.refuse)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", c.reason, err)
			}
			secret := creating.tokenSecret(anyToken)
			if diff := cmp.Diff(c.want, secret.StringData); diff != "" || secret.Namespace != "kube-system" || secret.Name != "bootstrap-token-abcdef" {
				t.Errorf("%s: Secret %s/%s (-want +got):\n%s", c.reason, secret.Namespace, secret.Name, diff)
			}
		})
	}
}

func TestWhatATokenIsLimitedTo(t *testing.T) {
	const until = " may ask to join with this token until 2026-01-02T12:00:00Z; "
	manager := func(limit string, mode operatorv1.InstallMode) *operatorv1.ClusterManager {
		cm := &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: "cluster-manager"}}
		cm.Spec.DeployOption.Mode = mode
		if limit != "" {
			cm.Annotations = map[string]string{operatorv1.AnnotationMaxUnacceptedClusters: limit}
		}
		return cm
	}
	cases := map[string]struct {
		reason string
		hub    *operatorv1.ClusterManager
		change func(*createCommand)
		want   string
	}{
		"any cluster": {
			reason: "the hub has the default", hub: manager("", operatorv1.InstallModeDefault),
			want: "Any cluster" + until + "an administrator accepts it. Up to 1000 clusters may wait for acceptance at a time.",
		},
		"a limit of the hub": {
			reason: "the annotation says so", hub: manager("50", operatorv1.InstallModeDefault),
			change: func(c *createCommand) { c.ttl, c.names, c.autoAccept = 0, []string{"edge-*", "member1"}, true },
			want: "Clusters edge-*, member1 may ask to join with this token forever; the hub accepts them automatically. " +
				"Up to 50 clusters may join with it.",
		},
		"no limit": {
			reason: "there is nothing to say", hub: manager("0", operatorv1.InstallModeDefault),
			want: "Any cluster" + until + "an administrator accepts it.",
		},
		"one name": {
			reason: "there is one cluster of a name", hub: manager("", operatorv1.InstallModeDefault),
			change: func(c *createCommand) { c.names = []string{"member1"} },
			want:   "Cluster member1" + until + "an administrator accepts it.",
		},
		"more names than may wait": {
			reason: "not all of them can ask at once", hub: manager("1", operatorv1.InstallModeDefault),
			change: func(c *createCommand) { c.names = []string{"a", "b"} },
			want:   "Clusters a, b" + until + "an administrator accepts them. Up to 1 clusters may wait for acceptance at a time.",
		},
		"no number": {
			reason: "the operator does not take it", hub: manager("many", operatorv1.InstallModeDefault),
			want: "Any cluster" + until + "an administrator accepts it. Unless the hub has another limit, up to 1000 clusters may wait for acceptance at a time.",
		},
		"a hub elsewhere": {
			reason: "the annotation is about another hub", hub: manager("50", operatorv1.InstallModeHosted),
			want: "Any cluster" + until + "an administrator accepts it. Unless the hub has another limit, up to 1000 clusters may wait for acceptance at a time.",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := operatorv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			if c.change == nil {
				c.change = func(*createCommand) {}
			}
			hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.hub).Build()
			if diff := cmp.Diff(c.want, create(c.change).describeLimits(t.Context(), hub)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// Who may make tokens need not be allowed to read how the hub is installed.
func TestALimitThatCannotBeReadIsNoMistake(t *testing.T) {
	unknown := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build() // it knows no kind
	if limit, known := unacceptedLimit(t.Context(), unknown); limit != 1000 || known {
		t.Errorf("the limit is %d, known: %t, want the default", limit, known)
	}
}

func TestTheListOfTokens(t *testing.T) {
	const ours = "system:bootstrappers:managedcluster"
	cases := map[string]struct {
		reason string
		data   map[string]string
		want   []any
	}{
		"bound and accepted": {
			reason: "who may come in by itself stands there",
			data: map[string]string{
				"auth-extra-groups": ours + "," + ours + ":prefix:edge-:x," + ours + ":auto-accept", "expiration": "2026-01-02T00:00:00Z",
				"usage-bootstrap-signing": "true",
			},
			want: []any{
				anyToken, "12h", "2026-01-02T00:00:00Z", "signing", "<none>", ours + "," + ours + ":prefix:edge-:x," + ours + ":auto-accept", "edge-*", "automatic",
			},
		},
		"accepted and bound to nothing": {
			reason: "that has no effect, and the list does not claim it has", data: map[string]string{"auth-extra-groups": ours + "," + ours + ":auto-accept"},
			want: []any{anyToken, "<forever>", "<never>", "<none>", "<none>", ours + "," + ours + ":auto-accept", "<any>", "manual"},
		},
		"of kubeadm": {
			reason: "no cluster joins with it", data: map[string]string{"auth-extra-groups": "system:bootstrappers:kubeadm", "expiration": "2026-01-01T12:00:00Z"},
			want: []any{anyToken, "<expired>", "2026-01-01T12:00:00Z", "<none>", "<none>", "system:bootstrappers:kubeadm", "<none>", "<none>"},
		},
		"broken": {
			reason: "the API server does not take it", data: map[string]string{"expiration": "tomorrow"},
			want: []any{anyToken, "<invalid>", "tomorrow", "<none>", "<none>", "<none>", "<none>", "<none>"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			secret := corev1.Secret{Data: map[string][]byte{"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef")}}
			for key, value := range c.data {
				secret.Data[key] = []byte(value)
			}
			rows := tokenTable([]corev1.Secret{secret}, now()).Rows
			if diff := cmp.Diff(c.want, rows[0].Cells); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestWhichTokenIsMeant(t *testing.T) {
	for text, want := range map[string]string{anyToken: "abcdef", "abcdef": "abcdef", "abcdef.": "", "abc": "", anyToken + "0": "", "": ""} {
		got, err := parseTokenID(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is token %q with the error %v, want %q", text, got, err, want)
		}
	}
	first, err := chooseToken(nil)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := chooseToken(nil); err != nil || first == second {
		t.Errorf("two tokens by chance are %q and %q (%v)", first, second, err)
	}
	if _, err := chooseToken([]string{"abcdef"}); err == nil {
		t.Error("half a token can be made")
	}
}
