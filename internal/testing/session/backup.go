// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package session plays sessions: commands that a user types, what happens in between, and
// the answers with what is another one each time taken out.
package session

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	encryption "filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/playedhub"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// exampleRecipient is what stands in a session for the key in key.txt.
const exampleRecipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

// ownPath returns the path of a file that a session writes or has of its user.
func ownPath(w *playedhub.PlayedHub, name string) string {
	return filepath.Join(filepath.Dir(w.Kubeconfig), name)
}

// backsUp does what a directive of sessions about backups says.
func backsUp(t testing.TB, w *playedhub.PlayedHub, directive string) bool {
	t.Helper()
	words := strings.Fields(directive)
	switch {
	case len(words) == 2 && words[0] == "hosts":
		hostControlPlane(t, w, words[1])
	case len(words) == 2 && words[0] == "key":
		key, err := encryption.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		w.Recipient = key.Recipient().String()
		putFile(t, w, words[1], key.String()+"\n")
	case len(words) > 2 && words[0] == "file":
		putFile(t, w, words[1], strings.Join(words[2:], " ")+"\n")
	case len(words) == 2 && words[0] == "cut":
		content, err := os.ReadFile(ownPath(w, words[1]))
		if err != nil {
			t.Fatal(err)
		}
		putFile(t, w, words[1], string(content[:len(content)-1]))
	case len(words) == 2 && words[0] == "unready":
		setReady(t, w, words[1], corev1.ConditionFalse)
	default:
		return false
	}
	return true
}

func putFile(t testing.TB, w *playedhub.PlayedHub, name, content string) {
	t.Helper()
	if err := os.WriteFile(ownPath(w, name), []byte(content), 0o600); err != nil { //nolint:gosec // the script of the test names it
		t.Fatal(err)
	}
}

// hostControlPlane makes the cluster the host of a dedicated hub: with what its operator
// would make, a real etcd, and a kubelet that connects to that.
func hostControlPlane(t testing.TB, w *playedhub.PlayedHub, name string) {
	t.Helper()
	knowControlPlanes(t, w)
	address, authority := env.StartEtcd(t)
	kubelet := httptest.NewTLSServer(&kubelet{etcd: address})
	t.Cleanup(kubelet.Close)

	cp := &fleetv1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: name + "-control-plane", Name: name}}
	createObject(t, w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cp.Namespace}})
	createObject(t, w, cp)
	cp.Status.Version = cp.Spec.Version
	if err := w.Client.Status().Update(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	plane := manifests.Plane{Name: cp.Name, Namespace: cp.Namespace, Spec: cp.Spec}
	for _, secret := range plane.KeptSecrets() {
		data := map[string][]byte{"key": []byte("of " + secret)}
		if secret == plane.ResourceName(manifests.EtcdAuthority) {
			data = map[string][]byte{corev1.TLSCertKey: authority.CertPEM, corev1.TLSPrivateKeyKey: authority.KeyPEM}
		}
		createObject(t, w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cp.Namespace, Name: secret}, Data: data})
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host"}}
	createObject(t, w, node)
	_, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number) //nolint:gosec // it is a port
	if err := w.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	createObject(t, w, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: cp.Namespace, Name: plane.ResourceName(manifests.Etcd) + "-0", Labels: plane.PodLabels(manifests.Etcd)},
		Spec:       corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: manifests.Etcd, Image: "etcd"}}},
	})
	setReady(t, w, name, corev1.ConditionTrue)
}

// knowControlPlanes installs the definition of ControlPlanes until the test ends:
// to other sessions it would be that of somebody else.
func knowControlPlanes(t testing.TB, w *playedhub.PlayedHub) {
	t.Helper()
	definitions, err := config.ControlPlaneCRDs()
	if err != nil {
		t.Fatal(err)
	}
	options := envtest.CRDInstallOptions{CRDs: definitions, MaxTime: playedhub.Patience}
	if _, err := envtest.InstallCRDs(w.AdminConfig, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(w.AdminConfig, options); err != nil {
			t.Errorf("clearing up: %v", err)
		}
		gone := func(ctx context.Context) (bool, error) {
			left := &unstructured.Unstructured{}
			left.SetAPIVersion("apiextensions.k8s.io/v1")
			left.SetKind("CustomResourceDefinition")
			err := w.Client.Get(ctx, client.ObjectKey{Name: definitions[0].Name}, left)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		if err := wait.PollUntilContextTimeout(context.WithoutCancel(t.Context()), 50*time.Millisecond, playedhub.Patience, true, gone); err != nil {
			t.Errorf("clearing up: %v", err)
		}
	})
}

// createObject makes an object until the test ends.
func createObject(t testing.TB, w *playedhub.PlayedHub, object client.Object) {
	t.Helper()
	if err := w.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Client.Delete(context.WithoutCancel(t.Context()), object, client.GracePeriodSeconds(0)); err != nil {
			t.Errorf("clearing up: %v", err)
		}
	})
}

// setReady says whether the etcd of a hub is.
func setReady(t testing.TB, w *playedhub.PlayedHub, name string, status corev1.ConditionStatus) {
	t.Helper()
	pod := &corev1.Pod{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: name + "-control-plane", Name: name + "-etcd-0"}, pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	if err := w.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// kubelet is one that forwards the port of each pod to an etcd.
type kubelet struct{ etcd string }

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/portForward/") {
		http.NotFound(w, r)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 1)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		streams <- stream
		return nil
	})
	if connection == nil {
		return
	}
	defer func() { _ = connection.Close() }()
	for {
		select {
		case stream := <-streams:
			switch kind := stream.Headers().Get(corev1.StreamType); kind {
			case corev1.StreamTypeError:
				defer func() { _ = stream.Close() }()
			case corev1.StreamTypeData:
				go k.forward(r.Context(), stream)
			default:
				panic(fmt.Sprintf("a stream of type %q", kind))
			}
		case <-connection.CloseChan():
			return
		}
	}
}

func (k *kubelet) forward(ctx context.Context, stream httpstream.Stream) {
	defer func() { _ = stream.Close() }()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", k.etcd)
	if err != nil {
		return
	}
	defer func() { _ = connection.Close() }()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(connection, stream) // until either end closes
		_ = connection.Close()
	})
	_, _ = io.Copy(stream, connection)
	_ = stream.Close()
	both.Wait()
}
