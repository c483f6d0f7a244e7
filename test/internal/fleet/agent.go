// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// Agent is an agent to start. Several can be in one member, as each has a
// namespace of its own.
type Agent struct {
	// Number makes the names: of the cluster on the hub, cluster-0, and of the
	// namespace and of the agent ID, agent-0.
	Number int
	Member *Cluster
	// Kubeconfig is the one for the member, by default its administrator's.
	Kubeconfig string
	// Hub is where the agent reaches the hub, by default at the hub itself.
	Hub *clientcmdapi.Cluster
	// Args are further arguments.
	Args []string
}

// Cluster is the name of the agent's cluster on the hub.
func (a Agent) Cluster() string { return fmt.Sprintf("cluster-%d", a.Number) }

// Name is the namespace of the agent, and its ID.
func (a Agent) Name() string { return fmt.Sprintf("agent-%d", a.Number) }

// PrepareAgent makes the namespace of the agent with the bootstrap kubeconfig.
func (f *Fleet) PrepareAgent(ctx context.Context, agent Agent) error {
	bootstrap, err := clientcmd.LoadFromFile(f.Path(bootstrapIdentity + ".kubeconfig"))
	if err != nil {
		return fmt.Errorf("reading the bootstrap kubeconfig: %w", err)
	}
	if agent.Hub != nil {
		bootstrap.Clusters[bootstrap.Contexts[bootstrap.CurrentContext].Cluster] = agent.Hub
	}
	text, err := clientcmd.Write(*bootstrap)
	if err != nil {
		return fmt.Errorf("making the bootstrap kubeconfig: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: agent.Name()}}
	if _, err := agent.Member.Kubernetes.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the namespace of %s: %w", agent.Name(), err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: operatorv1.BootstrapHubKubeConfigSecret, Namespace: agent.Name()},
		Data:       map[string][]byte{"kubeconfig": text},
	}
	if _, err := agent.Member.Kubernetes.CoreV1().Secrets(agent.Name()).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making the bootstrap kubeconfig of %s: %w", agent.Name(), err)
	}
	return nil
}

// StartAgent starts a Singleton agent, which Down stops.
func (f *Fleet) StartAgent(ctx context.Context, agent Agent) (*Process, error) {
	kubeconfig := agent.Kubeconfig
	if kubeconfig == "" {
		kubeconfig = agent.Member.Kubeconfig
	}
	p, err := f.Start(ctx, agent.Name(), append([]string{
		"agent", "--disable-leader-election", "--metrics-port=0", "--health-probe-port=0",
		"--kubeconfig=" + kubeconfig,
		"--agent-namespace=" + agent.Name(),
		"--spoke-cluster-name=" + agent.Cluster(),
		"--agent-id=" + agent.Name(),
		// Agents share a member, which would be one cluster with many names.
		"--cluster-annotations=" + clusterv1.AnnotationClusterUID + "=" + agent.Cluster(),
	}, agent.Args...)...)
	if err != nil {
		return nil, err
	}
	f.Agents = append(f.Agents, p)
	return p, nil
}
