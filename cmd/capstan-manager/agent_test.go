// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestAgentsLimitTheirRequestsAsTheFlagsSay(t *testing.T) {
	type limit struct {
		QPS   float32
		Burst int
	}
	unlimited := limit{QPS: -1}
	for name, test := range map[string]struct {
		reason       string
		flags        []string
		both         bool
		hub          limit
		member, home limit
	}{
		"None": {
			reason: "by default the server decides", member: unlimited, home: unlimited,
		},
		"Registration": {
			reason: "one number is for each of the servers", flags: []string{"--kube-api-qps=60", "--kube-api-burst=110"},
			hub: limit{60, 110}, member: limit{60, 110}, home: limit{60, 110},
		},
		"Singleton": {
			reason: "the hub's own number counts for the hub", both: true,
			flags: []string{"--kube-api-qps=70", "--kube-api-burst=100", "--hub-kube-api-qps=80", "--hub-kube-api-burst=130"},
			hub:   limit{80, 130}, member: limit{70, 100}, home: limit{70, 100},
		},
		"SingletonWithoutAHubLimit": {
			reason: "without one the hub has that of the member", both: true, flags: []string{"--kube-api-qps=70", "--kube-api-burst=100"},
			hub: limit{70, 100}, member: limit{70, 100}, home: limit{70, 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(kubeconfig, []byte(testKubeconfig), 0o600); err != nil {
				t.Fatal(err)
			}
			fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
			flags := defaultRegistrationAgentFlags()
			if test.both {
				(&agentFlags{registration: flags}).addAgentFlags(fs)
			} else {
				flags.addRegistrationAgentFlags(fs)
			}
			if err := fs.Parse(append(test.flags, "--kubeconfig="+kubeconfig, "--spoke-kubeconfig="+kubeconfig)); err != nil {
				t.Fatal(err)
			}
			got, err := flags.registrationAgentOptions(logr.Discard())
			if err != nil {
				t.Fatal(err)
			}
			diff := cmp.Diff([]limit{test.hub, test.member, test.home},
				[]limit{{got.HubQPS, got.HubBurst}, {got.Member.QPS, got.Member.Burst}, {got.Home.QPS, got.Home.Burst}})
			if diff != "" {
				t.Errorf("%s: limits of hub, member and home (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

const testKubeconfig = `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: t}}]
`
