// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
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
// other one, and a member that answers none. The doctor ends by its own patience,
// which is short here; what it waits for would take as long as the test may.
func TestTheDoctorWaitsForNobody(t *testing.T) {
	released := make(chan struct{})
	silent := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"gitVersion":"v1.36.3"}`))
			return
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
	d := &doctor{session: hub.NewSession(streams, testingclock.NewFakePassiveClock(time.Unix(0, 0))), patience: 500 * time.Millisecond}
	flags := pflag.NewFlagSet("doctor", pflag.ContinueOnError)
	d.member.AddFlags(flags)
	if err := flags.Parse([]string{"--cluster-kubeconfig", file}); err != nil {
		t.Fatal(err)
	}
	err := d.run(t.Context(), []string{"member1"})
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

func TestPatienceIsShorterThanTenSeconds(t *testing.T) {
	if patience >= 10*time.Second {
		t.Errorf("the doctor may take %s; docs/doctor.md promises less than ten seconds", patience)
	}
}
