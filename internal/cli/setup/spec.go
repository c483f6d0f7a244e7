// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/server/features"
)

// hubSpec returns the spec of a hub with the gates, each NAME=true or
// NAME=false, and with users whose clusters are let in without asking.
func hubSpec(gates, users []string) (operatorv1.ClusterManagerSpec, error) {
	changed := map[string]bool{}
	if len(users) > 0 {
		changed[string(features.ManagedClusterAutoApproval)] = true
	}
	for _, gate := range gates {
		name, value, _ := strings.Cut(gate, "=")
		on, err := strconv.ParseBool(value)
		if err != nil {
			return operatorv1.ClusterManagerSpec{}, exit.UsageError("--feature-gates %q: want NAME=true or NAME=false", gate)
		}
		changed[name] = on
	}
	if len(users) > 0 && !changed[string(features.ManagedClusterAutoApproval)] {
		return operatorv1.ClusterManagerSpec{}, exit.UsageError("--auto-approve-users needs the feature gate %s, which --feature-gates turns off", features.ManagedClusterAutoApproval)
	}
	registration := features.GateNames(features.HubRegistration)
	work := features.GateNames(features.HubWork)
	placement := features.GateNames(features.HubPlacement)
	spec := operatorv1.ClusterManagerSpec{}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		gate := operatorv1.FeatureGate{Feature: name, Mode: operatorv1.FeatureGateModeDisable}
		if changed[name] {
			gate.Mode = operatorv1.FeatureGateModeEnable
		}
		switch {
		case slices.Contains(registration, name):
			if spec.RegistrationConfiguration == nil {
				spec.RegistrationConfiguration = &operatorv1.RegistrationHubConfiguration{}
			}
			spec.RegistrationConfiguration.FeatureGates = append(spec.RegistrationConfiguration.FeatureGates, gate)
		case slices.Contains(work, name):
			if spec.WorkConfiguration == nil {
				spec.WorkConfiguration = &operatorv1.WorkConfiguration{}
			}
			spec.WorkConfiguration.FeatureGates = append(spec.WorkConfiguration.FeatureGates, gate)
		case slices.Contains(placement, name):
			if spec.PlacementConfiguration == nil {
				spec.PlacementConfiguration = &operatorv1.PlacementConfiguration{}
			}
			spec.PlacementConfiguration.FeatureGates = append(spec.PlacementConfiguration.FeatureGates, gate)
		default:
			return operatorv1.ClusterManagerSpec{}, exit.UsageError("--feature-gates: unknown feature gate %q; a hub has %s", name, strings.Join(slices.Concat(registration, work, placement), ", "))
		}
	}
	if len(users) > 0 {
		spec.RegistrationConfiguration.AutoApproveUsers = users
	}
	return spec, nil
}
