// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// agentCertificate returns the certificate that the agent has now.
func (s *story) agentCertificate(t *testing.T) *x509.Certificate {
	t.Helper()
	encoded := s.member.ReadPath(t, `{.data.tls\.crt}`, "-n", agentNamespace, "secret/hub-kubeconfig-secret")
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatalf("decoding the agent's certificate: %v", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("hub-kubeconfig-secret has no certificate: %q", text)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func (s *story) renewal(t *testing.T) {
	begin := time.Now()
	pods := s.agentPods(t)
	before := s.agentCertificate(t)
	harness.Eventually(t, func() error {
		after := s.agentCertificate(t)
		if after.SerialNumber.Cmp(before.SerialNumber) == 0 {
			return fmt.Errorf("the certificate that ends at %s is not renewed", before.NotAfter)
		}
		return nil
	})
	// The old certificate ends; what still works then uses the new one.
	ended, cancel := context.WithDeadline(t.Context(), before.NotAfter.Add(time.Second))
	defer cancel()
	<-ended.Done()
	s.quietSince(t, begin)
	s.hub.ApplyText(t, fmt.Sprintf(workload, s.clusterName, "renewed"))
	s.memberHas(t, "greeting", "renewed")
	s.isAvailable(t)
	if now := s.agentPods(t); now != pods {
		t.Errorf("the agents were %s and are %s: a renewal must not restart them", pods, now)
	}
}

// agentPods returns names and restarts of the agents' pods.
func (s *story) agentPods(t *testing.T) string {
	t.Helper()
	return s.member.ReadPath(t, "{range .items[*]}{.metadata.name}={.status.containerStatuses[*].restartCount} {end}", "-n", agentNamespace, "pods")
}

func (s *story) denyAndAccept(t *testing.T) {
	s.accept(t, false) // soon after an outage, when the webhook for clusters may still be away
	s.hub.AwaitCondition(t, "HubAcceptedManagedCluster", "False HubClusterAdminDenied", "managedcluster/"+s.clusterName)
	s.member.AwaitCondition(t, "Joined", "False ClusterDenied", "klusterlet/klusterlet")
	s.retry(t, fmt.Sprintf(workload, s.clusterName, "while denied"), "apply", "-f", "-")
	// The agent's identity cannot read works any more, so nothing is under way.
	harness.Eventually(t, func() error {
		_, err := s.hub.SeenBy(s.agentKubeconfig(t)).TryKubectl(t.Context(), "", "get", "manifestworks", "-n", s.clusterName)
		if err == nil {
			return errors.New("a denied cluster reads its works")
		}
		return nil
	})
	if text := s.member.ReadPath(t, "{.data.text}", "-n", "hello", "configmap/greeting"); text != "after the outage" {
		t.Errorf("a denied cluster got the work: the text is %q", text)
	}
	s.accept(t, true)
	s.isAvailable(t)
	s.memberHas(t, "greeting", "while denied")
}

// hubOutage takes the hub's API server away. The agent's certificate outlives
// the outage; one that does not needs an administrator, as the first one did.
func (s *story) hubOutage(t *testing.T) {
	const outage, spare = 2 * time.Minute, 100 * time.Second
	harness.Eventually(t, func() error {
		if left := time.Until(s.agentCertificate(t).NotAfter); left < outage+spare {
			return fmt.Errorf("the agent's certificate ends in %s and is not renewed", left)
		}
		return nil
	})
	pods := s.agentPods(t)
	if _, err := theLab.RunLab(t.Context(), "stop", "--component", "kube-apiserver", s.hub.Name); err != nil {
		t.Fatal(err)
	}
	over := time.NewTimer(outage)
	defer over.Stop()
	// The member works on: what is deployed is kept as it is.
	s.member.RunKubectl(t, "-n", "hello", "delete", "configmap", "greeting")
	s.memberHas(t, "greeting", "renewed")
	<-over.C
	if _, err := theLab.RunLab(t.Context(), "start", s.hub.Name); err != nil {
		t.Fatal(err)
	}
	s.hub.AwaitThere(t, "managedcluster", s.clusterName)
	s.retry(t, fmt.Sprintf(workload, s.clusterName, "after the outage"), "apply", "-f", "-")
	s.memberHas(t, "greeting", "after the outage")
	s.isAvailable(t)
	if now := s.agentPods(t); now != pods {
		t.Logf("the agents were %s and are %s", pods, now)
	}
}

// chaos kills pods of agents and operators at random while works come, change
// and go. In the end the member has exactly what the hub declares.
func (s *story) chaos(t *testing.T) {
	const works, rounds = 8, 12
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	ctx, stop := context.WithCancel(t.Context())
	var killer sync.WaitGroup
	killer.Go(func() { s.killPods(ctx, rand.New(rand.NewPCG(seed, 1))) })
	want := map[string]string{}
	for round := range rounds {
		for i := range works {
			name := fmt.Sprintf("chaos-%d", i)
			switch {
			case random.IntN(4) == 0:
				s.retry(t, "", "-n", s.clusterName, "delete", "manifestwork", name, "--ignore-not-found", "--wait=false")
				delete(want, name)
			default:
				text := fmt.Sprintf("round-%d", round)
				if s.retry(t, chaosWork(s.clusterName, name, text), "apply", "-f", "-") {
					want[name] = text
				}
			}
		}
	}
	stop()
	killer.Wait()

	// A work that was still being deleted when it was applied again is gone
	// afterwards; declaring once more makes the wish definite. Certificates live for minutes
	// here: if one ended before an agent lived for long enough to renew it, the next needs an
	// administrator, as the first one did.
	for name := range want {
		harness.Eventually(t, func() error {
			if _, err := s.approveWaiting(t); err != nil {
				return err
			}
			if s.hub.ReadPath(t, "{.metadata.deletionTimestamp}", "-n", s.clusterName, "manifestwork/"+name) != "" {
				return errors.New("work " + name + " is still being deleted")
			}
			_, err := s.hub.TryKubectl(t.Context(), chaosWork(s.clusterName, name, want[name]), "apply", "-f", "-")
			return err
		})
	}
	harness.Eventually(t, func() error {
		if _, err := s.approveWaiting(t); err != nil {
			return err
		}
		return s.memberHasExactly(t, want)
	})
}

func chaosWork(namespace, name, text string) string {
	return fmt.Sprintf(`
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  workload:
    manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: %[2]s, namespace: hello, labels: {chaos: "true"}}, data: {text: %[3]s}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: %[2]s-%[3]s, namespace: hello, labels: {chaos: "true"}}, data: {text: %[3]s}}
`, namespace, name, text)
}

// retry runs kubectl on the hub until it succeeds, for the webhooks may be away: somebody killed their
// pods, or Kubernetes did not hear of the nodes during an outage, takes them for not ready until they
// have reported again, and with them each of the webhooks, the one a little later than the other.
func (s *story) retry(t *testing.T, stdin string, args ...string) bool {
	t.Helper()
	harness.Eventually(t, func() error {
		_, err := s.hub.TryKubectl(t.Context(), stdin, args...)
		return err
	})
	return true
}

// killPods deletes a random pod of Capstan every few seconds, without grace.
func (s *story) killPods(ctx context.Context, random *rand.Rand) {
	type target struct {
		cluster   harness.Cluster
		namespace string
	}
	targets := []target{
		{s.member, agentNamespace},
		{s.member, agentNamespace},
		{s.member, operatorNamespace},
		{s.hub, hubNamespace},
		{s.hub, operatorNamespace},
	}
	for ticker := time.NewTicker(3 * time.Second); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
		}
		at := targets[random.IntN(len(targets))]
		out, err := at.cluster.TryKubectl(ctx, "", "-n", at.namespace, "get", "pods", "-o", "name")
		if pods := strings.Fields(out); err == nil && len(pods) > 0 {
			// It may be gone already; the next round finds another.
			_, _ = at.cluster.TryKubectl(ctx, "", "-n", at.namespace, "delete", pods[random.IntN(len(pods))], "--grace-period=0", "--force")
		}
	}
}

