// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// TestTheDoctorWaitsForNobody has a hub that answers the first question and no
// other one, and a member that answers none. The doctor's patience ends once the hub
// has been asked what it does not answer, which would take as long as the test may.
func TestTheDoctorWaitsForNobody(t *testing.T) {
	released, impatient := make(chan struct{}), make(chan struct{})
	var asked sync.Once
	silent := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"gitVersion":"v1.36.3"}`))
			return
		}
		if strings.HasSuffix(r.URL.Path, "/certificatesigningrequests") { // after the version is known
			asked.Do(func() { close(impatient) })
		}
		select {
		case <-released:
		case <-r.Context().Done():
		}
	}
	server := httptest.NewTLSServer(http.HandlerFunc(silent))
	defer server.Close()
	defer close(released)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL, InsecureSkipTLSVerify: true}
	kubeconfig.AuthInfos["me"] = &clientcmdapi.AuthInfo{Token: "t"}
	kubeconfig.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "me"}
	kubeconfig.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	var out bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}
	d := &doctorCommand{session: hub.NewSession(streams, testingclock.NewFakePassiveClock(time.Unix(0, 0)))}
	d.limit = func(ctx context.Context) (context.Context, context.CancelFunc) {
		return late{Context: ctx, since: impatient}, func() {}
	}
	flags := pflag.NewFlagSet("doctor", pflag.ContinueOnError)
	d.member.AddFlags(flags)
	if err := flags.Parse([]string{"--cluster-kubeconfig", file}); err != nil {
		t.Fatal(err)
	}
	err := d.runDoctor(t.Context(), []string{"member1"})
	if exit.Code(err) == exit.OK {
		t.Error("it found nothing wrong")
	}
	for _, want := range []string{"✓ hub", "? hub", "could not be read"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "✗") {
		t.Errorf("it guesses what it could not see:\n%s", out.String())
	}
}

// late is a context whose deadline has passed since the channel was closed.
type late struct {
	context.Context
	since chan struct{}
}

func (l late) Done() <-chan struct{} { return l.since }

func (l late) Err() error {
	select {
	case <-l.since:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestPatienceIsShorterThanTenSeconds(t *testing.T) {
	if patience >= 10*time.Second {
		t.Errorf("the doctor may take %s; docs/doctor.md promises less than ten seconds", patience)
	}
}
