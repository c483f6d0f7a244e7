// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// revisionsBumped is by how much a restore raises the revision that etcd is at, so that
// no version is given to two objects: more than are given between backup and restore.
const revisionsBumped = 1_000_000_000

// watchesEndWithin is how long the API server lets watches go on when it stops. By default
// it does not end them, and waits a minute for the clients to leave.
const watchesEndWithin = "1s"

// WithRestorableData is an option of the function Start: the API server keeps its certificates,
// and with them its users, while RestoreServer has it stopped.
func WithRestorableData(t testing.TB) func(*envtest.Environment) {
	t.Helper()
	data := t.TempDir()
	certificates := t.TempDir()
	return func(e *envtest.Environment) {
		e.ControlPlane.Etcd = &envtest.Etcd{DataDir: data, StartTimeout: serverPatience, StopTimeout: serverPatience}
		server := e.ControlPlane.GetAPIServer()
		server.CertDir = certificates
		server.Configure().Append("shutdown-watch-termination-grace-period", watchesEndWithin)
	}
}

// BackUp returns a file with a snapshot of etcd.
func BackUp(t testing.TB, environment *envtest.Environment) (snapshot string) {
	t.Helper()
	snapshot = filepath.Join(t.TempDir(), "snapshot.db")
	if err := saveSnapshot(t.Context(), environment.ControlPlane.Etcd.URL.String(), snapshot); err != nil {
		t.Fatalf("backing up an API server: %v", err)
	}
	return snapshot
}

// RestoreServer stops an API server and its etcd, and starts them with what a snapshot has,
// as the operator of dedicated hubs does: what came since is gone, and what was deleted
// is back. The server was started with WithRestorableData.
func RestoreServer(t testing.TB, environment *envtest.Environment, snapshot string) {
	t.Helper()
	server := environment.ControlPlane.APIServer
	etcd := environment.ControlPlane.Etcd
	if err := errors.Join(server.Stop(), etcd.Stop()); err != nil {
		t.Fatalf("stopping an API server: %v", err)
	}
	etcd.DataDir = filepath.Join(t.TempDir(), "restored")
	if err := restoreSnapshot(t.Context(), filepath.Join(t.TempDir(), "etcdutl"), snapshot, etcd.DataDir); err != nil {
		t.Fatalf("restoring an API server: %v", err)
	}
	if err := etcd.Start(); err != nil {
		t.Fatalf("starting etcd with restored data: %v", err)
	}
	if err := server.Start(); err != nil {
		t.Fatalf("starting an API server with restored data: %v", err)
	}
}

// saveSnapshot writes a snapshot of an etcd that serves anybody to a file.
func saveSnapshot(ctx context.Context, url, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v3/maintenance/snapshot", strings.NewReader("{}"))
	if err != nil {
		return fmt.Errorf("asking etcd for a snapshot: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking etcd for a snapshot: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking etcd for a snapshot: it answers %s", response.Status)
	}
	to, err := os.Create(file) //nolint:gosec // the test's own
	if err != nil {
		return fmt.Errorf("saving a snapshot of etcd: %w", err)
	}
	return errors.Join(copyBlobs(to, response.Body), to.Close())
}

// copyBlobs copies a snapshot that comes in messages. Whether all has come is for
// etcdutl to see, which compares the checksum at its end.
func copyBlobs(to io.Writer, from io.Reader) error {
	for messages := json.NewDecoder(from); ; {
		message := struct {
			Result struct {
				Blob []byte `json:"blob"`
			} `json:"result"`
		}{}
		switch err := messages.Decode(&message); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading a snapshot of etcd: %w", err)
		}
		if _, err := to.Write(message.Result.Blob); err != nil {
			return fmt.Errorf("saving a snapshot of etcd: %w", err)
		}
	}
}

// restoreSnapshot makes data of a snapshot. The programs of KUBEBUILDER_ASSETS are one
// executable, which is the program etcdutl if it has this name.
func restoreSnapshot(ctx context.Context, etcdutl, snapshot, data string) error {
	if err := os.Symlink(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube"), etcdutl); err != nil {
		return fmt.Errorf("making etcdutl: %w", err)
	}
	command := exec.CommandContext(ctx, etcdutl, "snapshot", "restore", snapshot, "--data-dir="+data,
		fmt.Sprintf("--bump-revision=%d", revisionsBumped), "--mark-compacted")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running etcdutl snapshot restore: %w: %s", err, out)
	}
	return nil
}