// memberHasExactly returns an error unless the member has the ConfigMaps that
// the wanted works declare, and no others.
func (s *story) memberHasExactly(t *testing.T, want map[string]string) error {
	t.Helper()
	declared := map[string]string{}
	for name, text := range want {
		if err := s.workIs(t, name); err != nil {
			return err
		}
		declared[name], declared[name+"-"+text] = text, text
	}
	out := s.member.ReadPath(t, "{range .items[*]}{.metadata.name}={.data.text} {end}", "-n", "hello", "configmaps", "-l", "chaos=true")
	found := map[string]string{}
	for pair := range strings.FieldsSeq(out) {
		name, text, _ := strings.Cut(pair, "=")
		found[name] = text
	}
	for name, text := range declared {
		if found[name] != text {
			return fmt.Errorf("the member's ConfigMap %s has %q, want %q", name, found[name], text)
		}
	}
	for name := range found {
		if _, ok := declared[name]; !ok {
			return fmt.Errorf("the member has ConfigMap %s, which no work declares", name)
		}
	}
	return nil
}

func (s *story) switchToSingleton(t *testing.T) {
	s.member.RunKubectl(t, "patch", "klusterlet", "klusterlet", "--type=merge", "-p", `{"spec":{"deployOption":{"mode":"Singleton"}}}`)
	s.member.AwaitThere(t, "-n", agentNamespace, "deployment", "klusterlet-agent")
	s.member.AwaitGone(t, "-n", agentNamespace, "deployment", "klusterlet-registration-agent", "klusterlet-work-agent")
	s.member.RunKubectl(t, "-n", agentNamespace, "rollout", "status", "deployment/klusterlet-agent", "--timeout", harness.Patience.String())
	s.hub.ApplyText(t, fmt.Sprintf(workload, s.clusterName, "singleton"))
	s.memberHas(t, "greeting", "singleton")
	s.isAvailable(t)
}

