// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

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
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// mode is a way for a cluster to be in.
type mode string

const (
	// modePull is a Klusterlet in mode Default: two agents on the member.
	modePull mode = "Pull"
	// modePush has no agent of its own: the push agent on the hub dials it.
	modePush mode = "Push"
	// modeHosted is a Klusterlet in mode Hosted: two agents on another cluster,
	// which here is the hub.
	modeHosted mode = "Hosted"
	// modeSingleton is a Klusterlet in mode Singleton: one agent on the member.
	modeSingleton mode = "Singleton"
)

func modes() []mode { return []mode{modePull, modePush, modeHosted, modeSingleton} }

// column is a member in one of the modes.
type column struct {
	mode   mode
	hub    *hub
	member *cluster
	// pods are where the agents of the member run.
	pods *pods
}

// clusterName is the name on the hub.
func (c *column) clusterName() string { return strings.ToLower(string(c.mode)) }

// hosted is the name of the Klusterlet with hosted agents, and of their
// namespace.
const hosted = "klusterlet-hosted"

// agents are the Deployments of the agents.
func (c *column) agents() []client.ObjectKey {
	named := func(namespace string, names ...string) []client.ObjectKey {
		var keys []client.ObjectKey
		for _, name := range names {
			keys = append(keys, client.ObjectKey{Namespace: namespace, Name: name})
		}
		return keys
	}
	switch c.mode {
	case modePull:
		return named(operatorv1.DefaultAgentNamespace, "klusterlet-registration-agent", "klusterlet-work-agent")
	case modeHosted:
		return named(hosted, hosted+"-registration-agent", hosted+"-work-agent")
	case modeSingleton:
		return named(operatorv1.DefaultAgentNamespace, "klusterlet-agent")
	case modePush:
		return named(operatorv1.DefaultHubNamespace, "cluster-manager-push-agent")
	}
	panic("no mode " + c.mode)
}

// startMember starts the member of a column, with nothing of ours in it but
// what the mode asks the administrator for, and with more controllers of Kubernetes.
func startMember(t testing.TB, dir, programs string, m mode, more ...string) *column {
	t.Helper()
	var definitions []*apiextensionsv1.CustomResourceDefinition
	if m == modePush {
		var err error
		if definitions, err = config.SpokeCRDs(); err != nil {
			t.Fatal(err)
		}
	}
	c := &column{mode: m, member: startCluster(t, dir, strings.ToLower(string(m)), definitions, more...)}
	if m == modePull || m == modeSingleton {
		c.pods = startPods(t, c.member, programs, func(string) []string { return nil })
	}
	return c
}

// ask installs the agents of the member, which ask the hub to let it in. A Push
// cluster is declared.
func (c *column) ask(t testing.TB) {
	t.Helper()
	switch c.mode {
	case modePull:
		c.install(t, c.member, "klusterlet", operatorv1.DefaultAgentNamespace, operatorv1.InstallModeDefault)
	case modeSingleton:
		c.install(t, c.member, "klusterlet", operatorv1.DefaultAgentNamespace, operatorv1.InstallModeSingleton)
	case modeHosted:
		c.install(t, c.hub.cluster, hosted, hosted, operatorv1.InstallModeHosted)
		c.member.apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: installer, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: installer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: installer, namespace: default}]`)
		c.hub.secret(t, hosted, operatorv1.ExternalManagedKubeConfigSecret, map[string][]byte{
			operatorv1.KubeConfigKey: c.member.kubeconfigOf(t, "default", "installer"),
		})
	case modePush:
		c.declare(t)
	}
}

// install installs the klusterlet operator and a Klusterlet on a cluster.
func (c *column) install(t testing.TB, on *cluster, name, namespace string, as operatorv1.InstallMode) {
	t.Helper()
	objects, err := config.Operator(config.KlusterletOperator)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		on.applyObject(t, object)
	}
	on.apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+", labels: {"+operatorv1.LabelOperatedBy+": klusterlet}}}")
	on.secret(t, namespace, operatorv1.BootstrapHubKubeConfigSecret, map[string][]byte{operatorv1.KubeConfigKey: c.hub.bootstrap})
	on.apply(t, fmt.Sprintf(`
apiVersion: operator.open-cluster-management.io/v1
kind: Klusterlet
metadata: {name: %s}
spec: {clusterName: %s, deployOption: {mode: %s}}`, name, c.clusterName(), as))
}

// declare makes a Push cluster as capstan join does: an account in the member,
// and on the hub the ManagedCluster, the Secret and the ClusterConnection.
func (c *column) declare(t testing.TB) {
	t.Helper()
	system := &corev1.Namespace{}
	if err := c.hub.client.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	push := member.PushInstallation{Cluster: c.clusterName(), Hub: string(system.UID), Namespace: "capstan-cluster"}
	objects, err := push.RenderObjects()
	if err != nil {
		t.Fatal(err)
	}
	objects = append([]render.Object{push.NamespaceObject()}, objects...)
	if _, err := render.NewApplier(c.member.client, c.member.client, fieldOwner).Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
	token, err := push.RequestToken(t.Context(), c.member.client)
	if err != nil {
		t.Fatal(err)
	}
	c.hub.apply(t, "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: "+c.clusterName()+"}}")
	c.hub.apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+c.clusterName()+", labels: {"+clusterv1.LabelClusterName+": "+c.clusterName()+"}}}")
	c.hub.secret(t, c.clusterName(), fleetv1alpha1.DefaultSecretName, map[string][]byte{
		fleetv1alpha1.SecretKeyToken: []byte(token), fleetv1alpha1.SecretKeyCABundle: c.member.config.CAData,
	})
	c.hub.apply(t, fmt.Sprintf(`
apiVersion: fleet.capstan.io/v1alpha1
kind: ClusterConnection
metadata: {name: %s}
spec: {syncMode: Push, apiEndpoint: %q}`, c.clusterName(), c.member.door.url()))
}

// accept lets the member in: its certificate requests are approved, and the
// ManagedCluster is accepted.
func (c *column) accept(t testing.TB) {
	t.Helper()
	c.setAccepted(t, true)
	if c.mode == modePush {
		return // it has no certificate
	}
	eventually(t, "a certificate request of "+c.clusterName(), func() error {
		requests := &certificatesv1.CertificateSigningRequestList{}
		if err := c.hub.client.List(t.Context(), requests, client.MatchingLabels{clusterv1.LabelClusterName: c.clusterName()}); err != nil {
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
			if err := c.hub.client.SubResource("approval").Update(t.Context(), &pending[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *column) setAccepted(t testing.TB, accepted bool) {
	t.Helper()
	c.patch(t, fmt.Sprintf(`{"spec":{"hubAcceptsClient":%t}}`, accepted))
}

// patch merges the JSON text into the ManagedCluster.
func (c *column) patch(t testing.TB, text string) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: c.clusterName()}}
	eventually(t, "patching the ManagedCluster with "+text, func() error {
		return c.hub.client.Patch(t.Context(), mc, client.RawPatch("application/merge-patch+json", []byte(text)))
	})
}

// secret applies a Secret.
func (c *cluster) secret(t testing.TB, namespace, name string, data map[string][]byte) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ndata:\n", name, namespace)
	for key, value := range data {
		fmt.Fprintf(&text, "  %s: %s\n", key, base64.StdEncoding.EncodeToString(value))
	}
	c.apply(t, text.String())
}
