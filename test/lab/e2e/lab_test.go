// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e tries a lab with real clusters. It needs root, and what make
// builds.
package e2e

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-io/capstan/test/lab/internal/pki"
)

// The clusters of the test: two with a node, one without.
const (
	alpha = "alpha"
	beta  = "beta"
	gamma = "gamma"
)

// signingDuration limits the certificates of gamma.
const signingDuration = 3 * time.Minute

func TestLab(t *testing.T) {
	e := newEnvironment(t)

	e.lab("up", "--name", alpha, "--name", beta)
	e.lab("up", "--name", gamma, "--nodeless", "--signing-duration", signingDuration.String())
	e.writeKubeconfig()

	for _, step := range []struct {
		name string
		run  func(*environment)
	}{
		{"up twice changes nothing", testUpTwice},
		{"workloads run", testWorkloads},
		{"a cluster without a node keeps objects", testNodeless},
		{"commands run in the network of a cluster", testExec},
		{"logs, exec and port-forward work", testStreams},
		{"images are made and loaded", testImages},
		{"volumes outlive pods and stops, and go with their claims", testVolumes},
		{"programs of Kubernetes run as pods", testKubernetesImages},
		{"the API server is extended through services", testExtension},
		{"certificates are signed", testSigning},
		{"bootstrap tokens authenticate", testBootstrapToken},
		{"users may do what they have roles for", testAuthorization},
		{"pods reach the API servers of other clusters", testAcrossClusters},
		{"a partition cuts clusters off and heals", testPartition},
		{"a stopped cluster is gone and comes back", testStop},
		{"a stopped component is gone, alone, and comes back", testStopComponent},
		{"up completes what was interrupted", testInterrupted},
	} {
		ok := t.Run(step.name, func(t *testing.T) { step.run(e.with(t)) })
		if !ok {
			break // Later steps would fail for no reason of their own.
		}
	}

	sockets := e.shimSockets()
	if e.leftovers() == "" {
		t.Error("the search for leftovers does not even find a lab that runs")
	}
	testLeftoversOfRunningLab(e)
	e.lab("down")
	e.lab("leftovers")
	for _, socket := range sockets {
		if _, err := os.Stat(socket); !os.IsNotExist(err) {
			t.Errorf("socket %s is left (%v)", socket, err)
		}
	}
	if left := e.leftovers(); left != "" {
		t.Errorf("the lab left something behind:\n%s", left)
	}
}

func testUpTwice(e *environment) {
	before := e.processes()
	e.lab("up")
	if after := e.processes(); after != before {
		e.Errorf("processes changed from\n%s\nto\n%s", before, after)
	}
}

func testWorkloads(e *environment) {
	for cluster, peer := range map[string]string{alpha: beta, beta: alpha} {
		authority, err := os.ReadFile(filepath.Join(e.dir, "clusters", peer, "pki", "ca.crt"))
		if err != nil {
			e.Fatal(err)
		}
		e.apply(cluster, "hello.yaml", map[string]any{
			"PeerAuthority": strings.Split(strings.TrimSpace(string(authority)), "\n"),
		})
	}
	for _, cluster := range []string{alpha, beta} {
		e.kubectl(cluster, "rollout", "status", "deployment/hello", "--timeout=90s")
		ip := e.kubectl(cluster, "get", "service", "hello", "-o", "jsonpath={.spec.clusterIP}")
		for _, host := range []string{ip, "hello", "hello.default.svc", "hello.default.svc.cluster.local"} {
			e.eventually(func() error { return e.get(cluster, "http://"+host) })
		}
		e.eventually(func() error {
			return e.get(cluster, "-cacert", "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
				"https://kubernetes.default.svc/version")
		})
	}
}

func testNodeless(e *environment) {
	e.kubectl(gamma, "create", "deployment", "hello", "--image=lab/hello:1")
	e.eventually(func() error {
		_, err := e.tryKubectl(gamma, "wait", "pod", "-l", "app=hello", "--timeout=1s",
			"--for=jsonpath={.status.phase}=Pending")
		return err
	})
	if nodes := e.kubectl(gamma, "get", "nodes", "-o", "name"); nodes != "" {
		e.Errorf("nodes: %s", nodes)
	}
}

func testExec(e *environment) {
	address := strings.TrimSuffix(strings.TrimPrefix(e.server(alpha), "https://"), ":6443")
	if output := e.lab("exec", alpha, "--", "ip", "address", "show", "eth0"); !strings.Contains(output, address) {
		e.Errorf("%s is not in %s", address, output)
	}
}

