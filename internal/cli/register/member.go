// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/cli/takeover"
)

// installAgent installs the operator and the agent. Each write may find what it
// writes there already.
func (r *registerCommand) installAgent(ctx context.Context, j *joinFacts) error {
	r.announceStep("Waiting the necessary secret and RBAC")
	operator := install.KlusterletOperator()
	if err := r.installOperator(ctx, operator); err != nil {
		return err
	}
	w := r.newWaiter()
	if err := w.AwaitEstablished(ctx, operator.CRD()); err != nil {
		return err
	}
	if err := r.awaitNamespaceGone(ctx, w); err != nil {
		return err
	}
	kubeconfig, err := r.bootstrapKubeconfig(j)
	if err != nil {
		return err
	}
	objects, err := install.BootstrapSecret(r.namespace, kubeconfig)
	if err != nil {
		return err
	}
	if objects, err = r.withoutForeign(ctx, objects); err != nil {
		return err
	}
	agent, err := install.KlusterletObject(install.KlusterletName, r.klusterletSpec(j))
	if err != nil {
		return err
	}
	return install.ApplyObjects(ctx, r.client, append(objects, agent)...)
}

// awaitNamespaceGone waits until the namespace of an agent that was removed a moment
// ago is gone: what is written into it would go with it.
func (r *registerCommand) awaitNamespaceGone(ctx context.Context, w install.Waiter) error {
	namespace := &corev1.Namespace{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: r.namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the namespace %q: %w", r.namespace, err)
	}
	if namespace.DeletionTimestamp.IsZero() {
		return nil
	}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return w.AwaitGone(ctx, namespace)
}

// klusterletSpec is what the agent is to be.
func (r *registerCommand) klusterletSpec(j *joinFacts) operatorv1.KlusterletSpec {
	spec := operatorv1.KlusterletSpec{
		ClusterName: j.name, Namespace: r.namespace, ExternalServerURLs: serverURLs(j.endpoint),
		DeployOption: operatorv1.KlusterletDeployOption{Mode: operatorv1.InstallMode(r.agents)},
	}
	if r.certificateSeconds > 0 {
		spec.RegistrationConfiguration = &operatorv1.RegistrationConfiguration{ClientCertExpirationSeconds: r.certificateSeconds}
	}
	return spec
}

// withoutForeign leaves out a namespace that somebody else made: what carries
// our label, "unregister" removes.
func (r *registerCommand) withoutForeign(ctx context.Context, objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	namespace := &corev1.Namespace{}
	err := r.client.Get(ctx, client.ObjectKey{Name: r.namespace}, namespace)
	switch {
	case apierrors.IsNotFound(err), namespace.Labels[operatorv1.LabelPartOf] == operatorv1.PartOfCapstan:
		return objects, nil
	case err != nil:
		return nil, fmt.Errorf("read the namespace %q: %w", r.namespace, err)
	}
	return slices.DeleteFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "Namespace" }), nil
}

// installOperator installs the operator, unless somebody else has: then it is
// left as it is.
func (r *registerCommand) installOperator(ctx context.Context, operator install.Operator) error {
	installed, err := operator.Installed(ctx, r.client)
	if err != nil {
		return err
	}
	options := install.OperatorOptions{Image: r.image, InstalledBy: install.ByRegister}
	if installed != nil {
		found := install.OptionsOf(installed)
		if found.InstalledBy != install.ByRegister {
			fmt.Fprintf(r.session.ErrOut, "The operator %q is there already and stays as it is.\n", operator.DeploymentKey())
			return nil
		}
		options.Image = cmp.Or(r.image, found.Image)
	}
	objects, err := operator.RenderObjects(options)
	if err != nil {
		return err
	}
	return install.ApplyObjects(ctx, r.client, objects...)
}

// awaitJoined waits until the hub has let the agent in and hears of it.
func (r *registerCommand) awaitJoined(ctx context.Context, j *joinFacts) error {
	w := r.newWaiter()
	r.announceStep("Waiting klusterlet Deployment")
	if err := w.AwaitDeployment(ctx, install.KlusterletOperator().DeploymentKey()); err != nil {
		return err
	}
	r.announceStep("Waiting to perform the TLS Bootstrap")
	if err := r.awaitAcceptance(ctx, j); err != nil {
		return err
	}
	r.announceStep("Waiting to check cluster exists")
	if err := w.AwaitKlusterlet(ctx, install.KlusterletName); err != nil {
		return err
	}
	if err := r.awaitReady(ctx, j); err != nil {
		return err
	}
	return r.awaitTakenOver(ctx, j)
}

