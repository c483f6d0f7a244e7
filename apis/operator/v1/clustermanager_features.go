// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// ClusterManagerConditionFeaturesLimited tells whether features of the hub are
// off because the operator may not grant its components what they need: under
// the role that OCM's chart gives it, for example. The message names each
// feature with the rules that turn it on; the operator notices by itself when
// it gets them.
const ClusterManagerConditionFeaturesLimited = "FeaturesLimited"

// Reasons of ClusterManagerConditionFeaturesLimited.
const (
	// ClusterManagerReasonAllFeaturesPermitted (False): the operator may install
	// all features.
	ClusterManagerReasonAllFeaturesPermitted = "AllFeaturesPermitted"
	// ClusterManagerReasonPermissionsMissing (True): some are off. Also a reason of
	// condition Applied (False): the operator may not even look at what it installs.
	ClusterManagerReasonPermissionsMissing = "PermissionsMissing"
)
