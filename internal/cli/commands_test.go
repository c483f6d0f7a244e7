// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/playedhub"
)

// TestTheKubeconfigOfATokenIsThatOfSomebodyWhoMayAskToJoin uses the kubeconfig
// that the command prints, against the API server that it is for.
func TestTheKubeconfigOfATokenIsThatOfSomebodyWhoMayAskToJoin(t *testing.T) {
	w := takeHub(t)
	var printed, said bytes.Buffer
	if code := callInto(t, &printed, &said, "token", "create", "--print-kubeconfig"); code != exit.OK {
		t.Fatalf("exit code %d: %s", code, said.String())
	}
	if !strings.Contains(said.String(), "may wait for acceptance at a time") {
		t.Errorf("the limits of the token are not told, but %q", said.String())
	}
	out := printed.String()
	if strings.Contains(out, "client-key") || strings.Contains(out, "client-certificate") {
		t.Fatalf("the administrator's own credentials are in what is given to members:\n%s", out)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(out))
	expect.NoError(t, err)
	holder, err := client.New(config, client.Options{Scheme: w.Scheme})
	expect.NoError(t, err)
	// OCM's tool prints the newest bootstrap token with the label of its hub.
	secrets := &corev1.SecretList{}
	expect.NoError(t, w.Client.List(t.Context(), secrets, client.InNamespace("kube-system"), client.MatchingLabels{"app": "cluster-manager"}))
	token, newest := "", time.Time{}
	for _, secret := range secrets.Items {
		if made := secret.CreationTimestamp.Time; strings.HasPrefix(secret.Name, "bootstrap-token-") && made.After(newest) {
			token, newest = string(secret.Data["token-id"])+"."+string(secret.Data["token-secret"]), made
		}
	}
	if token != config.BearerToken {
		t.Errorf("\"clusteradm get token --use-bootstrap-token\" would print %q, not the token that was made", token)
	}
	review := &authenticationv1.SelfSubjectReview{}
	// The API server finds tokens by a cache of its own, which a moment later has it.
	playedhub.Eventually(t, func() error { return holder.Create(t.Context(), review) })
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

func TestAWaitThatIsInterruptedSaysSo(t *testing.T) {
	takeHub(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &stopper{stop: cancel}
	code := cli.RunCommandLine(ctx, cli.CommandLine{
		As: "capstan", Args: []string{"accept", "member1", "--wait"},
		Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out},
		Clock:   testingclock.NewFakePassiveClock(time.Now()),
	})
	if code != exit.Interrupted {
		t.Errorf("exit code %d, want %d", code, exit.Interrupted)
	}
	if !strings.Contains(out.String(), "interrupted: completed steps are kept") {
		t.Errorf("the user is not told that it was interrupted:\n%s", out)
	}
}

// screen is an output that is looked at while it is written.
type screen struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (s *screen) Write(text []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.Write(text)
}

func (s *screen) String() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.text.String()
}

func TestAWatchShowsWhatChangesUntilItIsInterrupted(t *testing.T) {
	w := takeHub(t)
	w.LoadFile(t, "fleet.yaml")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shown, ended := &screen{}, make(chan int, 1)
	go func() {
		ended <- cli.RunCommandLine(ctx, cli.CommandLine{
			As: "capstan", Args: []string{"get", "clusters", "--watch"},
			Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: shown, ErrOut: shown},
			Clock:   testingclock.NewFakePassiveClock(time.Now()),
		})
	}()
	sees := func(part string) func() error {
		return func() error {
			if !strings.Contains(shown.String(), part) {
				return fmt.Errorf("%q is not shown in:\n%s", part, shown)
			}
			return nil
		}
	}
	playedhub.Eventually(t, sees("member5   <none>    Push   False"))
	late := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
	if err := w.Client.Create(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	playedhub.Eventually(t, sees("late      <none>    Pull   False"))
	cancel()
	if code := <-ended; code != exit.OK {
		t.Errorf("a watch that the user has ended has exit code %d:\n%s", code, shown)
	}
	if strings.Count(shown.String(), "NAME") != 1 || strings.Count(shown.String(), "member1") != 1 {
		t.Errorf("headings or what has not changed are repeated:\n%s", shown)
	}
}
