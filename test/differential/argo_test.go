// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret/health"
)

// argo is Argo CD: program ../peers/argocd, which runs as long as a test and answers one object after the other.
type argo struct {
	objects  *json.Encoder
	verdicts *json.Decoder
}

func startArgo(t *testing.T) argo {
	t.Helper()
	program := exec.Command("go", "run", "-C", "../peers/argocd", ".")
	program.Stderr = os.Stderr
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil { // ends the program
			t.Error(err)
		}
		if err := program.Wait(); err != nil {
			t.Errorf("program argocd: %v", err)
		}
	})
	return argo{json.NewEncoder(in), json.NewDecoder(out)}
}

// status is the health of an object in the words of Argo CD, "" for a kind that it has no check for.
func (a argo) status(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	if err := a.objects.Encode(u); err != nil {
		t.Fatalf("sending a %s to program argocd: %v", u.GetKind(), err)
	}
	var verdict struct{ Status string }
	if err := a.verdicts.Decode(&verdict); err != nil {
		t.Fatalf("reading the verdict of program argocd on a %s: %v", u.GetKind(), err)
	}
	return verdict.Status
}

// health is the status in our words.
func (a argo) health(t *testing.T, u *unstructured.Unstructured) health.Status {
	t.Helper()
	switch status := a.status(t, u); status {
	case "Healthy":
		return health.Healthy
	case "Progressing":
		return health.Progressing
	case "Degraded":
		return health.Degraded
	default:
		t.Fatalf("Argo CD says %q of a %s, which has no equivalent here", status, u.GetKind())
		return health.Unknown
	}
}
