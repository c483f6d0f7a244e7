// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/server/features"
)

// runDedicated makes a dedicated hub.
func (m *initCommand) runDedicated(ctx context.Context) error {
	d := &m.dedicated
	d.replicas = m.replicas
	if err := d.checkFlags(); err != nil {
		return err
	}
	if !m.wait {
		return exit.UsageError("--wait=false is for shared hubs: the parts of a dedicated hub depend on one another")
	}
	hub, err := d.hostedHubSpec(m.gates, m.users)
	if err != nil {
		return err
	}
	if m.output != "" {
		options := install.OperatorOptions{Image: m.image}
		objects, err := d.renderObjects(operatorOptions{options, options}, d.controlPlane(nil, m.given), hub)
		if err != nil {
			return err
		}
		return printYAML(m.session.Out, objects.allObjects())
	}
	s, err := openSite(m.session, m.mode, m.timeout)
	if err != nil {
		return err
	}
	return m.session.ExplainError(m.installDedicated(ctx, s, hub))
}

// installDedicated makes the hub step by step; what there is already stays.
func (m *initCommand) installDedicated(ctx context.Context, s *clusterSite, hub operatorv1.ClusterManagerSpec) error {
	d := &m.dedicated
	kubeconfig := hubContext{files: m.session.ConfigFlags().ToRawKubeConfigLoader().ConfigAccess(), name: d.contextName()}
	var before hostState
	var objects dedicatedObjects
	err := s.steps.RunStep("Checking the host", func() (err error) {
		if before, err = d.survey(ctx, s.read); err != nil {
			return err
		}
		if err := d.checkHost(ctx, s.read, before, m.force); err != nil {
			return err
		}
		if err := kubeconfig.checkNameFree(before.hubEndpoint()); err != nil {
			return err
		}
		if objects, err = d.renderObjects(before.currentOptions(m.image), d.controlPlane(before.live, m.given), hub); err != nil {
			return err
		}
		return s.preflight(ctx, objects.allObjects())
	})
	if err != nil {
		return err
	}
	if !m.mode.MakesChanges() {
		return s.dryRunObjects(ctx, objects.allObjects())
	}
	if err := s.putOperator(ctx, before.controlPlane.operator, objects.controlPlaneOperator, true); err != nil {
		return err
	}
	if err := s.putOperator(ctx, before.hub.operator, objects.hubOperator, true); err != nil {
		return err
	}
	if err := d.startHub(ctx, s, objects); err != nil {
		return err
	}
	if err := m.writeHubContext(ctx, s, kubeconfig); err != nil {
		return err
	}
	fmt.Fprint(m.session.Out, nextSteps(kubeconfig.name, hasFeature(hub, features.AggregatedAPI)))
	return nil
}

// currentOptions returns those of the operators: as they are, with the image if one is
// given. Both may have been there before, for other hubs.
func (h hostState) currentOptions(image string) operatorOptions {
	of := func(s operatorSituation) install.OperatorOptions {
		options := install.OperatorOptions{}
		if s.deployment != nil {
			options = install.OptionsOf(s.deployment)
		}
		options.Image = cmp.Or(image, options.Image)
		return options
	}
	return operatorOptions{controlPlane: of(h.controlPlane), hub: of(h.hub)}
}

// startHub makes the control plane and then the hub on it, and waits for both.
func (d *dedicatedHub) startHub(ctx context.Context, s *clusterSite, objects dedicatedObjects) error {
	err := s.steps.RunStep("Starting the control plane "+d.name, func() error {
		if err := install.ApplyObjects(ctx, s.write, objects.controlPlane...); err != nil {
			return err
		}
		return s.newWaiter().AwaitControlPlane(ctx, d.controlPlaneKey())
	})
	if err != nil {
		return err
	}
	return s.steps.RunStep("Starting the hub "+d.name, func() error {
		if err := install.ApplyObjects(ctx, s.write, objects.hub...); err != nil {
			return err
		}
		return s.newWaiter().AwaitClusterManager(ctx, d.name)
	})
}

// writeHubContext writes the context of the hub into the kubeconfig, and says where the hub
// is.
func (m *initCommand) writeHubContext(ctx context.Context, s *clusterSite, kubeconfig hubContext) error {
	d := &m.dedicated
	cp := &fleetv1alpha1.ControlPlane{}
	var expires time.Time
	err := s.steps.RunStep(fmt.Sprintf("Writing the context %s into the kubeconfig", kubeconfig.name), func() error {
		if err := s.read.Get(ctx, d.controlPlaneKey(), cp); err != nil {
			return fmt.Errorf("read ControlPlane %q: %w", d.controlPlaneKey(), err)
		}
		content, err := d.readKubeconfig(ctx, s.read)
		if err != nil {
			return err
		}
		expires, err = kubeconfig.writeContext(cp.Status.Endpoint, content)
		return err
	})
	if err != nil {
		return err
	}
	m.sayDedicated(cp, kubeconfig.name, expires)
	return nil
}

// readKubeconfig returns that of the hub's administrator, which its operator writes.
func (d *dedicatedHub) readKubeconfig(ctx context.Context, c client.Reader) ([]byte, error) {
	key := client.ObjectKey{Namespace: d.name, Name: operatorv1.ExternalHubKubeConfigSecret}
	secret := &corev1.Secret{}
	if err := c.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the hub in Secret %q: %w", key, err)
	}
	return secret.Data[operatorv1.KubeConfigKey], nil
}

// sayDedicated tells where the new hub is.
func (m *initCommand) sayDedicated(cp *fleetv1alpha1.ControlPlane, name string, expires time.Time) {
	out := m.session.Out
	fmt.Fprintf(out, "\nThe dedicated hub %q is ready at %s (Kubernetes %s); it runs on %s.\n", cp.Name, cp.Status.Endpoint, cp.Status.Version, m.session.DescribeTarget())
	if !expires.IsZero() {
		fmt.Fprintf(out, "The credential in context %q is valid until %s; the same command again renews it.\n", name, expires.UTC().Format(time.DateOnly))
	}
	if strings.Contains(cp.Status.Endpoint, ".svc") {
		fmt.Fprintln(out, "Only pods on its host reach this address; --service-type NodePort or LoadBalancer gives it another one.")
	}
}

// hasFeature reports whether a hub that is made of a spec has a feature that is off
// unless it is turned on.
func hasFeature(hub operatorv1.ClusterManagerSpec, gate features.Gate) bool {
	on := operatorv1.FeatureGate{Feature: string(gate), Mode: operatorv1.FeatureGateModeEnable}
	return hub.RegistrationConfiguration != nil && slices.Contains(hub.RegistrationConfiguration.FeatureGates, on)
}

// nextSteps tells what to do with a new hub, whose context has a name. One with the
// Cluster API shows its clusters to kubectl, too.
func nextSteps(name string, clusterAPI bool) string {
	text := fmt.Sprintf(`
Let clusters join:
  capstan token create --context %[1]s --print-register-command   # for clusters that call the hub: run there what this prints
  capstan join NAME --context %[1]s --cluster-kubeconfig FILE     # for clusters that the hub calls
See them:
  capstan get clusters --context %[1]s
`, name)
	if clusterAPI {
		text += fmt.Sprintf("  kubectl get clusters --context %s                        # the same clusters in Karmada's API\n", name)
	}
	return text
}
