// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Charts and tools of OCM start its operators by these command lines and ask
// them over HTTPS at port 8443 whether they live.
func TestOperatorsAreAskedWhereOCMsAre(t *testing.T) {
	cases := map[string]struct {
		program, operator string
		want              string
	}{
		"the hub's, called as OCM's":       {"/registration-operator", "hub", "8443"},
		"the member's, called as OCM's":    {"/registration-operator", "klusterlet", "8443"},
		"the hub's by its own name":        {"capstan-manager", "cluster-manager", "0"},
		"the member's by its own name":     {"capstan-manager", "klusterlet", "0"},
		"OCM's program in another folder":  {"/usr/bin/registration-operator", "hub", "8443"},
		"the member's in a deeper folder ": {"/opt/ocm/registration-operator", "klusterlet", "8443"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			command, rest, err := newRootCommand(c.program).Find([]string{c.operator, "--enable-sync-labels"})
			if err != nil {
				t.Fatal(err)
			}
			if err := command.ParseFlags(rest); err != nil {
				t.Fatalf("%s %s --enable-sync-labels: %v", c.program, c.operator, err)
			}
			if got := command.Flag("secure-health-probe-port").Value.String(); got != c.want {
				t.Errorf("is asked over HTTPS at port %s, want %s", got, c.want)
			}
			if got := command.Flag("health-probe-port").Value.String(); got != "8000" {
				t.Errorf("is asked over HTTP at port %s, want 8000", got)
			}
		})
	}
}

// An operator whose cache cannot sync, as the definitions that it works with are
// not there yet, lives and is not ready.
func TestOperatorsTellBothWaysHowTheyAre(t *testing.T) {
	server, config := servers.Start(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, server.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AGENT_IMAGE", "image:1")
	for operator, definition := range map[string]string{"hub": "clustermanagers", "klusterlet": "klusterlets"} {
		t.Run(operator, func(t *testing.T) {
			ports := freePorts(t, 2)
			ctx, stop := context.WithCancelCause(t.Context())
			root := newRootCommand("/registration-operator")
			root.SetArgs([]string{
				operator, "--kubeconfig", kubeconfig, "--disable-leader-election", "--metrics-port=0",
				"--health-probe-port=" + strconv.Itoa(ports[0]), "--secure-health-probe-port=" + strconv.Itoa(ports[1]),
			})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				stop(root.ExecuteContext(ctx))
			}()
			urls := []string{"http://127.0.0.1:" + strconv.Itoa(ports[0]), "https://127.0.0.1:" + strconv.Itoa(ports[1])}
			for _, url := range urls {
				answers(ctx, t, url+"/readyz", http.StatusInternalServerError)
			}
			_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
				Paths: []string{"../../config/crd/operator.open-cluster-management.io_" + definition + ".yaml"}, ErrorIfPathMissing: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, url := range urls {
				answers(ctx, t, url+"/readyz", http.StatusOK)
				answers(ctx, t, url+"/healthz", http.StatusOK)
			}
			stop(nil)
			<-ended
		})
	}
}

func freePorts(t *testing.T, count int) []int {
	t.Helper()
	var ports []int
	for range count {
		var config net.ListenConfig
		listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }() // not before all are found
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// answers waits for the status of the answer, until ctx ends. Kubelets do not
// verify certificates either.
func answers(ctx context.Context, t *testing.T, url string, want int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	got := 0
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil // nobody listens yet
		}
		got = response.StatusCode
		return got == want, response.Body.Close()
	})
	if err != nil {
		t.Fatalf("%s: got status %d, want %d: %v (%v)", url, got, want, err, context.Cause(ctx))
	}
}
