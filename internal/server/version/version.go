// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version contains the release of Capstan that this executable is, and
// the matching image.
package version

// KubernetesMinimum is the oldest release of Kubernetes that a hub or a member
// may have.
const KubernetesMinimum = "1.30.0"

// release is set by the linker (see the Makefile). It is a semantic version
// without a leading "v".
var release = "0.1.0-dev"

// SemanticVersion returns the semantic version of this build, without a leading "v".
func SemanticVersion() string { return release }

// image is set by the linker (see the Makefile) to the image of this build.
var image = ""

// ImageReference returns the reference of the image with the programs of this build.
func ImageReference() string {
	if image != "" {
		return image
	}
	return "quay.io/capstan-io/capstan:" + release
}
