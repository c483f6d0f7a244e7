// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/features"
)

// validate refuses what this version cannot install and resolves the feature
// gates. Gates that do not exist are told in a condition and left out.
func (c *Controller) validate(ctx context.Context, p *pass) error {
	spec := p.cm.Spec
	if err := supported(spec); err != nil {
		return err
	}
	older, err := c.olderHub(ctx, p.cm)
	if err != nil {
		return err
	}
	if older != "" {
		// Not a mistakeError: the other one may be deleted.
		return waitError{operatorv1.ClusterManagerReasonAnotherClusterManager, fmt.Sprintf("the cluster has the hub of ClusterManager %q already; delete one of the two", older)}
	}

	registration, work, unknown := gates(spec)
	p.hub.Registration, p.hub.Work = registration, work
	noteGates(p.cm, unknown)
	return nil
}

// supported returns a mistakeError for what this version cannot install.
func supported(spec operatorv1.ClusterManagerSpec) error {
	if mode := spec.DeployOption.Mode; mode != "" && mode != operatorv1.InstallModeDefault {
		return mistakeError{
			operatorv1.ClusterManagerReasonModeNotSupported,
			fmt.Sprintf("deployOption.mode is %q, which this version cannot install; set it to %q",
				mode, operatorv1.InstallModeDefault),
		}
	}
	if spec.RegistrationConfiguration != nil {
		for _, driver := range spec.RegistrationConfiguration.RegistrationDrivers {
			if driver.AuthType != operatorv1.AuthTypeCSR {
				return mistakeError{
					operatorv1.ClusterManagerReasonConfigurationNotSupported,
					fmt.Sprintf("registrationConfiguration.registrationDrivers has authType %q, which this version does not have; there is %q",
						driver.AuthType, operatorv1.AuthTypeCSR),
				}
			}
		}
	}
	if work := spec.WorkConfiguration; work != nil && work.WorkDriver != "" && work.WorkDriver != operatorv1.WorkDriverTypeKube {
		return mistakeError{
			operatorv1.ClusterManagerReasonConfigurationNotSupported,
			fmt.Sprintf("workConfiguration.workDriver is %q, which this version does not have; set it to %q",
				work.WorkDriver, operatorv1.WorkDriverTypeKube),
		}
	}
	return nil
}

// olderHub returns the name of a ClusterManager that was there first: hubs in
// mode Default would share names and namespace.
func (c *Controller) olderHub(ctx context.Context, cm *operatorv1.ClusterManager) (string, error) {
	list := &operatorv1.ClusterManagerList{}
	if err := c.client.List(ctx, list); err != nil {
		return "", fmt.Errorf("listing ClusterManagers: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name == cm.Name || other.Spec.DeployOption.Mode == operatorv1.InstallModeHosted {
			continue
		}
		if other.CreationTimestamp.Before(&cm.CreationTimestamp) ||
			other.CreationTimestamp.Equal(&cm.CreationTimestamp) && other.Name < cm.Name {
			return other.Name, nil
		}
	}
	return "", nil
}

// gates resolves the gates of the spec and returns those that do not exist,
// each with the field that has it.
func gates(spec operatorv1.ClusterManagerSpec) (registration, work features.Set, unknown []string) {
	resolve := func(component features.Component, list []operatorv1.FeatureGate) features.Set {
		set, names := features.Resolve(component, changed(list))
		field := strings.TrimPrefix(string(component), "ClusterManager.spec.")
		for _, name := range names {
			unknown = append(unknown, fmt.Sprintf("%s: %q", field, name))
		}
		return set
	}
	var registrationGates, workGates, addOnGates, placementGates []operatorv1.FeatureGate
	if spec.RegistrationConfiguration != nil {
		registrationGates = spec.RegistrationConfiguration.FeatureGates
	}
	if spec.WorkConfiguration != nil {
		workGates = spec.WorkConfiguration.FeatureGates
	}
	if spec.AddOnManagerConfiguration != nil {
		addOnGates = spec.AddOnManagerConfiguration.FeatureGates
	}
	if spec.PlacementConfiguration != nil {
		placementGates = spec.PlacementConfiguration.FeatureGates
	}
	registration = resolve(features.HubRegistration, registrationGates)
	work = resolve(features.HubWork, workGates)
	resolve(features.HubAddOnManager, addOnGates)
	resolve(features.HubPlacement, placementGates)
	slices.Sort(unknown)
	return registration, work, unknown
}

func changed(list []operatorv1.FeatureGate) map[string]bool {
	gates := map[string]bool{}
	for _, gate := range list {
		gates[gate.Feature] = gate.Mode == operatorv1.FeatureGateModeEnable
	}
	return gates
}
