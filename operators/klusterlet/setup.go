// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/probe"
	"github.com/capstan-io/capstan/operators/klusterlet/hubprobe"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// changedBuffer is how many changed answers of hubs may wait for the controller.
const changedBuffer = 16

// Rules returns the permissions of the agents.
func Rules() (manifests.Rules, error) {
	var rules manifests.Rules
	for component, into := range map[string]*manifests.AgentRules{
		config.RegistrationAgent: &rules.Registration,
		config.WorkAgent:         &rules.Work,
	} {
		cluster, namespaced, err := config.Rules(component)
		if err != nil {
			return manifests.Rules{}, err
		}
		into.Cluster, into.Home = cluster, namespaced
	}
	return rules, nil
}

// Setup adds the operator to the manager: the controller of Klusterlets and the
// one that asks their hubs. The signal is for OLM, and nil without it.
func Setup(mgr ctrl.Manager, settings Settings, upgrade UpgradeSignal) error {
	rules, err := Rules()
	if err != nil {
		return err
	}
	names := []string{operatorv1.BootstrapHubKubeConfigSecret, operatorv1.HubKubeConfigSecret, operatorv1.ExternalManagedKubeConfigSecret}
	names = append(names, memberSecretNames()...)
	if settings.PullSecret != "" {
		names = append(names, settings.PullSecret)
	}
	secrets, err := NewSecretCaches(mgr, names...)
	if err != nil {
		return err
	}
	results := hubprobe.NewResults()
	changed := make(chan event.TypedGenericEvent[*operatorv1.Klusterlet], changedBuffer)
	c := New(Deps{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Secrets: secrets,
		Results: results, Rules: rules, Settings: settings, Clock: clock.RealClock{},
		Events: mgr.GetEventRecorder(FieldOwner), Upgrade: upgrade,
	})
	sources, err := c.sources(secrets)
	if err != nil {
		return err
	}
	answers := source.Channel(changed, &handler.TypedEnqueueRequestForObject[*operatorv1.Klusterlet]{})
	if err := c.SetupWithManager(mgr, append(sources, answers)...); err != nil {
		return fmt.Errorf("setting up the controller of Klusterlets: %w", err)
	}
	probe := hubprobe.NewController(hubprobe.Deps{
		Client: mgr.GetClient(), Secrets: secrets, Prober: probe.Prober{},
		Results: results, Clock: clock.RealClock{}, Changed: changed,
	})
	triggers, err := c.triggers(mgr, secrets)
	if err != nil {
		return err
	}
	if err := probe.SetupWithManager(mgr, triggers...); err != nil {
		return fmt.Errorf("setting up the controller that asks hubs: %w", err)
	}
	return nil
}

// sources are the secrets that the controller of Klusterlets acts on.
func (c *Controller) sources(secrets *SecretCaches) ([]source.Source, error) {
	var list []source.Source
	for name := range secrets.byName {
		to := c.ownersOfNamespaced
		if name == c.Settings.PullSecret {
			to = c.all
		}
		s, err := secrets.Source(name, func(ctx context.Context, secret *corev1.Secret) []reconcile.Request { return to(ctx, secret) })
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// triggers are what makes a hub be asked at once: a change of a credential, or
// of the step of the handshake that the agent reports.
func (c *Controller) triggers(mgr ctrl.Manager, secrets *SecretCaches) ([]source.Source, error) {
	list := []source.Source{source.Kind[client.Object](mgr.GetCache(), &corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.ownersOfNamespaced))}
	for _, name := range []string{operatorv1.BootstrapHubKubeConfigSecret, operatorv1.HubKubeConfigSecret} {
		s, err := secrets.Source(name, func(ctx context.Context, secret *corev1.Secret) []reconcile.Request {
			return c.ownersOfNamespaced(ctx, secret)
		})
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}
