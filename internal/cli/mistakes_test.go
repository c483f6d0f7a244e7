// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
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
	"github.com/capstan-io/capstan/internal/testing/playedhub"
)

// testMistakes asks a cluster that is no hub, in all
// the ways in which a kubeconfig can be wrong.
func testMistakes(t *testing.T, w *playedhub.PlayedHub) {
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

func testCompletion(t *testing.T, w *playedhub.PlayedHub) {
	w.LoadFile(t, "fleet.yaml")
	cases := map[string]struct {
		reason string
		as     string
		args   []string
		want   []string
		not    []string
	}{
		"names of clusters":             {reason: "for get", as: "capstan", args: []string{"__complete", "get", "clusters", ""}, want: []string{"member1", "member2"}},
		"clusters that are not typed":   {reason: "not twice", as: "capstan", args: []string{"__complete", "describe", "cluster", "member1", ""}, want: []string{"member2"}, not: []string{"member1"}},
		"names of works of a cluster":   {reason: "works are within clusters", as: "capstan", args: []string{"__complete", "get", "works", "-n", "member1", ""}, want: []string{"hello", "shop"}},
		"clusters for a namespace":      {reason: "it is a cluster", as: "capstan", args: []string{"__complete", "get", "works", "-n", ""}, want: []string{"member3"}},
		"formats":                       {reason: "all of them", as: "capstan", args: []string{"__complete", "get", "clusters", "-o", ""}, want: []string{"wide", "yaml"}},
		"clusters for kubectl's plugin": {reason: "kubectl asks this executable", as: "/usr/bin/kubectl_complete-capstan", args: []string{"get", "clusters", ""}, want: []string{"member1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := cli.RunCommandLine(t.Context(), cli.CommandLine{
				As: c.as, Args: c.args,
				Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut},
				Clock:   testingclock.NewFakePassiveClock(time.Now()),
			})
			if code != exit.OK {
				t.Fatalf("%s: exit code %d: %s", c.reason, code, errOut.String())
			}
			lines := strings.Split(out.String(), "\n")
			for _, want := range c.want {
				if !slices.Contains(lines, want) {
					t.Errorf("%s: %q is not offered:\n%s", c.reason, want, out.String())
				}
			}
			for _, not := range c.not {
				if slices.Contains(lines, not) {
					t.Errorf("%s: %q is offered:\n%s", c.reason, not, out.String())
				}
			}
		})
	}
}
