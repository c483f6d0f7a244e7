// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadav1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// KarmadaCluster names the cluster in the Cluster API.
func (c *Column) KarmadaCluster() *karmadav1alpha1.Cluster {
	return &karmadav1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: c.ClusterName()}}
}

// JoinMode is a way for a cluster to be in.
type JoinMode string

const (
	// ModePull is a Klusterlet in mode Default: two agents on the member.
	ModePull JoinMode = "Pull"
	// ModePush has no agent of its own: the push agent on the hub dials it.
	ModePush JoinMode = "Push"
	// ModeHosted is a Klusterlet in mode Hosted: two agents on another cluster,
	// which here is the hub.
	ModeHosted JoinMode = "Hosted"
	// ModeSingleton is a Klusterlet in mode Singleton: one agent on the member.
	ModeSingleton JoinMode = "Singleton"
)

// JoinModes are all modes, in the order of the table.
func JoinModes() []JoinMode { return []JoinMode{ModePull, ModePush, ModeHosted, ModeSingleton} }

// Column is a member in one of the modes.
type Column struct {
	Mode   JoinMode
	Hub    *Hub
	Member *Cluster
	// Pods are where the agents of the member run.
	Pods *pods
}

// ClusterName is the name on the hub.
func (c *Column) ClusterName() string { return strings.ToLower(string(c.Mode)) }

// Hosted is the name of the Klusterlet with hosted agents, and of their
// namespace.
const Hosted = "klusterlet-hosted"

// AgentPods are the Deployments of the agents.
func (c *Column) AgentPods() []client.ObjectKey {
	named := func(namespace string, names ...string) []client.ObjectKey {
		var keys []client.ObjectKey
		for _, name := range names {
			keys = append(keys, client.ObjectKey{Namespace: namespace, Name: name})
		}
		return keys
	}
	switch c.Mode {
	case ModePull:
		return named(operatorv1.DefaultAgentNamespace, "klusterlet-registration-agent", "klusterlet-work-agent")
	case ModeHosted:
		return named(Hosted, Hosted+"-registration-agent", Hosted+"-work-agent")
	case ModeSingleton:
		return named(operatorv1.DefaultAgentNamespace, "klusterlet-agent")
	case ModePush:
		return named(operatorv1.DefaultHubNamespace, "cluster-manager-push-agent")
	}
	panic("no mode " + c.Mode)
}

// StartMember starts the member of a column, with nothing of ours in it but
// what the mode asks the administrator for, and with more controllers of Kubernetes.
func StartMember(t testing.TB, at Setting, m JoinMode, more ...string) *Column {
	t.Helper()
	var definitions []*apiextensionsv1.CustomResourceDefinition
	if m == ModePush {
		var err error
		if definitions, err = config.SpokeCRDs(); err != nil {
			t.Fatal(err)
		}
	}
	c := &Column{Mode: m, Member: StartCluster(t, at, strings.ToLower(string(m)), definitions, more...)}
	if m == ModePull || m == ModeSingleton {
		c.Pods = StartPods(t, c.Member, at.Programs, func(string) []string { return nil })
	}
	return c
}

