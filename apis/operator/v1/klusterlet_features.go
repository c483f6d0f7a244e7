// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// KlusterletConditionFeaturesLimited reports whether features of the operator are
// off because its role does not allow them, nor lets it allow them to itself. The
// message names each with the rules that turn it on; the operator notices by
// itself when it gets them.
const KlusterletConditionFeaturesLimited = "FeaturesLimited"

// Reasons of KlusterletConditionFeaturesLimited.
const (
	// KlusterletReasonAllFeaturesPermitted (False): the operator may do all that
	// it has to.
	KlusterletReasonAllFeaturesPermitted = "AllFeaturesPermitted"
	// KlusterletReasonPermissionsAdded (False): the role that the operator was
	// given lacked something and let the operator complete it, as those of OCM's
	// charts do. The message says by what.
	KlusterletReasonPermissionsAdded = "PermissionsAdded"
	// KlusterletReasonPermissionsMissing (True): some features are off.
	KlusterletReasonPermissionsMissing = "PermissionsMissing"
)
