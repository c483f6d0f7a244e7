// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/testing/background"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/clinic"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/playedhub"
	"github.com/capstan-io/capstan/internal/testing/session"
)

// registered is a member without nodes, in which the test plays what Kubernetes
// and the operator do.
type registered struct {
	*playedhub.PlayedHub
	client     client.Client
	config     *rest.Config
	kubeconfig string
	uid        string
}

// startMember returns a member that is not registered, and the command by which it registers.
func startMember(t *testing.T) (m *registered, command []string) {
	t.Helper()
	m = &registered{PlayedHub: takeHub(t), kubeconfig: filepath.Join(t.TempDir(), "member")}
	var environment *envtest.Environment
	environment, m.config = session.StartMember(t, servers)
	expect.NoError(t, os.WriteFile(m.kubeconfig, environment.KubeConfig, 0o600))
	var err error
	m.client, err = install.NewClient(m.config)
	expect.NoError(t, err)
	system := &corev1.Namespace{}
	playedhub.Eventually(t, func() error { return m.client.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, system) })
	m.uid = string(system.UID)
	// This is what bootstrap tokens may on a hub.
	role := build.ClusterRole("bootstrap", build.AccessRule("certificates.k8s.io", "certificatesigningrequests", "create", "get", "list"),
		build.AccessRule(clusterv1.GroupName, "managedclusters", "create", "get", "list"))
	binding := build.ClusterRoleBinding(role.Name, role.Name, build.GroupSubject(clusterv1.GroupBootstrappers))
	cluster.CreateObjects(t, m.Client, role, binding)
	env.WhenDone(t, func(t testing.TB) {
		if err := errors.Join(m.Client.Delete(t.Context(), binding), m.Client.Delete(t.Context(), role)); err != nil {
			t.Error(err)
		}
	})
	return m, m.token(t)
}

// says calls capstan, expects an exit code and a part of what it says, and returns all of that.
func says(t *testing.T, code int, part string, args ...string) string {
	t.Helper()
	got, out := call(t, args...)
	if got != code || !strings.Contains(out, part) {
		t.Fatalf("%q: exit code %d, want %d with %q:\n%s", args, got, code, part, out)
	}
	return out
}

// token makes a token and returns the command that is printed, without capstan.
func (m *registered) token(t *testing.T, args ...string) []string {
	t.Helper()
	t.Setenv("KUBECONFIG", m.Kubeconfig)
	out := says(t, exit.OK, "capstan register ", append([]string{"token", "create", "--print-register-command"}, args...)...)
	_, command, _ := strings.Cut(out, "capstan register ")
	command, _, _ = strings.Cut(command, "\n") // then come the limits of the token
	words := append([]string{"register"}, strings.Fields(command)...)
	// The API server finds tokens, and rights, by caches of its own: a dry run
	// succeeds a moment later.
	if len(args) == 0 {
		t.Setenv("KUBECONFIG", m.kubeconfig)
		playedhub.Eventually(t, func() error {
			if code, out := call(t, slices.Concat(words, []string{"--cluster-name=probe", "--dry-run=client"})...); code != exit.OK {
				return fmt.Errorf("exit code %d: %s", code, out)
			}
			return nil
		})
	}
	return words
}