func (s *story) deleteManagedCluster(t *testing.T) {
	s.hub.RunKubectl(t, "delete", "managedcluster", s.clusterName, "--timeout", harness.Patience.String())
	s.noWorkIsLeft(t)
	s.hub.AwaitGone(t, "clusterrole", "open-cluster-management:managedcluster:"+s.clusterName)
	s.hub.AwaitGone(t, "-n", s.clusterName, "rolebindings", "-l", clusterNameLabel+"="+s.clusterName)
	s.hub.AwaitThere(t, "namespace", s.clusterName) // kept, as documented
}

func (s *story) deleteKlusterlet(t *testing.T) {
	theLab.MakeTarget(t, "clean-spoke", s.variables("Singleton"))
	s.nothingIsLeft(t, s.member)
}

func (s *story) joinAgain(t *testing.T) {
	s.hub.RunKubectl(t, "delete", "managedcluster", s.clusterName, "--ignore-not-found", "--timeout", harness.Patience.String())
	theLab.MakeTarget(t, "deploy-spoke", s.variables("Singleton"))
	s.approveAndAccept(t)
	s.operatorsAreGood(t)
	s.deliver(t)
	// A short lease, so that the hub soon misses the agent that goes next.
	s.hub.RunKubectl(t, "patch", "managedcluster", s.clusterName, "--type=merge", "-p", `{"spec":{"leaseDurationSeconds":10}}`)
}

func (s *story) deleteKlusterletWithoutHub(t *testing.T) {
	if _, err := theLab.RunLab(t.Context(), "stop", "--component", "kube-apiserver", s.hub.Name); err != nil {
		t.Fatal(err)
	}
	s.member.RunKubectl(t, "delete", "klusterlet", "klusterlet", "--timeout", harness.Patience.String())
	s.member.AwaitGone(t, "namespace", agentNamespace)
	s.noWorkIsLeft(t)
	if _, err := theLab.RunLab(t.Context(), "start", s.hub.Name); err != nil {
		t.Fatal(err)
	}
	s.hub.AwaitThere(t, "managedcluster", s.clusterName)
	theLab.MakeTarget(t, "clean-spoke", s.variables("Singleton"))
	s.nothingIsLeft(t, s.member)
}

// deleteClusterManager removes the hub while it still has a work of a cluster
// that is gone: the removal must end, and say what it waited for.
func (s *story) deleteClusterManager(t *testing.T) {
	s.hub.AwaitThere(t, "-n", s.clusterName, "manifestwork", "hello")
	s.hub.AwaitCondition(t, "ManagedClusterConditionAvailable", "Unknown ManagedClusterLeaseUpdateStopped", "managedcluster/"+s.clusterName)
	harness.Eventually(t, func() error {
		if taints := s.hub.ReadPath(t, "{.spec.taints[*].key}", "managedcluster/"+s.clusterName); taints != "cluster.open-cluster-management.io/unreachable" {
			return fmt.Errorf("a silent cluster has the taints %q, want unreachable", taints)
		}
		return nil
	})
	s.hub.RunKubectl(t, "delete", "clustermanager", "cluster-manager", "--wait=false")
	s.hub.AwaitCondition(t, "Deleting", "True", "clustermanager/cluster-manager")
	t.Log(s.hub.ReadCondition(t, "Deleting", "clustermanager/cluster-manager"))
	s.hub.AwaitGone(t, "clustermanager", "cluster-manager")
	theLab.MakeTarget(t, "clean-hub", s.variables("Singleton"))
	s.nothingIsLeft(t, s.hub)
	s.hub.AwaitGone(t, "crd", "managedclusters.cluster.open-cluster-management.io", "manifestworks.work.open-cluster-management.io")
}
