// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stored has what all views of the hub's objects have in common: clients
// of what the hub stores, and its errors in the words of what is shown.
package stored
