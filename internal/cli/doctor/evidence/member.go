// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/cluster-bootstrap/token/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// klusterletOperator is the name of the Deployment of the operator of a member.
const klusterletOperator = "klusterlet"

// GatherMember reads what there is to know about a member from itself: from the
// cluster that the Klusterlet of the cluster is on.
func GatherMember(ctx context.Context, settings *rest.Config, cluster string) (*MemberEvidence, error) {
	c, err := newEvidenceClient(settings)
	if err != nil {
		return nil, err
	}
	m := &MemberEvidence{Server: settings.Host}
	system := readObject(ctx, c, &corev1.Namespace{ObjectMeta: objectMetaFor("", metav1.NamespaceSystem)})
	m.UID = Reading[string]{Found: system.Found, Err: system.Err}
	if system.Found {
		m.UID.Value = string(system.Value.UID)
	}
	if m.Silent = system.Err != nil && !apierrors.IsForbidden(system.Err); m.Silent {
		return m, nil
	}
	runParallel(
		func() {
			m.Operator = readWorkload(ctx, c, operatorv1.DefaultOperatorNamespace, klusterletOperator, client.MatchingLabels{appLabel: klusterletOperator})
		},
		func() { m.Applied = readList(ctx, c, &workv1.AppliedManifestWorkList{}) },
		func() { m.Klusterlets = readList(ctx, c, &operatorv1.KlusterletList{}) },
		func() { err = m.readAccounts(ctx, c, cluster) },
	)
	if err != nil {
		return nil, err
	}
	if m.Klusterlets.Found {
		m.chooseKlusterlet(ctx, c, cluster)
	}
	if m.Klusterlet != nil {
		m.readAgents(ctx, c, cluster)
	}
	return m, nil
}

// readAccounts reads what the push agent of a hub has in the member.
func (m *MemberEvidence) readAccounts(ctx context.Context, c client.Client, cluster string) error {
	m.Accounts = readList(ctx, c, &corev1.ServiceAccountList{}, client.MatchingLabels{fleetv1alpha1.LabelPushCluster: cluster})
	if !m.Accounts.Found || len(m.Accounts.Value.Items) == 0 {
		return nil
	}
	push := member.PushInstallation{Cluster: cluster, Namespace: m.Accounts.Value.Items[0].Namespace}
	wanted, err := push.RenderObjects()
	if err != nil {
		return err
	}
	m.AccountGrants = findObjects(ctx, c, wanted)
	return nil
}

// chooseKlusterlet finds the Klusterlet of the cluster: the one that has its name, or whose secret
// has it, or the only one, if that has no name.
func (m *MemberEvidence) chooseKlusterlet(ctx context.Context, c client.Client, cluster string) {
	all := m.Klusterlets.Value.Items
	for i := range all {
		if all[i].Spec.ClusterName == cluster {
			m.Klusterlet = &all[i]
			return
		}
	}
	for i := range all {
		secret := readObject(ctx, c, &corev1.Secret{ObjectMeta: objectMetaFor(manifests.AgentNamespace(&all[i]), operatorv1.HubKubeConfigSecret)})
		if secret.Found && string(secret.Value.Data[operatorv1.ClusterNameKey]) == cluster {
			m.Klusterlet = &all[i]
			return
		}
	}
	if len(all) == 1 && all[0].Spec.ClusterName == "" {
		m.Klusterlet = &all[0]
	}
}

// readAgents reads what belongs to the Klusterlet.
func (m *MemberEvidence) readAgents(ctx context.Context, c client.Client, cluster string) {
	k := m.Klusterlet
	namespace := manifests.AgentNamespace(k)
	deployments := map[string]string{manifests.RegistrationDeployment(k): manifests.RegistrationApp, manifests.WorkDeployment(k): manifests.WorkApp}
	names := []string{manifests.RegistrationDeployment(k), manifests.WorkDeployment(k)}
	if manifests.IsSingletonMode(k) {
		deployments = map[string]string{manifests.RegistrationDeployment(k): manifests.SingletonApp}
		names = names[:1]
	}
	m.Agents = make([]Workload, len(names))
	tasks := []func(){
		func() {
			m.Bootstrap = readObject(ctx, c, &corev1.Secret{ObjectMeta: objectMetaFor(namespace, operatorv1.BootstrapHubKubeConfigSecret)})
			m.BootstrapAnswer = probe.Prober{}.ProbeBootstrap(ctx, m.inspectCredential(m.Bootstrap, operatorv1.BootstrapHubKubeConfigSecret))
		},
		func() {
			m.Hub = readObject(ctx, c, &corev1.Secret{ObjectMeta: objectMetaFor(namespace, operatorv1.HubKubeConfigSecret)})
			m.HubAnswer = probe.Prober{}.ProbeHub(ctx, m.inspectCredential(m.Hub, operatorv1.HubKubeConfigSecret), cluster)
		},
		func() {
			m.JoinStatus = readObject(ctx, c, &corev1.ConfigMap{ObjectMeta: objectMetaFor(namespace, operatorv1.JoinStatusConfigMap)})
		},
		func() { m.Grants = findObjects(ctx, c, manifests.MemberAccess(k, manifests.AgentRuleSet{}, "")) },
	}
	for i, name := range names {
		labels := client.MatchingLabels{operatorv1.LabelCreatedByKlusterlet: k.Name, appLabel: deployments[name]}
		tasks = append(tasks, func() { m.Agents[i] = readWorkload(ctx, c, namespace, name, labels) })
	}
	runParallel(tasks...)
}

// inspectCredential reads a kubeconfig. It is not used if it needs anything of the machine
// that this runs on.
func (m *MemberEvidence) inspectCredential(secret Reading[*corev1.Secret], name string) probe.Credential {
	if secret.Err != nil {
		return probe.Credential{}
	}
	var alias *probe.HostAlias
	if a := m.Klusterlet.Spec.HubAPIServerHostAlias; a != nil {
		alias = &probe.HostAlias{IP: a.IP, Hostname: a.Hostname}
	}
	return probe.InspectSecret(secret.Value, manifests.AgentNamespace(m.Klusterlet)+"/"+name, alias)
}

// AgentNamespace returns the namespace of the agents and their secrets; there has to
// be a Klusterlet.
func (m *MemberEvidence) AgentNamespace() string { return manifests.AgentNamespace(m.Klusterlet) }

// Hosted reports whether the agents run on another cluster than their member: then
// it is that other cluster which was looked at.
func (m *MemberEvidence) Hosted() bool {
	return m.Klusterlet != nil && manifests.IsHostedMode(m.Klusterlet)
}

// BootstrapToken returns the part of the bootstrap token to join with that is no
// secret; empty if the member has none, or another kind of credential.
func (m *MemberEvidence) BootstrapToken() string {
	config := m.inspectCredential(m.Bootstrap, operatorv1.BootstrapHubKubeConfigSecret).Config
	if config == nil || !util.IsValidBootstrapToken(config.BearerToken) {
		return ""
	}
	id, _, _ := strings.Cut(config.BearerToken, ".")
	return id
}
