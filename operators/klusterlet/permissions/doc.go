// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package permissions finds the permissions that the klusterlet operator uses and
// its role lacks, as the roles of OCM's charts do, adds them where the role allows
// that, and reports what is disabled otherwise.
//
// It does not check what the operator cannot do without: that fails where it is
// needed, and says so there.
package permissions