func testStreams(e *environment) {
	if logs := e.kubectl(alpha, "logs", "deployment/hello"); !strings.Contains(logs, "serving") {
		e.Errorf("logs: %q", logs)
	}
	if output := e.kubectl(alpha, "exec", "deployment/hello", "--", "/hello", "get", "http://localhost:8080"); !strings.Contains(output, "hello from") {
		e.Errorf("exec: %q", output)
	}
	const address = "127.0.0.1:18080"
	cmd := e.kubectlCommand(alpha, "port-forward", "service/hello", "18080:80")
	if err := cmd.Start(); err != nil {
		e.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	e.eventually(func() error {
		response, err := http.Get("http://" + address)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
}

func testImages(e *environment) {
	archive := filepath.Join(e.TempDir(), "copy.tar")
	e.lab("image", "--binary", filepath.Join(bin, "hello"), "--ref", "lab/copy:1", "-o", archive,
		"--file", "lab_test.go:/etc/extra", "--link", "copy", "--link", "/usr/bin/copy", "--no-entrypoint")
	e.lab("load-image", archive, "--cluster", alpha)
	for _, program := range []string{"hello", "copy", "usr/bin/copy"} {
		name := strings.ReplaceAll(program, "/", "-")
		e.kubectl(alpha, "run", name, "--image=lab/copy:1", "--image-pull-policy=Never", "--restart=Never", "--", "/"+program, "serve")
		e.kubectl(alpha, "wait", "pod/"+name, "--for=condition=Ready", "--timeout=60s")
	}
}

func testVolumes(e *environment) {
	e.apply(alpha, "journal.yaml", nil)
	e.awaitStarts(1)
	e.kubectl(alpha, "delete", "pod", "journal-0")
	e.awaitStarts(2)
	e.lab("stop", alpha)
	e.lab("start", alpha)
	e.awaitStarts(3)
	if made := e.volumes(); len(made) != 1 {
		e.Errorf("there are the directories %q, want one", made)
	}
	e.kubectl(alpha, "delete", "statefulset/journal", "--timeout=60s")
	e.kubectl(alpha, "delete", "pvc", "--all", "--timeout=60s")
	e.kubectl(alpha, "wait", "pv", "--all", "--for=delete", "--timeout=60s")
	if left := e.volumes(); len(left) != 0 {
		e.Errorf("of deleted claims there are the directories %q", left)
	}
}

// awaitStarts waits until the journal knows of as many starts.
func (e *environment) awaitStarts(want int) {
	e.Helper()
	e.eventually(func() error {
		journal, err := e.tryKubectl(alpha, "exec", "journal-0", "--", "/hello", "get", "http://localhost:8080/journal")
		if got := strings.Count(journal, "journal-0"); err == nil && got != want {
			return fmt.Errorf("the journal knows %d starts, want %d", got, want)
		}
		return err
	})
}

// volumes lists the directories that volumes of alpha are in.
func (e *environment) volumes() []string {
	e.Helper()
	found, err := filepath.Glob(filepath.Join(e.dir, "clusters", alpha, "volumes", "*"))
	if err != nil {
		e.Fatal(err)
	}
	return found
}

// testKubernetesImages runs each program of the archive as the name of its image
// promises.
func testKubernetesImages(e *environment) {
	archive := filepath.Join(bin, "kubernetes.tar")
	e.lab("load-image", archive, "--cluster", alpha)
	for _, image := range e.imagesIn(archive) {
		program, version, found := strings.Cut(strings.TrimPrefix(image, "registry.k8s.io/"), ":")
		if !found {
			e.Errorf("the image %s has no version", image)
		}
		pod := "try-" + program
		e.kubectl(alpha, "run", pod, "--image="+image, "--image-pull-policy=Never", "--restart=Never",
			"--command", "--", program, "--version")
		e.kubectl(alpha, "wait", "pod/"+pod, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
		if logs := e.kubectl(alpha, "logs", pod); !strings.Contains(logs, strings.TrimSuffix(version, "-0")) {
			e.Errorf("the image %s runs %q", image, logs)
		}
	}
}

func testExtension(e *environment) {
	authority, err := pki.NewAuthority("extension")
	if err != nil {
		e.Fatal(err)
	}
	pair, err := authority.Issue(pki.Request{
		CommonName: "extension",
		DNSNames:   []string{"extension.default.svc"},
		Usages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		e.Fatal(err)
	}
	e.apply(alpha, "extension.yaml", map[string]any{
		"Authority":   base64.StdEncoding.EncodeToString(authority.Public),
		"Certificate": base64.StdEncoding.EncodeToString(pair.Public),
		"Key":         base64.StdEncoding.EncodeToString(pair.Private),
	})
	e.kubectl(alpha, "rollout", "status", "deployment/extension", "--timeout=90s")
	e.kubectl(alpha, "wait", "apiservice/v1.extension.lab.test", "--for=condition=Available", "--timeout=60s")
	if answer := e.kubectl(alpha, "get", "--raw", "/apis/extension.lab.test/v1/anything"); !strings.Contains(answer, "hello from extension") {
		e.Errorf("aggregated API: %q", answer)
	}
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: denied, labels: {deny: 'true'}}\n"
	cmd := e.kubectlCommand(alpha, "create", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if output, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(output), "hello denies everything") {
		e.Errorf("webhook: %v: %s", err, output)
	}
}

func testAcrossClusters(e *environment) {
	for cluster, peer := range map[string]string{alpha: beta, beta: alpha} {
		if err := e.get(cluster, "-cacert", "/peer/ca.crt", e.server(peer)+"/version"); err != nil {
			e.Error(err)
		}
		// The authority of the pod's own cluster does not vouch for the peer.
		if err := e.get(cluster, "-cacert", "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
			e.server(peer)+"/version"); err == nil {
			e.Errorf("%s trusts %s without reason", cluster, peer)
		}
	}
}

func testPartition(e *environment) {
	e.lab("partition", alpha, beta)
	for cluster, peer := range map[string]string{alpha: beta, beta: alpha} {
		if err := e.get(cluster, "-cacert", "/peer/ca.crt", e.server(peer)+"/version"); err == nil {
			e.Errorf("%s still reaches %s", cluster, peer)
		}
	}
	if status := e.lab("status"); !strings.Contains(status, "cut off from: beta") {
		e.Errorf("status: %s", status)
	}
	e.lab("heal", alpha, beta)
	testAcrossClusters(e)
}

func testStop(e *environment) {
	e.kubectl(beta, "create", "configmap", "kept", "--from-literal=key=value")
	pods := e.kubectl(beta, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")

	e.lab("stop", beta)
	address := strings.TrimPrefix(e.server(beta), "https://")
	if connection, err := net.DialTimeout("tcp", address, 2*time.Second); err == nil {
		_ = connection.Close()
		e.Error("the stopped cluster still answers")
	}
	if err := e.get(alpha, "-cacert", "/peer/ca.crt", e.server(beta)+"/version"); err == nil {
		e.Error("pods still reach the stopped cluster")
	}

	e.lab("start", beta)
	if value := e.kubectl(beta, "get", "configmap", "kept", "-o", "jsonpath={.data.key}"); value != "value" {
		e.Errorf("config map has %q", value)
	}
	if after := e.kubectl(beta, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}"); after != pods {
		e.Errorf("pods changed from %s to %s", pods, after)
	}
	e.eventually(func() error { return e.get(beta, "http://hello") })
	e.eventually(func() error { return e.get(alpha, "-cacert", "/peer/ca.crt", e.server(beta)+"/version") })
}

func testStopComponent(e *environment) {
	before := e.processes()
	e.lab("stop", alpha, "--component", "kube-apiserver")
	if _, err := e.tryKubectl(alpha, "get", "namespaces", "--request-timeout=2s"); err == nil {
		e.Error("the stopped API server still answers")
	}
	for line := range strings.Lines(before) {
		isStopped := strings.Contains(line, "kube-apiserver") && strings.Contains(line, e.dir+"/clusters/"+alpha+"/")
		if found := strings.Contains(e.processes(), line); found == isStopped {
			e.Errorf("is stopped: %t, but runs: %t: %s", isStopped, found, line)
		}
	}
	if status := e.lab("status"); !strings.Contains(status, "not running: kube-apiserver") {
		e.Errorf("status: %s", status)
	}
	if output, err := e.tryLab("stop", gamma, "--component", "etcd"); err == nil {
		e.Errorf("the etcd of all clusters without nodes is stopped: %s", output)
	}

	e.lab("start", alpha)
	e.kubectl(alpha, "get", "namespaces")
	e.eventually(func() error { return e.get(alpha, "http://hello") })
}

// testLeftoversOfRunningLab checks that what down has to remove is found.
func testLeftoversOfRunningLab(e *environment) {
	_, err := e.tryLab("leftovers")
	if err == nil {
		e.Fatal("a lab that runs has left nothing on the machine")
	}
	for _, kind := range []string{
		"process", "control group", "mount", "network namespace", "network interface", "iptables rule", "file",
	} {
		if !strings.Contains(err.Error(), kind+" ") {
			e.Errorf("no %s is found in %v", kind, err)
		}
	}
}

func testInterrupted(e *environment) {
	for _, after := range []time.Duration{100 * time.Millisecond, time.Second, 4 * time.Second} {
		cmd := exec.Command(filepath.Join(bin, "lab"), "--dir", e.dir, "up", "--name", "delta")
		if err := cmd.Start(); err != nil {
			e.Fatal(err)
		}
		<-time.After(after)
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	}
	e.lab("up")
	e.writeKubeconfig()
	e.kubectl("delta", "create", "deployment", "hello", "--image=lab/hello:1")
	e.kubectl("delta", "rollout", "status", "deployment/hello", "--timeout=90s")
}