// awaitAcceptance waits until the agent has its certificate and the hub takes it.
func (r *registerCommand) awaitAcceptance(ctx context.Context, j *joinFacts) error {
	var final error
	next := fmt.Sprintf("The agent keeps asking, and the same command continues to wait. %q shows details.",
		"kubectl describe klusterlet "+install.KlusterletName)
	looks := 0
	err := r.newWaiter().PollUntil(ctx, fmt.Sprintf("cluster %q to be accepted", j.name), next, func(ctx context.Context) (bool, string, error) {
		agent := &operatorv1.Klusterlet{}
		if err := r.client.Get(ctx, client.ObjectKey{Name: install.KlusterletName}, agent); err != nil {
			return false, "", err
		}
		joined, why, hopeless := joinState(agent, j.name)
		if looks++; !hopeless {
			looks = 0
		}
		if looks > hopelessLooks { // what it says may be from before this command
			final = exit.Next(fmt.Errorf("cluster %q cannot join: %s", j.name, why), "Nothing more happens until that is fixed. To undo it: capstan unregister %s", j.name)
		}
		return joined || final != nil, why, nil
	})
	if err != nil {
		return err
	}
	return final
}

// hopelessLooks is how many times in a row a reason is seen that does not pass by
// itself before it is believed.
const hopelessLooks = 20

// joinState tells from the Klusterlet whether the cluster has joined, what it
// waits for if not, and whether that is hopeless.
func joinState(agent *operatorv1.Klusterlet, name string) (joined bool, why string, hopeless bool) {
	condition := meta.FindStatusCondition(agent.Status.Conditions, operatorv1.KlusterletJoined)
	if condition == nil || condition.ObservedGeneration < agent.Generation {
		return false, "its operator has not started on it yet", false
	}
	why = condition.Reason + ": " + condition.Message
	switch condition.Reason {
	case operatorv1.JoinReasonWaitingForCSRApproval, operatorv1.JoinReasonWaitingForAcceptance:
		why = fmt.Sprintf("waiting for an administrator of the hub: capstan accept %s", name)
	case operatorv1.JoinReasonCSRDenied, operatorv1.JoinReasonClusterNameTaken, operatorv1.JoinReasonClusterDenied,
		operatorv1.JoinReasonClusterDeleted, operatorv1.JoinReasonBootstrapUnauthorized, operatorv1.JoinReasonBootstrapForbidden,
		operatorv1.JoinReasonHubCertificateUntrusted, operatorv1.JoinReasonUnsupportedMode:
		hopeless = true
	}
	return condition.Status == metav1.ConditionTrue, why, hopeless
}

// awaitReady waits until the hub says that the cluster is ready. It is asked with
// the token; if that has expired meanwhile, the agent's word has to do.
func (r *registerCommand) awaitReady(ctx context.Context, j *joinFacts) error {
	next := fmt.Sprintf("On the hub, %q shows details.", "capstan describe cluster "+j.name)
	return r.newWaiter().PollUntil(ctx, fmt.Sprintf("the hub to see cluster %q ready", j.name), next, func(ctx context.Context) (bool, string, error) {
		cluster := &clusterv1.ManagedCluster{}
		err := j.asks.Get(ctx, client.ObjectKey{Name: j.name}, cluster)
		if apierrors.IsUnauthorized(err) {
			return true, "", nil
		}
		if err != nil {
			return false, "", err
		}
		state := health.ClusterReadiness(cluster)
		return state.Ready == metav1.ConditionTrue, fmt.Sprintf("%s: %s", state.Reason, state.Message), nil
	})
}

// awaitTakenOver waits until the agent has taken over all that an agent of this
// cluster has delivered before, as that of the hub of a Push cluster.
func (r *registerCommand) awaitTakenOver(ctx context.Context, j *joinFacts) error {
	klusterlet := &operatorv1.Klusterlet{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: install.KlusterletName}, klusterlet); err != nil {
		return fmt.Errorf("read Klusterlet %q: %w", install.KlusterletName, err)
	}
	agent := takeover.Agent{ID: string(klusterlet.UID), HubURL: j.hubURL}
	count, err := agent.CountRecords(ctx, r.member.Client)
	if err != nil || count.IsDone() {
		return err
	}
	r.announceStep("Waiting to take over what was delivered to the cluster")
	next := fmt.Sprintf("Keep what the hub has in the member until then: run the same command again to wait longer. On the hub, %q shows which works are stuck.",
		"capstan get works -n "+j.name)
	return r.newWaiter().PollUntil(ctx, "the agent to take over all works", next, func(ctx context.Context) (bool, string, error) {
		count, err := agent.CountRecords(ctx, r.member.Client)
		return err == nil && count.IsDone(), count.String(), err
	})
}
