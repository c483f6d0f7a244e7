// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package permissions finds out what the role of the klusterlet operator lacks of
// what the operator uses, as the roles of OCM's charts do, completes it where it
// allows that, and says what is off otherwise.
//
// What the operator uses at the least, it does not ask for: that fails where it
// is needed, and says so there.
package permissions
