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
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/testing/clinic"
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

// testRegister lets a cluster register with a token, and leave.
func testRegister(t *testing.T, w *playedhub.PlayedHub) {
	environment, restConfig := session.StartMember(t, w.Servers)
	m := &registered{PlayedHub: w, config: restConfig, kubeconfig: filepath.Join(t.TempDir(), "member")}
	if err := os.WriteFile(m.kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if m.client, err = install.NewClient(restConfig); err != nil {
		t.Fatal(err)
	}
	system := &corev1.Namespace{}
	playedhub.Eventually(t, func() error { return m.client.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, system) })
	m.uid = string(system.UID)
	letTokensAsk(t, w)

	command := m.token(t)
	m.isToldMistakes(t, command)
	m.joinsAndLeaves(t, command)
}

// letTokensAsk gives bootstrap tokens what they have on a hub.
func letTokensAsk(t *testing.T, w *playedhub.PlayedHub) {
	t.Helper()
	const name = "bootstrap"
	err := errors.Join(
		w.Client.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list"}},
			{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"create", "get", "list"}},
		}}),
		w.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: clusterv1.GroupBootstrappers}},
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// token makes a token and returns the command that is printed, without capstan.
func (m *registered) token(t *testing.T, args ...string) []string {
	t.Helper()
	t.Setenv("KUBECONFIG", m.Kubeconfig)
	code, out := call(t, append([]string{"token", "create", "--print-register-command"}, args...)...)
	_, command, found := strings.Cut(out, "capstan register ")
	if code != exit.OK || !found {
		t.Fatalf("exit code %d, want a command:\n%s", code, out)
	}
	command, _, _ = strings.Cut(command, "\n") // then come the limits of the token
	words := append([]string{"register"}, strings.Fields(command)...)
	// The API server finds tokens, and rights, by caches of its own: a dry run
	// succeeds a moment later.
	if len(args) == 0 {
		playedhub.Eventually(t, func() error {
			if code, out := m.at(t, slices.Concat(words, []string{"--cluster-name=probe", "--dry-run=client"})...); code != exit.OK {
				return fmt.Errorf("exit code %d: %s", code, out)
			}
			return nil
		})
	}
	return words
}

// at runs capstan where the kubeconfig is that of the member.
func (m *registered) at(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	t.Setenv("KUBECONFIG", m.kubeconfig)
	return call(t, args...)
}

// isToldMistakes calls register in ways that cannot work: nothing is changed then.
func (m *registered) isToldMistakes(t *testing.T, command []string) {
	taken := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
		Name: "taken", Annotations: map[string]string{clusterv1.AnnotationAgentPrefix + "/cluster-uid": "of-another-one"},
	}}
	known := taken.DeepCopy()
	known.Name, known.Annotations[clusterv1.AnnotationAgentPrefix+"/cluster-uid"] = "known", m.uid
	known.Spec.HubAcceptsClient = true // what others say to be counts for nothing
	for _, cluster := range []*clusterv1.ManagedCluster{taken, known} {
		if err := m.Client.Create(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
	}
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
			code, out := m.at(t, c.args...)
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, c.code, c.want, out)
			}
		})
	}
	if err := m.client.Get(t.Context(), client.ObjectKey{Name: operatorv1.DefaultOperatorNamespace}, &corev1.Namespace{}); err == nil {
		t.Error("something was installed although nothing could come of it")
	}
	if err := m.Client.Delete(t.Context(), known); err != nil {
		t.Fatal(err)
	}
}

// edgeAddress is what the member says to be its address.
const edgeAddress = "https://edge.example.com:6443"

// joinsAndLeaves registers a cluster, twice, and unregisters it, twice.
func (m *registered) joinsAndLeaves(t *testing.T, command []string) {
	ctx, stop := context.WithCancel(t.Context())
	played := make(chan error, 1)
	go func() { played <- m.play(ctx, "edge-1") }()
	defer func() {
		stop()
		if err := <-played; err != nil {
			t.Errorf("playing the member: %v", err)
		}
	}()
	command = slices.Concat(command, []string{"--cluster-name", "edge-1", "--cluster-endpoint", edgeAddress})
	m.joins(t, slices.Concat(command, []string{"--timeout", playedhub.Patience.String()}))
	m.takesOver(t, command)
	m.leaves(t)
}

