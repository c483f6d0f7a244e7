// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package secretcopy copies Secrets that Clusters refer to into the namespaces of
// the clusters, where their connections use them, and looks again and again at
// clusters that wait for Secrets which do not exist yet.
//
// It does not decide who may have which Secret copied: its callers review that
// before they read one.
package secretcopy
