// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// ClusterManagerConditionFeaturesLimited reports whether features of the hub
// are off because the operator may not grant its components the permissions
// they need, for example under the role in OCM's chart. The message names each
// feature with the rules that turn it on; the operator picks them up
// automatically.
const ClusterManagerConditionFeaturesLimited = "FeaturesLimited"

// Reasons of ClusterManagerConditionFeaturesLimited.
const (
	// ClusterManagerReasonAllFeaturesPermitted (False): the operator may install
	// all features.
	ClusterManagerReasonAllFeaturesPermitted = "AllFeaturesPermitted"
	// ClusterManagerReasonPermissionsMissing (True): some are off. Also a reason
	// of condition Applied (False): the operator may not even read what it
	// installs.
	ClusterManagerReasonPermissionsMissing = "PermissionsMissing"
)
