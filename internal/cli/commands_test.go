// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

// testTokenKubeconfig uses the kubeconfig
// that the command prints, against the API server that it is for.
func (w *world) testTokenKubeconfig(t *testing.T) {
	code, out := call(t, "token", "create", "--print-kubeconfig")
	if code != exit.OK {
		t.Fatalf("exit code %d: %s", code, out)
	}
	if strings.Contains(out, "client-key") || strings.Contains(out, "client-certificate") {
		t.Fatalf("the administrator's own credentials are in what is given to members:\n%s", out)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	holder, err := client.New(config, client.Options{Scheme: w.scheme})
	if err != nil {
		t.Fatal(err)
	}
	review := &authenticationv1.SelfSubjectReview{}
	// The API server finds tokens by a cache of its own, which a moment later has it.
	eventually(t, func() error { return holder.Create(t.Context(), review) })
	user := review.Status.UserInfo
	if !strings.HasPrefix(user.Username, "system:bootstrap:") || !strings.Contains(strings.Join(user.Groups, " "), clusterv1.GroupBootstrappers) {
		t.Errorf("the token stands for %+v, not for a bootstrap user in group %s", user, clusterv1.GroupBootstrappers)
	}
	if err := holder.List(t.Context(), &corev1.SecretList{}); err == nil {
		t.Error("whoever has the token may read secrets")
	}

	id := strings.TrimPrefix(user.Username, "system:bootstrap:")
	if code, out := call(t, "token", "delete", id); code != exit.OK {
		t.Fatalf("exit code %d: %s", code, out)
	}
	if code, out := call(t, "token", "list"); code != exit.OK || strings.Contains(out, id) {
		t.Errorf("the token %s is still listed (exit code %d):\n%s", id, code, out)
	}
}

// stopper is an output that stops the command at the first thing that is said.
type stopper struct {
	bytes.Buffer
	stop context.CancelFunc
}

func (s *stopper) Write(text []byte) (int, error) {
	s.stop()
	return s.Buffer.Write(text)
}

func (w *world) testInterruption(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &stopper{stop: cancel}
	code := cli.Run(ctx, cli.Call{
		As: "capstan", Args: []string{"accept", "member1", "--wait"},
		Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out},
		Clock:   testingclock.NewFakePassiveClock(time.Now()),
	})
	if code != exit.Interrupted {
		t.Errorf("exit code %d, want %d", code, exit.Interrupted)
	}
	if !strings.Contains(out.String(), "interrupted: what is done so far stays") {
		t.Errorf("the user is not told that it was interrupted:\n%s", out)
	}
}
