// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/testing/clinic"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/placer"
	"github.com/capstan-io/capstan/internal/testing/playedhub"
)

// hubs are for tests that leave nothing behind but what ClearHub removes.
var hubs = env.NewFixtures(servers, startHub)

// startHub starts a hub whose placement controller runs.
func startHub(t testing.TB) *playedhub.PlayedHub {
	t.Helper()
	w := playedhub.NewPlayedHub(t, servers)
	w.BecomeHub(t)
	placer.StartPlacement(t, w.AdminConfig)
	return w
}

// takeHub returns a hub, which $KUBECONFIG leads to, and clears it when the test ends.
func takeHub(t *testing.T) *playedhub.PlayedHub {
	t.Helper()
	w := hubs.TakeFixture(t)
	t.Setenv("KUBECONFIG", w.Kubeconfig)
	env.WhenDone(t, w.ClearHub)
	return w
}

func call(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var buffer bytes.Buffer
	code = callInto(t, &buffer, &buffer, args...)
	return code, buffer.String()
}

// callInto runs capstan with the two outputs.
func callInto(t *testing.T, out, errOut io.Writer, args ...string) (code int) {
	t.Helper()
	return cli.RunCommandLine(t.Context(), cli.CommandLine{
		As: "capstan", Args: args,
		Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: errOut},
		Clock:   testingclock.NewFakePassiveClock(time.Now()),
	})
}

// TestAMistakeIsExplainedWithTheNextStep asks a cluster that is no hub, in all
// the ways in which a kubeconfig can be wrong.
func TestAMistakeIsExplainedWithTheNextStep(t *testing.T) {
	w := playedhub.NewPlayedHub(t, servers)
	cases := map[string]struct {
		reason string
		change func(*clientcmdapi.Config)
		args   []string
		want   []string
	}{
		"no kubeconfig at all": {
			reason: "the first thing that a new user sees",
			change: func(c *clientcmdapi.Config) { *c = *clientcmdapi.NewConfig() },
			want:   []string{"there is no kubeconfig", "--kubeconfig FILE or $KUBECONFIG"},
		},
		"a kubeconfig without current context and several contexts": {
			reason: "capstan must not guess which of them is the hub",
			change: func(c *clientcmdapi.Config) { c.CurrentContext, c.Contexts["other"] = "", c.Contexts["hub"].DeepCopy() },
			want:   []string{"no current context", "--context hub, --context other", "use-context"},
		},
		"a context that is not there": {
			reason: "a typo", args: []string{"--context", "hob"},
			want: []string{"no context \"hob\"", "It has: hub."},
		},
		"a context that is not there, by the flag of another tool": {
			reason: "--karmada-context is the same flag", args: []string{"--karmada-context", "hob"},
			want: []string{"no context \"hob\"", "It has: hub."},
		},
		"a file that is not there": {
			reason: "a typo", args: []string{"--kubeconfig", "/nowhere/kubeconfig"},
			want: []string{"/nowhere/kubeconfig", "Name a kubeconfig that can be read"},
		},
		"a context whose cluster is not there": {
			reason: "a kubeconfig that was cut down by hand",
			change: func(c *clientcmdapi.Config) { delete(c.Clusters, "hub") },
			want:   []string{"context \"hub\"", "kubectl config view"},
		},
		"nobody listens": {
			reason: "the hub is down",
			change: func(c *clientcmdapi.Config) { c.Clusters["hub"].Server = "https://" + clinic.ClosedPort(t) },
			want:   []string{"cannot reach https://127.0.0.1:", "(context \"hub\")", "connection refused", "Check that the hub is running"},
		},
		"a name that no DNS knows": {
			reason: "RFC 6761 keeps .invalid free",
			change: func(c *clientcmdapi.Config) { c.Clusters["hub"].Server = "https://hub.invalid:6443" },
			want:   []string{"https://hub.invalid:6443", "does not resolve"},
		},
		"a CA of another cluster": {
			reason: "the kubeconfig is of a hub that was made anew",
			change: func(c *clientcmdapi.Config) { c.Clusters["hub"].CertificateAuthorityData = nil },
			want:   []string{"is not signed by the CA of the kubeconfig", "get a new kubeconfig"},
		},
		"a token that is not valid": {
			reason: "it has expired",
			change: func(c *clientcmdapi.Config) { c.AuthInfos["me"] = &clientcmdapi.AuthInfo{Token: "expired"} },
			want:   []string{"refuses the credentials", "may have expired"},
		},
		"a program for credentials that is not there": {
			reason: "the kubeconfig comes from another machine",
			change: func(c *clientcmdapi.Config) {
				c.AuthInfos["me"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
					APIVersion: "client.authentication.k8s.io/v1", Command: "no-such-login", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
				}}
			},
			want: []string{"no-such-login", "install the program or log in with it"},
		},
		"a cluster that is no hub": {
			reason: "the current context is some other cluster",
			want:   []string{"is not a Capstan hub", "Choose the hub with --context"},
		},
	}
	commands := map[string][]string{
		"get clusters": {"get", "clusters"}, "get one cluster": {"get", "clusters", "member1"}, "get works": {"get", "works", "-A"},
		"describe": {"describe", "cluster", "member1"}, "tree": {"tree"},
		"doctor": {"doctor"}, "doctor of a cluster": {"doctor", "member1"},
		"accept": {"accept", "member1"}, "deny": {"deny", "member1", "member2"}, "cordon": {"cordon", "member1", "member2"},
		"join": {"join", "member1", "--cluster-kubeconfig", w.Kubeconfig}, "unjoin": {"unjoin", "member1"},
		"taint": {"taint", "member1", "a=b:NoSelect"}, "label": {"label", "clusters", "--all", "a=b"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := clinic.KubeconfigOf(w.AdminConfig)
			if c.change != nil {
				c.change(config)
			}
			file := filepath.Join(t.TempDir(), "kubeconfig")
			if err := clientcmd.WriteToFile(*config, file); err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBECONFIG", file)
			for command, words := range commands {
				code, out := call(t, append(words, c.args...)...)
				if code != exit.NoHub {
					t.Errorf("%s: %s: exit code %d, want %d", c.reason, command, code, exit.NoHub)
				}
				for _, want := range c.want {
					if !strings.Contains(out, want) {
						t.Errorf("%s: %s does not say %q:\n%s", c.reason, command, want, out)
					}
				}
			}
		})
	}
}