// TestRegisterTellsMistakesAndChangesNothing calls register in ways that cannot work.
func TestRegisterTellsMistakesAndChangesNothing(t *testing.T) {
	m, command := startMember(t)
	taken := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
		Name: "taken", Annotations: map[string]string{clusterv1.AnnotationAgentPrefix + "/cluster-uid": "of-another-one"},
	}}
	known := taken.DeepCopy()
	known.Name, known.Annotations[clusterv1.AnnotationAgentPrefix+"/cluster-uid"] = "known", m.uid
	known.Spec.HubAcceptsClient = true // what others say to be counts for nothing
	cluster.CreateObjects(t, m.Client, taken, known)
	address, token, hash := command[1], command[3], command[5]
	id, _, _ := strings.Cut(token, ".")
	bound := m.token(t, "--cluster-name", "edge-*")
	other := m.token(t, "--groups", "system:bootstrappers:other")
	zeros := "sha256:" + strings.Repeat("0", 64)
	with := func(address, token, hash string, more ...string) []string {
		return append([]string{"register", address, "--token", token, "--discovery-token-ca-cert-hash", hash}, more...)
	}
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"no address":                     {with("hub", token, hash), exit.Usage, "is not the address of a hub"},
		"no address of the member":       {with(address, token, hash, "--cluster-endpoint", "edge"), exit.Usage, "https://member.example.com:6443"},
		"no token":                       {[]string{"register", address}, exit.Usage, "--token is missing"},
		"half a token":                   {with(address, id, hash), exit.Usage, "is not a token"},
		"no hash":                        {[]string{"register", address, "--token", token}, exit.Usage, "could pretend to be the hub"},
		"half a hash":                    {with(address, token, "sha256:00"), exit.Usage, "is not the hash of a CA"},
		"a hash of another hub":          {with(address, token, zeros), exit.Failed, "is not the one of the hash: its hash is " + hash},
		"another token's secret":         {with(address, id+".0000000000000000", hash), exit.Failed, "does not match the signature from the hub"},
		"a token that is not there":      {with(address, "zzzzzz.0123456789abcdef", hash), exit.Failed, "has expired, was deleted, or was never"},
		"a token for something else":     {with(address, other[3], hash), exit.Failed, "it is a token for something else"},
		"a token for other names":        {with(address, bound[3], hash, "--cluster-name", "edge"), exit.Failed, "bound to: edge-*"},
		"a name that is taken":           {with(address, token, hash, "--cluster-name", "taken"), exit.Failed, "another cluster uses it"},
		"a cluster that has a name":      {with(address, token, hash, "--cluster-name", "new"), exit.Failed, `the hub already knows this cluster as "known"`},
		"nobody listens":                 {with(clinic.ClosedPort(t), token, hash), exit.NoHub, "cannot reach the hub"},
		"somebody who may not install":   {with(address, token, hash, "--as", "nobody"), exit.Failed, "cannot get resource \"namespaces\""},
		"a context that is not there":    {with(address, token, hash, "--context", "nowhere"), exit.NoMember, "no context \"nowhere\""},
		"flags of another tool":          {with(address, token, hash, "--cluster-name", "known", "--dry-run=server", "--enable-cert-rotation", "--karmada-agent-replicas=2"), exit.OK, "--karmada-agent-replicas has no effect"},
		"a short certificate":            {with(address, token, hash, "--cert-expiration-seconds", "60"), exit.Usage, "less than 600"},
		"a mode that there is not":       {with(address, token, hash, "--mode", "Hosted"), exit.Usage, "unknown mode \"Hosted\""},
		"a name that is no DNS label":    {with(address, token, hash, "--cluster-name", "a.b"), exit.Usage, "--cluster-name"},
		"an address that is only here":   {[]string{"register", address, "--token", token, "--discovery-token-unsafe-skip-ca-verification", "--cluster-name", "known", "--dry-run=client"}, exit.OK, "is a loopback address, so it is not reported to the hub"},
		"what would be done, by a trust": {[]string{"register", address, "--token", token, "--discovery-token-unsafe-skip-ca-verification", "--cluster-name", "known", "--dry-run=client"}, exit.OK, "cluster(known) would join the hub"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", m.kubeconfig)
			says(t, c.code, c.want, c.args...)
		})
	}
	if cluster.ObjectExists(t, m.client, &corev1.Namespace{}, "", operatorv1.DefaultOperatorNamespace) {
		t.Error("something was installed although nothing could come of it")
	}
}