func (m *registered) joins(t *testing.T, command []string) {
	t.Helper()
	for range 2 {
		code, out := m.at(t, command...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if code != exit.OK || lines[len(lines)-1] != "cluster(edge-1) is joined successfully" {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
		for _, want := range []string{"[preflight] Running pre-flight checks", "[preflight] All pre-flight checks were passed", "Waiting to perform the TLS Bootstrap"} {
			if !strings.Contains(out, want) {
				t.Errorf("it does not say %q:\n%s", want, out)
			}
		}
	}
	agent := &operatorv1.Klusterlet{}
	if err := m.client.Get(t.Context(), client.ObjectKey{Name: install.KlusterletName}, agent); err != nil {
		t.Fatal(err)
	}
	if servers := agent.Spec.ExternalServerURLs; len(servers) != 1 || servers[0].URL != edgeAddress {
		t.Errorf("the agent reports the addresses %v, want %s", servers, edgeAddress)
	}
	if code, out := m.at(t, append(command, "--cluster-name", "edge-2")...); code != exit.Failed || !strings.Contains(out, `already a member: "edge-1"`) {
		t.Errorf("a member registers under another name: exit code %d:\n%s", code, out)
	}
}

// takesOver registers a cluster that was a Push cluster: the command returns when
// the agent has taken over what the hub's agent had delivered, and not before.
func (m *registered) takesOver(t *testing.T, command []string) {
	t.Helper()
	const hubURL, works = "https://hub.example.com:6443", 3
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, fleetv1alpha1.AnnotationHubURL, hubURL)
	if err := m.Client.Patch(t.Context(), cluster, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
	member, err := client.New(m.config, client.Options{Scheme: m.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for i := range works {
		record := &workv1.AppliedManifestWork{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("work-%d", i)},
			Spec:       workv1.AppliedManifestWorkSpec{HubHash: workv1.HubHash(hubURL), AgentID: "of-the-hub", ManifestWorkName: "work"},
		}
		if err := member.Create(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	code, out := m.at(t, append(command, "--timeout", "1s")...)
	for _, want := range []string{
		"Waiting to take over what was delivered to the cluster", "0 of 3 AppliedManifestWorks are taken over", "capstan get works -n edge-1",
	} {
		if code != exit.TimedOut || !strings.Contains(out, want) {
			t.Errorf("the agent does not take over: exit code %d, want %q:\n%s", code, want, out)
		}
	}
	taken := make(chan error, 1)
	go func() { taken <- m.takeOver(t.Context(), member) }()
	code, out = m.at(t, append(command, "--timeout", playedhub.Patience.String())...)
	var lasting []string
	records := &workv1.AppliedManifestWorkList{}
	if err := member.List(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	for _, record := range records.Items {
		if record.Spec.AgentID == "of-the-hub" {
			lasting = append(lasting, record.Name)
		}
	}
	if code != exit.OK || len(lasting) > 0 {
		t.Errorf("exit code %d, and %v are still the hub's:\n%s", code, lasting, out)
	}
	if err := <-taken; err != nil {
		t.Errorf("playing the agent: %v", err)
	}
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

func (m *registered) leaves(t *testing.T) {
	t.Helper()
	t.Setenv("KUBECONFIG", m.Kubeconfig)
	leave := []string{"unregister", "edge-1", "--cluster-kubeconfig", m.kubeconfig, "--wait", playedhub.Patience.String()}
	if code, out := call(t, "unregister", "edge-2", "--cluster-kubeconfig", m.kubeconfig); code != exit.Failed || !strings.Contains(out, `is cluster "edge-1" of its hub, not "edge-2"`) {
		t.Errorf("the wrong cluster is unregistered: exit code %d:\n%s", code, out)
	}
	if code, out := call(t, append(leave, "--dry-run=client")...); code != exit.OK || !strings.Contains(out, "edge-1 deleted (dry run)") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	for range 2 { // the second time there is nothing left
		if code, out := call(t, leave...); code != exit.OK || !strings.Contains(out, "cluster(edge-1) is unregistered successfully") {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
	}
	for _, name := range []string{operatorv1.DefaultAgentNamespace, operatorv1.DefaultOperatorNamespace} {
		if err := m.client.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{}); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("the namespace %s is left (%v)", name, err)
		}
	}
	if code, out := call(t, "unregister", "edge-1"); code != exit.Failed || !strings.Contains(out, `there is no cluster "edge-1"`) {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// play does what Kubernetes, the operator, the agent and the hub would, until
// the context ends.
func (m *registered) play(ctx context.Context, name string) error {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		agent, deployment := &operatorv1.Klusterlet{}, &appsv1.Deployment{}
		if err := m.client.Get(ctx, install.KlusterletOperator().DeploymentKey(), deployment); err == nil && deployment.Status.ObservedGeneration < deployment.Generation {
			deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
			return false, ignoreConflict(m.client.Status().Update(ctx, deployment))
		}
		if err := m.client.Get(ctx, client.ObjectKey{Name: install.KlusterletName}, agent); err == nil && len(agent.Status.Conditions) == 0 {
			return false, ignoreConflict(m.engage(ctx, agent, name))
		}
		return false, ignoreConflict(m.endNamespaces(ctx))
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

// endNamespaces ends the namespaces that are being deleted.
func (m *registered) endNamespaces(ctx context.Context) error {
	namespaces := &corev1.NamespaceList{}
	if err := m.client.List(ctx, namespaces); err != nil {
		return err
	}
	for i := range namespaces.Items {
		if namespace := &namespaces.Items[i]; !namespace.DeletionTimestamp.IsZero() {
			namespace.Spec.Finalizers = nil
			if err := m.client.SubResource("finalize").Update(ctx, namespace); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
}