// AskToJoin installs the agents of the member, which ask the hub to let it in. A Push
// cluster is declared.
func (c *Column) AskToJoin(t testing.TB) {
	t.Helper()
	switch c.Mode {
	case ModePull:
		c.InstallKlusterlet(t, c.Member, "klusterlet", operatorv1.DefaultAgentNamespace, operatorv1.InstallModeDefault)
	case ModeSingleton:
		c.InstallKlusterlet(t, c.Member, "klusterlet", operatorv1.DefaultAgentNamespace, operatorv1.InstallModeSingleton)
	case ModeHosted:
		c.InstallKlusterlet(t, c.Hub.Cluster, Hosted, Hosted, operatorv1.InstallModeHosted)
		c.Member.ApplyText(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: installer, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: installer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: installer, namespace: default}]`)
		c.Hub.ApplySecret(t, Hosted, operatorv1.ExternalManagedKubeConfigSecret, map[string][]byte{
			operatorv1.KubeConfigKey: c.Member.KubeconfigOf(t, "default", "installer"),
		})
	case ModePush:
		c.declare(t)
	}
}

// InstallKlusterlet installs the klusterlet operator and a Klusterlet on a cluster.
func (c *Column) InstallKlusterlet(t testing.TB, on *Cluster, name, namespace string, as operatorv1.InstallMode) {
	t.Helper()
	objects, err := config.Operator(config.KlusterletOperator)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		on.applyObject(t, object)
	}
	on.ApplyText(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+", labels: {"+operatorv1.LabelOperatedBy+": klusterlet}}}")
	on.ApplySecret(t, namespace, operatorv1.BootstrapHubKubeConfigSecret, map[string][]byte{operatorv1.KubeConfigKey: c.Hub.Bootstrap})
	on.ApplyText(t, fmt.Sprintf(`
apiVersion: operator.open-cluster-management.io/v1
kind: Klusterlet
metadata: {name: %s}
spec: {clusterName: %s, deployOption: {mode: %s}}`, name, c.ClusterName(), as))
}

// declare makes a Push cluster as capstan join does: an account in the member,
// and on the hub the ManagedCluster, the Secret and the ClusterConnection.
func (c *Column) declare(t testing.TB) {
	t.Helper()
	system := &corev1.Namespace{}
	if err := c.Hub.Client.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	push := member.PushInstallation{Cluster: c.ClusterName(), Hub: string(system.UID), Namespace: "capstan-cluster"}
	objects, err := push.RenderObjects()
	if err != nil {
		t.Fatal(err)
	}
	objects = append([]render.Object{push.NamespaceObject()}, objects...)
	if _, err := render.NewApplier(c.Member.Client, c.Member.Client, FieldOwner).Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
	token, err := push.RequestToken(t.Context(), c.Member.Client)
	if err != nil {
		t.Fatal(err)
	}
	c.Hub.ApplyText(t, "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: "+c.ClusterName()+"}}")
	c.Hub.ApplyText(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+c.ClusterName()+", labels: {"+clusterv1.LabelClusterName+": "+c.ClusterName()+"}}}")
	c.Hub.ApplySecret(t, c.ClusterName(), fleetv1alpha1.DefaultSecretName, map[string][]byte{
		fleetv1alpha1.SecretKeyToken: []byte(token), fleetv1alpha1.SecretKeyCABundle: c.Member.Config.CAData,
	})
	c.Hub.ApplyText(t, fmt.Sprintf(`
apiVersion: fleet.capstan.io/v1alpha1
kind: ClusterConnection
metadata: {name: %s}
spec: {syncMode: Push, apiEndpoint: %q}`, c.ClusterName(), c.Member.Door.url()))
}

// AcceptCluster lets the member in: its certificate requests are approved, and the
// ManagedCluster is accepted.
func (c *Column) AcceptCluster(t testing.TB) {
	t.Helper()
	c.SetAccepted(t, true)
	if c.Mode == ModePush {
		return // it has no certificate
	}
	Eventually(t, "a certificate request of "+c.ClusterName(), func() error {
		requests := &certificatesv1.CertificateSigningRequestList{}
		if err := c.Hub.Client.List(t.Context(), requests, client.MatchingLabels{clusterv1.LabelClusterName: c.ClusterName()}); err != nil {
			return err
		}
		pending := slices.DeleteFunc(requests.Items, func(r certificatesv1.CertificateSigningRequest) bool { return len(r.Status.Conditions) > 0 })
		if len(pending) == 0 {
			return errors.New("there is none that waits")
		}
		for i := range pending {
			pending[i].Status.Conditions = append(pending[i].Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Administrator",
			})
			if err := c.Hub.Client.SubResource("approval").Update(t.Context(), &pending[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetAccepted has the administrator of the hub accept the cluster, or deny it.
func (c *Column) SetAccepted(t testing.TB, accepted bool) {
	t.Helper()
	c.PatchManaged(t, fmt.Sprintf(`{"spec":{"hubAcceptsClient":%t}}`, accepted))
}

// PatchManaged merges the JSON text into the ManagedCluster.
func (c *Column) PatchManaged(t testing.TB, text string) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: c.ClusterName()}}
	Eventually(t, "patching the ManagedCluster with "+text, func() error {
		return c.Hub.Client.Patch(t.Context(), mc, client.RawPatch("application/merge-patch+json", []byte(text)))
	})
}

// ApplySecret applies a Secret.
func (c *Cluster) ApplySecret(t testing.TB, namespace, name string, data map[string][]byte) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ndata:\n", name, namespace)
	for key, value := range data {
		fmt.Fprintf(&text, "  %s: %s\n", key, base64.StdEncoding.EncodeToString(value))
	}
	c.ApplyText(t, text.String())
}