// TestAClusterRegistersWithATokenAndLeavesAgain registers a cluster, twice, then as one that was a Push cluster, and
// unregisters it, twice.
func TestAClusterRegistersWithATokenAndLeavesAgain(t *testing.T) {
	const edgeAddress, hubURL, works = "https://edge.example.com:6443", "https://hub.example.com:6443", 3
	m, command := startMember(t)
	background.RunUntilEnd(t, "playing the member", func(ctx context.Context) error { return m.play(ctx, "edge-1") })
	command = slices.Concat(command, []string{"--cluster-name", "edge-1", "--cluster-endpoint", edgeAddress})
	patient := slices.Concat(command, []string{"--timeout", playedhub.Patience.String()})
	t.Setenv("KUBECONFIG", m.kubeconfig)
	for range 2 {
		out := says(t, exit.OK, "cluster(edge-1) is joined successfully", patient...)
		if !strings.HasSuffix(strings.TrimSpace(out), "\ncluster(edge-1) is joined successfully") {
			t.Fatalf("that the cluster has joined is not said at last:\n%s", out)
		}
		expect.TextHas(t, out, "[preflight] Running pre-flight checks", "[preflight] All pre-flight checks were passed", "Waiting to perform the TLS Bootstrap")
	}
	agent := &operatorv1.Klusterlet{}
	expect.NoError(t, m.client.Get(t.Context(), client.ObjectKey{Name: install.KlusterletName}, agent))
	if servers := agent.Spec.ExternalServerURLs; len(servers) != 1 || servers[0].URL != edgeAddress {
		t.Errorf("the agent reports the addresses %v, want %s", servers, edgeAddress)
	}
	says(t, exit.Failed, `already a member: "edge-1"`, slices.Concat(patient, []string{"--cluster-name", "edge-2"})...)

	// The command returns when the agent has taken over what the hub's agent had delivered, and not before.
	pushed := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, fleetv1alpha1.AnnotationHubURL, hubURL)
	expect.NoError(t, m.Client.Patch(t.Context(), pushed, client.RawPatch("application/merge-patch+json", patch)))
	member, err := client.New(m.config, client.Options{Scheme: m.Scheme})
	expect.NoError(t, err)
	for i := range works {
		cluster.CreateObjects(t, member, &workv1.AppliedManifestWork{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("work-%d", i)},
			Spec:       workv1.AppliedManifestWorkSpec{HubHash: workv1.HubHash(hubURL), AgentID: "of-the-hub", ManifestWorkName: "work"},
		})
	}
	out := says(t, exit.TimedOut, "Waiting to take over what was delivered to the cluster", slices.Concat(command, []string{"--timeout", "1s"})...)
	expect.TextHas(t, out, "0 of 3 AppliedManifestWorks are taken over", "capstan get works -n edge-1")
	taken := make(chan error, 1)
	go func() { taken <- m.takeOver(t.Context(), member) }()
	says(t, exit.OK, "", patient...)
	records := &workv1.AppliedManifestWorkList{}
	expect.NoError(t, member.List(t.Context(), records))
	for _, record := range records.Items {
		if record.Spec.AgentID == "of-the-hub" {
			t.Errorf("%s is still the hub's", record.Name)
		}
	}
	expect.NoError(t, <-taken)

	t.Setenv("KUBECONFIG", m.Kubeconfig)
	leave := []string{"unregister", "edge-1", "--cluster-kubeconfig", m.kubeconfig, "--wait", playedhub.Patience.String()}
	says(t, exit.Failed, `is cluster "edge-1" of its hub, not "edge-2"`, "unregister", "edge-2", "--cluster-kubeconfig", m.kubeconfig)
	says(t, exit.OK, "edge-1 deleted (dry run)", slices.Concat(leave, []string{"--dry-run=client"})...)
	for range 2 { // the second time there is nothing left
		says(t, exit.OK, "cluster(edge-1) is unregistered successfully", leave...)
	}
	for _, name := range []string{operatorv1.DefaultAgentNamespace, operatorv1.DefaultOperatorNamespace} {
		if cluster.ObjectExists(t, m.client, &corev1.Namespace{}, "", name) {
			t.Errorf("the namespace %s is left", name)
		}
	}
	says(t, exit.Failed, `there is no cluster "edge-1"`, "unregister", "edge-1")
}

// takeOver plays the agent, which takes over one record each second.
func (m *registered) takeOver(ctx context.Context, member client.Client) error {
	agent := &operatorv1.Klusterlet{}
	if err := m.client.Get(ctx, client.ObjectKey{Name: install.KlusterletName}, agent); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, time.Second, false, func(ctx context.Context) (bool, error) {
		records := &workv1.AppliedManifestWorkList{}
		if err := member.List(ctx, records); err != nil {
			return false, err
		}
		for i := range records.Items {
			if record := &records.Items[i]; record.Spec.AgentID != string(agent.UID) {
				record.Spec.AgentID = string(agent.UID)
				return false, member.Update(ctx, record)
			}
		}
		return true, nil
	})
}

// play does what Kubernetes, the operator, the agent and the hub would, until
// the context ends.
func (m *registered) play(ctx context.Context, name string) error {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		agent, deployment := &operatorv1.Klusterlet{}, &appsv1.Deployment{}
		if err := m.client.Get(ctx, install.KlusterletOperator().DeploymentKey(), deployment); err == nil && deployment.Status.ObservedGeneration < deployment.Generation {
			return false, ignoreConflict(cluster.RollOutDeployment(ctx, m.client, deployment))
		}
		if err := m.client.Get(ctx, client.ObjectKey{Name: install.KlusterletName}, agent); err == nil && len(agent.Status.Conditions) == 0 {
			return false, ignoreConflict(m.engage(ctx, agent, name))
		}
		return false, ignoreConflict(cluster.EndNamespaces(ctx, m.client))
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// engage lets the agent run and the hub hear of it.
func (m *registered) engage(ctx context.Context, agent *operatorv1.Klusterlet, name string) error {
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{clusterv1.AnnotationAgentPrefix + "/cluster-uid": m.uid},
	}}
	if err := m.Client.Create(ctx, cluster); err != nil {
		return err
	}
	if err := m.Client.Patch(ctx, cluster, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"hubAcceptsClient":true}}`))); err != nil {
		return err
	}
	if err := m.Join(ctx, name); err != nil {
		return err
	}
	agent.Status.ObservedGeneration = agent.Generation
	for _, kind := range []string{operatorv1.KlusterletConditionApplied, operatorv1.KlusterletConditionAvailable, operatorv1.KlusterletJoined} {
		meta.SetStatusCondition(&agent.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test", ObservedGeneration: agent.Generation})
	}
	return m.client.Status().Update(ctx, agent)
}

// ignoreConflict leaves out that somebody else was faster: the next look sees it.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
